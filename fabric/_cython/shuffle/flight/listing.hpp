// What there is to read, as FlightInfos (design 4.3).
//
// One job: locations to FlightInfo. One endpoint per (partition, producing agent), of datasets per
// partition, the partition number as text in the endpoint's app_metadata; locations are the agent's
// advertised address, of datasets those of all owners that are connected, and then
// arrow-flight-reuse-connection://?, because every agent also passes on what others hold. What can
// be read again says until when; a tap can't.
#pragma once
#include "flight/finder.hpp"
#include "flight/paths.hpp"
#include "flight/view.hpp"

namespace fabric {

inline fl::Timestamp timestamp(double wall_s) {
  const std::chrono::duration<double> since(wall_s);
  return fl::Timestamp(std::chrono::duration_cast<std::chrono::nanoseconds>(since));
}

// What a descriptor stands for: itself, or what its command was answered by.
struct Named {
  std::vector<AnyPath> paths;
  std::optional<std::string> said;  // instead of our own app_metadata
};

class Listing {
 public:
  Listing(const Asking& ask, const Finder& finder, std::string ticket_key, double ticket_s)
      : ask_(ask), finder_(finder), key_(std::move(ticket_key)), ticket_s_(ticket_s) {}

  const std::string& ticket_key() const { return key_; }
  double ticket_s() const { return ticket_s_; }

  arrow::Result<Named> named(const fl::FlightDescriptor& descriptor, const Claims& claims) const {
    Named found;
    if (descriptor.type != fl::FlightDescriptor::CMD) {
      ARROW_ASSIGN_OR_RAISE(found.paths.emplace_back(), path_of(descriptor));
      return found;
    }
    CommandAnswer answer;
    ARROW_RETURN_NOT_OK(ask_.command(ask_.face.get(), claims, descriptor.cmd, answer));
    for (const std::vector<std::string>& path : answer.paths) {
      ARROW_ASSIGN_OR_RAISE(found.paths.emplace_back(), parse_path(path));
    }
    if (found.paths.empty()) return not_readable();
    if (answer.own_words) found.said = std::move(answer.app_metadata);
    return found;
  }

  // What is told of `named` from here on is all there is now. Who polls needs none of this.
  void refresh(const Named& named) const {
    for (const AnyPath& path : named.paths) {
      if (const auto* job = std::get_if<JobPath>(&path)) finder_.refresh(job->job, job->node_path);
    }
  }

  // All endpoints of what `descriptor` names; those of pipelined edges are taps.
  arrow::Result<fl::FlightInfo> info(const fl::FlightDescriptor& descriptor, const Named& named,
                                     const View& view) const {
    ARROW_ASSIGN_OR_RAISE(fl::FlightInfo::Data info, of_path(named.paths[0], view));
    for (size_t i = 1; i < named.paths.size(); ++i) {
      ARROW_ASSIGN_OR_RAISE(fl::FlightInfo::Data more, of_path(named.paths[i], view));
      append(info, std::move(more));
    }
    if (named.said) {
      info.app_metadata = *named.said;
      for (fl::FlightEndpoint& endpoint : info.endpoints) endpoint.app_metadata = *named.said;
    }
    info.descriptor = descriptor;
    return fl::FlightInfo(std::move(info));
  }

  // The schema of what is named, as Arrow IPC; of several things, of the first.
  arrow::Result<std::string> schema(const Named& named) const {
    if (const auto* dataset = std::get_if<DatasetPath>(&named.paths[0])) {
      ARROW_ASSIGN_OR_RAISE(const DatasetPtr found, finder_.dataset(dataset->name));
      return found->schema;
    }
    if (const auto* job = std::get_if<JobPath>(&named.paths[0])) {
      ARROW_ASSIGN_OR_RAISE(const EdgePtr found, finder_.edge(job->job, job->node_path));
      return found->schema;
    }
    return not_readable();
  }

  // Everything whose path begins with `criteria`: elements joined by '/', empty for all. For
  // example dataset, dataset/flights, job/job-1a2b or job/job-1a2b/enrich.
  arrow::Result<std::vector<fl::FlightInfo>> all(std::string_view criteria,
                                                 const View& view) const {
    const std::vector<std::string> wanted = elements(criteria);
    std::vector<fl::FlightInfo> found;
    for (const DatasetPtr& dataset : finder_.table().datasets()) {
      if (begins({"dataset", dataset->name}, wanted)) {
        found.emplace_back(of_dataset(*dataset, view));
      }
    }
    for (const EdgePtr& edge : finder_.table().edges()) {
      std::vector<std::string> path = elements(edge->node_path);
      path.insert(path.begin(), {"job", edge->job});
      const bool gone = edge->mode == MODE_PIPELINED && edge->state != 0;
      if (gone || !begins(path, wanted)) continue;
      ARROW_ASSIGN_OR_RAISE(fl::FlightInfo::Data info, of_edge(*edge, std::nullopt, view));
      found.emplace_back(std::move(info));
    }
    return found;
  }

  // The ticket of an endpoint, and until when its rows can be read, again and again.
  void sign(fl::FlightEndpoint& endpoint, const Ticket& ticket, double release_s) const {
    double expires_s = ask_.wall_s() + ticket_s_;
    if (release_s > 0) expires_s = std::min(expires_s, release_s);
    endpoint.ticket.ticket = make_ticket(key_, ticket, expires_s);
    endpoint.expiration_time.reset();
    if (!is_tap(ticket)) endpoint.expiration_time = timestamp(expires_s);
  }

