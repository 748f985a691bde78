// Locations to FlightInfos, with signed tickets, and the progress of jobs.
#include "flight/listing.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "flight/directory.hpp"
#include "flight/text.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

fl::Timestamp timestamp(double wall_s) {
  const std::chrono::duration<double> since(wall_s);
  return fl::Timestamp(std::chrono::duration_cast<std::chrono::nanoseconds>(since));
}

void append(fl::FlightInfo::Data& info, fl::FlightInfo::Data more) {
  std::ranges::move(more.endpoints, std::back_inserter(info.endpoints));
  const auto sum = [](int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a + b; };
  info.total_records = sum(info.total_records, more.total_records);
  info.total_bytes = sum(info.total_bytes, more.total_bytes);
  info.ordered = false;
}

arrow::Status not_readable() {
  return fault("NotFoundError", "this descriptor can't be read; it names a put");
}

// Those producers that write to the partition of a forward edge: one.
void keep_writers(PartitionTicket& ticket, uint32_t n) {
  std::erase_if(ticket.producers,
                [&](const auto& one) { return one.task % n != ticket.partition; });
}

std::vector<std::string> elements(std::string_view text) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const size_t end = std::min(text.find('/'), text.size());
    if (end > 0) found.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

bool begins(const std::vector<std::string>& path, const std::vector<std::string>& wanted) {
  return path.size() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), path.begin());
}

arrow::Status ended(const EdgeLocation& edge) {
  const bool failed = edge.state == JOB_FAILED;
  return fault(failed ? "NotFoundError" : "CancelledError",
               "job " + edge.job + (failed ? " failed" : " was cancelled") + " before " +
                   quoted(edge.node_path) + " was complete",
               {.job = edge.job, .node = edge.node_path});
}

std::optional<double> progress(const EdgeLocation& edge) {
  if (edge.n_producers == 0) return std::nullopt;
  return std::min(1.0, static_cast<double>(edge.producers.size()) / edge.n_producers);
}

// Of several exchanges the one that is least far; nothing when one does not say.
std::optional<double> least(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(std::min(*a, *b)) : std::nullopt;
}

}  // namespace

bool set_tap(View& view, std::string_view word) {
  if (word != "lossy" && word != "lossless") return false;
  view.tap = word == "lossy" ? TapMode::LOSSY : TapMode::LOSSLESS;
  return true;
}

bool set_places(View& view, std::string_view word) {
  if (word != "all" && word != "reuse" && word != "none") return false;
  view.places = word == "all" ? Places::ALL : word == "reuse" ? Places::REUSE : Places::NONE;
  return true;
}

const ViewOption* view_option(std::string_view name) {
  for (const ViewOption& option : VIEW_OPTIONS) {
    if (name == option.name) return &option;
  }
  return nullptr;
}

