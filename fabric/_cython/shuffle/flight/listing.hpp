// What there is to read, as FlightInfos (design 4.3).
//
// One job: locations to FlightInfo. One endpoint per (partition, producing agent), the partition
// number as text in the endpoint's app_metadata; locations are the agent's advertised address and
// then arrow-flight-reuse-connection://?, because every agent also passes on what others hold.
#pragma once
#include "flight/finder.hpp"
#include "flight/paths.hpp"

namespace fabric {

inline fl::Timestamp timestamp(double wall_s) {
  const std::chrono::duration<double> since(wall_s);
  return fl::Timestamp(std::chrono::duration_cast<std::chrono::nanoseconds>(since));
}

class Listing {
 public:
  Listing(const Asking& ask, const Finder& finder, std::string ticket_key, double ticket_s)
      : ask_(ask), finder_(finder), key_(std::move(ticket_key)), ticket_s_(ticket_s) {}

  const std::string& ticket_key() const { return key_; }
  double ticket_s() const { return ticket_s_; }

  // All endpoints of what a descriptor names; those of pipelined edges are taps.
  arrow::Result<fl::FlightInfo> info(const fl::FlightDescriptor& descriptor, TapMode tap) const {
    ARROW_ASSIGN_OR_RAISE(const AnyPath path, path_of(descriptor));
    if (const auto* dataset = std::get_if<DatasetPath>(&path)) {
      ARROW_ASSIGN_OR_RAISE(const DatasetPtr found, finder_.dataset(dataset->name));
      return of_dataset(*found);
    }
    if (const auto* job = std::get_if<JobPath>(&path)) {
      ARROW_ASSIGN_OR_RAISE(const EdgePtr found, finder_.edge(job->job, job->node_path));
      return of_edge(*found, job->partition, tap);
    }
    return not_readable();
  }

  // The schema of what a descriptor names, as Arrow IPC.
  arrow::Result<std::string> schema(const fl::FlightDescriptor& descriptor) const {
    ARROW_ASSIGN_OR_RAISE(const AnyPath path, path_of(descriptor));
    if (const auto* dataset = std::get_if<DatasetPath>(&path)) {
      ARROW_ASSIGN_OR_RAISE(const DatasetPtr found, finder_.dataset(dataset->name));
      return found->schema;
    }
    if (const auto* job = std::get_if<JobPath>(&path)) {
      ARROW_ASSIGN_OR_RAISE(const EdgePtr found, finder_.edge(job->job, job->node_path));
      return found->schema;
    }
    return not_readable();
  }

  // Everything whose path begins with `criteria`: elements joined by '/', empty for all. For
  // example dataset, dataset/flights, job/job-1a2b or job/job-1a2b/enrich.
  arrow::Result<std::vector<fl::FlightInfo>> all(std::string_view criteria, TapMode tap) const {
    const std::vector<std::string> wanted = elements(criteria);
    std::vector<fl::FlightInfo> found;
    for (const DatasetPtr& dataset : finder_.table().datasets()) {
      if (begins({"dataset", dataset->name}, wanted)) found.push_back(of_dataset(*dataset));
    }
    for (const EdgePtr& edge : finder_.table().edges()) {
      std::vector<std::string> path = elements(edge->node_path);
      path.insert(path.begin(), {"job", edge->job});
      const bool gone = edge->mode == MODE_PIPELINED && edge->state != 0;
      if (gone || !begins(path, wanted)) continue;
      ARROW_ASSIGN_OR_RAISE(fl::FlightInfo info, of_edge(*edge, std::nullopt, tap));
      found.push_back(std::move(info));
    }
    return found;
  }

  fl::FlightInfo of_dataset(const DatasetLocation& location) const {
    DatasetTicket ticket{location.name, location.version, 0, location.parts};
    fl::FlightInfo::Data info;
    for (const std::string& owner : location.owners) {
      info.endpoints.push_back(endpoint(ticket, ticket.partition, owner));
      ++ticket.partition;
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
    return fl::FlightInfo(std::move(info));
  }

  arrow::Result<fl::FlightInfo> of_edge(const EdgeLocation& location,
                                        std::optional<uint32_t> partition, TapMode tap) const {
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
          ticket.tap = tap;
          if (location.kind == EDGE_FORWARD) keep_writers(ticket, n);
          if (ticket.producers.empty()) continue;
        }
        info.endpoints.push_back(endpoint(ticket, p, agent));
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
    return fl::FlightInfo(std::move(info));
  }

 private:
  static arrow::Status not_readable() {
    return fault("NotFoundError", "this descriptor can't be read; it names a put or a state");
  }

  // Those producers that write to the partition of a forward edge: one.
  static void keep_writers(PartitionTicket& ticket, uint32_t n) {
    std::erase_if(ticket.producers,
                  [&](const auto& one) { return one.task % n != ticket.partition; });
  }

  fl::FlightEndpoint endpoint(const Ticket& ticket, uint32_t partition,
                              const std::string& agent) const {
    const double expires_s = ask_.wall_s() + ticket_s_;
    fl::FlightEndpoint made;
    made.ticket.ticket = make_ticket(key_, ticket, expires_s);
    const std::string address = finder_.table().address(agent);
    if (address.starts_with("grpc")) {
      auto location = fl::Location::Parse(address);
      if (location.ok()) made.locations.push_back(std::move(*location));
    }
    made.locations.push_back(fl::Location::ReuseConnection());
    made.expiration_time = timestamp(expires_s);
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