 private:
  arrow::Result<fl::FlightInfo::Data> of_path(const AnyPath& path, const View& view) const {
    if (const auto* dataset = std::get_if<DatasetPath>(&path)) {
      ARROW_ASSIGN_OR_RAISE(const DatasetPtr found, finder_.dataset(dataset->name));
      return of_dataset(*found, view);
    }
    if (const auto* job = std::get_if<JobPath>(&path)) {
      ARROW_ASSIGN_OR_RAISE(const EdgePtr found, finder_.edge(job->job, job->node_path));
      return of_edge(*found, job->partition, view);
    }
    return not_readable();
  }

  static void append(fl::FlightInfo::Data& info, fl::FlightInfo::Data more) {
    std::ranges::move(more.endpoints, std::back_inserter(info.endpoints));
    const auto sum = [](int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a + b; };
    info.total_records = sum(info.total_records, more.total_records);
    info.total_bytes = sum(info.total_bytes, more.total_bytes);
    info.ordered = false;
  }

  fl::FlightInfo::Data of_dataset(const DatasetLocation& location, const View& view) const {
    DatasetTicket ticket{location.name, location.version, 0, location.parts};
    fl::FlightInfo::Data info;
    for (; location.whole() && ticket.partition < location.n_partitions; ++ticket.partition) {
      const auto owners = location.owners_of(ticket.partition);
      info.endpoints.push_back(endpoint(ticket, ticket.partition, owners, 0, view));
    }
    info.schema = location.schema;
    info.descriptor = fl::FlightDescriptor::Path({"dataset", location.name});
    info.total_records = static_cast<int64_t>(location.rows);
    std::string keys;
    for (const std::string& key : location.keys) {
      keys += (keys.empty() ? "" : ", ") + json_text(key);
    }
    info.app_metadata =
        "{\"version\": " + std::to_string(location.version) + ", \"keys\": [" + keys + "]}";
    return info;
  }

  arrow::Result<fl::FlightInfo::Data> of_edge(const EdgeLocation& location,
                                              std::optional<uint32_t> partition,
                                              const View& view) const {
    const bool pipelined = location.mode == MODE_PIPELINED;
    if (pipelined && location.state != 0) {
      return fault("NotFoundError",
                   "the exchange was pipelined and its job has ended: its rows were not kept; one "
                   "with mode='materialised' keeps them",
                   {.job = location.job, .node = location.node_path});
    }
    // Every partition of a broadcast holds the same rows: reading one is reading all.
    const uint32_t n = location.kind == EDGE_BROADCAST ? 1 : location.n_partitions;
    if (partition && *partition >= n) {
      return fault("NotFoundError",
                   "the exchange has partitions 0 to " + std::to_string(int64_t{n} - 1) +
                       ", not " + std::to_string(*partition),
                   {.job = location.job, .node = location.node_path});
    }
    std::map<std::string, std::vector<ProducerAttempt>> by_agent;
    for (const ProducerPlace& producer : location.producers) {
      by_agent[producer.agent].push_back({producer.task, producer.attempt});
    }
    for (auto& [agent, producers] : by_agent) std::ranges::sort(producers);
    fl::FlightInfo::Data info;
    const uint32_t begin = partition.value_or(0), end = partition ? begin + 1 : n;
    for (uint32_t p = begin; p < end; ++p) {
      for (const auto& [agent, producers] : by_agent) {
        PartitionTicket ticket{location.job, location.edge, location.node_path, p, producers};
        if (pipelined) {
          ticket.tap = view.tap;
          if (location.kind == EDGE_FORWARD) keep_writers(ticket, n);
          if (ticket.producers.empty()) continue;
        }
        info.endpoints.push_back(endpoint(ticket, p, {&agent, 1}, location.release_s, view));
      }
    }
    info.schema = location.schema;
    info.descriptor = fl::FlightDescriptor::Path({"job", location.job, location.node_path});
    if (partition) info.descriptor.path.push_back(std::to_string(*partition));
    if (location.complete && !partition && !pipelined) {
      info.total_records = static_cast<int64_t>(location.rows);
      info.total_bytes = static_cast<int64_t>(location.bytes);
    }
    const auto json = [](bool value) { return value ? "true" : "false"; };
    info.app_metadata = std::string("{\"complete\": ") + json(location.complete) +
                        ", \"result\": " + json(location.is_result) +
                        (pipelined ? ", \"tap\": true}" : "}");
    info.ordered = location.ordered && location.complete;
    return info;
  }

  static arrow::Status not_readable() {
    return fault("NotFoundError", "this descriptor can't be read; it names a put or a state");
  }

  // Those producers that write to the partition of a forward edge: one.
  static void keep_writers(PartitionTicket& ticket, uint32_t n) {
    std::erase_if(ticket.producers,
                  [&](const auto& one) { return one.task % n != ticket.partition; });
  }

  fl::FlightEndpoint endpoint(const Ticket& ticket, uint32_t partition,
                              std::span<const std::string> agents, double release_s,
                              const View& view) const {
    fl::FlightEndpoint made;
    sign(made, ticket, release_s);
    for (const std::string& agent : agents) {
      const std::string address = finder_.table().address(agent);
      if (view.places != Places::ALL || !address.starts_with("grpc")) continue;
      auto location = fl::Location::Parse(address);
      if (location.ok()) made.locations.push_back(std::move(*location));
    }
    if (view.places != Places::NONE) made.locations.push_back(fl::Location::ReuseConnection());
    made.app_metadata = std::to_string(partition);
    return made;
  }

  static std::vector<std::string> elements(std::string_view text) {
    std::vector<std::string> found;
    while (!text.empty()) {
      const size_t end = std::min(text.find('/'), text.size());
      if (end > 0) found.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return found;
  }

  static bool begins(const std::vector<std::string>& path, const std::vector<std::string>& wanted) {
    return path.size() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), path.begin());
  }

  Asking ask_;
  Finder finder_;
  std::string key_;
  double ticket_s_;
};

}  // namespace fabric