arrow::Result<Named> Listing::named(const fl::FlightDescriptor& descriptor,
                                    const Claims& claims) const {
  Named found;
  if (descriptor.type != fl::FlightDescriptor::CMD) {
    ARROW_ASSIGN_OR_RAISE(AnyPath path, path_of(descriptor));
    if (std::holds_alternative<StatePath>(path)) {
      ARROW_ASSIGN_OR_RAISE(path, state(descriptor.path));
    }
    found.paths.push_back(std::move(path));
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

arrow::Result<AnyPath> Listing::state(const std::vector<std::string>& path) const {
  if (ask_.states == nullptr) return fault("NotFoundError", "there are no states of streams here");
  std::vector<StateDataset> found;
  ARROW_RETURN_NOT_OK(ask_.states(ask_.face.get(), path, found));
  if (found.size() != 1) return fault("NotFoundError", "this descriptor names no state");
  return DatasetPath{std::move(found[0].dataset)};
}

arrow::Status Listing::add_states(const std::vector<std::string>& wanted, const View& view,
                                  std::vector<fl::FlightInfo>& all) const {
  // A list of everything is answered without Python; states are in it when they are asked for.
  if (ask_.states == nullptr || wanted.empty() || wanted[0] != "state") return arrow::Status::OK();
  std::vector<StateDataset> found;
  std::vector<std::string> path{"state"};
  if (wanted.size() > 1) path.push_back(wanted[1]);  // one job: what is wrong with it is an error
  ARROW_RETURN_NOT_OK(ask_.states(ask_.face.get(), path, found));
  for (StateDataset& each : found) {
    std::vector<std::string> own;
    for (const std::string& element : each.path) {
      std::ranges::move(elements(element), std::back_inserter(own));
    }
    if (!begins(own, wanted)) continue;
    ARROW_ASSIGN_OR_RAISE(const DatasetPtr dataset, finder_.dataset(each.dataset));
    fl::FlightInfo::Data info = of_dataset(*dataset, view);
    info.descriptor = fl::FlightDescriptor::Path(std::move(each.path));
    all.emplace_back(std::move(info));
  }
  return arrow::Status::OK();
}

void Listing::refresh(const Named& named) const {
  for (const AnyPath& path : named.paths) {
    if (const auto* job = std::get_if<JobPath>(&path)) finder_.refresh(job->job, job->node_path);
  }
}

arrow::Result<fl::FlightInfo> Listing::info(const fl::FlightDescriptor& descriptor,
                                            const Named& named, const View& view) const {
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

arrow::Result<std::string> Listing::schema(const Named& named) const {
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

arrow::Result<std::vector<fl::FlightInfo>> Listing::all(std::string_view criteria,
                                                        const View& view) const {
  const std::vector<std::string> wanted = elements(criteria);
  std::vector<fl::FlightInfo> found;
  for (const DatasetPtr& dataset : finder_.table().datasets()) {
    if (!dataset->is_state() && begins({"dataset", dataset->name}, wanted)) {
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
  ARROW_RETURN_NOT_OK(add_states(wanted, view, found));
  return found;
}

void Listing::sign(fl::FlightEndpoint& endpoint, const Ticket& ticket, double release_s) const {
  double expires_s = ask_.wall_s() + ticket_s_;
  if (release_s > 0) expires_s = std::min(expires_s, release_s);
  endpoint.ticket.ticket = make_ticket(key_, ticket, expires_s);
  endpoint.expiration_time.reset();
  if (!is_tap(ticket)) endpoint.expiration_time = timestamp(expires_s);
}

arrow::Result<fl::FlightInfo::Data> Listing::of_path(const AnyPath& path, const View& view) const {
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

fl::FlightInfo::Data Listing::of_dataset(const DatasetLocation& location, const View& view) const {
  DatasetTicket ticket{location.name, location.version, 0, location.parts};
  fl::FlightInfo::Data info;
  for (; location.whole() && ticket.partition < location.n_partitions; ++ticket.partition) {
    const auto owners = location.owners_of(ticket.partition);
    info.endpoints.push_back(endpoint(ticket, ticket.partition, owners, 0, view));
  }
  info.schema = location.schema;
  info.descriptor = fl::FlightDescriptor::Path({"dataset", location.name});
  const bool live = !location.parts.empty() && location.parts[0].transaction.ends_with(".live");
  info.total_records = live || location.is_state() ? -1 : static_cast<int64_t>(location.rows);
  std::string keys;
  for (const std::string& key : location.keys) {
    keys += (keys.empty() ? "" : ", ") + json_text(key);
  }
  info.app_metadata =
      "{\"version\": " + std::to_string(location.version) + ", \"keys\": [" + keys + "]}";
  return info;
}

arrow::Result<fl::FlightInfo::Data> Listing::of_edge(const EdgeLocation& location,
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

fl::FlightEndpoint Listing::endpoint(const Ticket& ticket, uint32_t partition,
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

arrow::Result<fl::PollInfo> Listing::poll(const fl::FlightDescriptor& descriptor,
                                          const Claims& claims, const View& view) const {
  ARROW_ASSIGN_OR_RAISE(const Named found, named(descriptor, claims));
  fl::PollInfo answer;
  answer.progress = 1.0;
  for (const AnyPath& path : found.paths) {
    const auto* job = std::get_if<JobPath>(&path);
    if (job == nullptr) continue;
    ARROW_ASSIGN_OR_RAISE(const EdgePtr edge, finder_.edge(job->job, job->node_path));
    if (edge->complete) continue;
    if (edge->state == JOB_FAILED || edge->state == JOB_CANCELLED) return ended(*edge);
    answer.descriptor = descriptor;
    answer.progress = least(answer.progress, progress(*edge));
    answer.expiration_time = timestamp(ask_.wall_s() + ticket_s_);
  }
  // Last: what is complete now must be told whole.
  ARROW_ASSIGN_OR_RAISE(fl::FlightInfo told, info(descriptor, found, view));
  answer.info = std::make_unique<fl::FlightInfo>(std::move(told));
  return answer;
}

}  // namespace fabric
