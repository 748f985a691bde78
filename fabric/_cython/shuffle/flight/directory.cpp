// The table of locations: reading what the coordinator pushes, keeping it, finding names in it.
#include "flight/directory.hpp"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>

#include <algorithm>
#include <iterator>
#include <mutex>

#include "flight/text.hpp"
#include "wire/fault.hpp"
#include "wire/proto.hpp"
#include "wire/ticket.hpp"

namespace fabric {
namespace {

bool decode_place(std::string_view bytes, ProducerPlace& out) {
  return read_fields(bytes, [&](ProtoReader& in) {
    if (in.field() == 1) out.task = in.number32();
    if (in.field() == 2) out.attempt = in.number32();
    if (in.field() == 3) out.agent = in.text();
  });
}

bool decode_edge(std::string_view bytes, std::vector<EdgePtr>& all) {
  auto out = std::make_shared<EdgeLocation>();
  out->wire = bytes;
  const bool whole = read_fields(bytes, [&](ProtoReader& in) {
    switch (in.field()) {
      case 1: out->job = in.text(); break;
      case 2: out->node_path = in.text(); break;
      case 3: out->edge = in.number32(); break;
      case 4: out->schema = in.bytes(); break;
      case 5: out->n_partitions = in.number32(); break;
      case 6: out->kind = in.number32(); break;
      case 7: out->mode = in.number32(); break;
      case 8: in.require(decode_place(in.bytes(), out->producers.emplace_back())); break;
      case 9: out->complete = in.number() != 0; break;
      case 10: out->rows = in.number(); break;
      case 11: out->bytes = in.number(); break;
      case 12: out->is_result = in.number() != 0; break;
      case 13: out->n_producers = in.number32(); break;
      case 14: out->state = in.number32(); break;
      case 15: out->release_s = in.real(); break;
      case 16: out->error = in.text(); break;
      case 17: out->ordered = in.number() != 0; break;
      default: break;
    }
  });
  all.push_back(std::move(out));
  return whole;
}

bool decode_address(std::string_view bytes, std::map<std::string, std::string>& all) {
  std::string agent, address;
  const bool whole = read_fields(bytes, [&](ProtoReader& in) {
    if (in.field() == 1) agent = in.text();
    if (in.field() == 2) address = in.text();
  });
  all[agent] = address;
  return whole;
}

bool holds(const EdgeLocation& edge, const std::vector<ProducerAttempt>& producers) {
  return std::ranges::all_of(producers, [&](const ProducerAttempt& wanted) {
    return std::ranges::any_of(edge.producers, [&](const ProducerPlace& known) {
      return known.task == wanted.task && known.attempt == wanted.attempt;
    });
  });
}

std::string some(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 20); ++i) {
    text += (text.empty() ? "" : ", ") + names[i];
  }
  return text.empty() ? "none" : text;
}

}  // namespace

bool decode_dataset(std::string_view bytes, std::vector<DatasetPtr>& all) {
  auto out = std::make_shared<DatasetLocation>();
  out->wire = bytes;
  const bool whole = read_fields(bytes, [&](ProtoReader& in) {
    switch (in.field()) {
      case 1: out->name = in.text(); break;
      case 2: out->version = in.number(); break;
      case 3: out->schema = in.bytes(); break;
      case 4: out->keys.emplace_back(in.text()); break;
      case 5: out->n_partitions = in.number32(); break;
      case 6: out->owners.emplace_back(in.text()); break;
      case 7: in.require(decode_part(in.bytes(), out->parts.emplace_back())); break;
      case 8: out->rows = in.number(); break;
      case 9: out->replicas = std::max(1u, in.number32()); break;
      default: break;
    }
  });
  all.push_back(std::move(out));
  return whole;
}

arrow::Result<Locations> decode_locations(std::string_view bytes) {
  Locations out;
  const bool whole = read_fields(bytes, [&](ProtoReader& in) {
    switch (in.field()) {
      case 1: out.version = in.number(); break;
      case 2: out.full = in.number() != 0; break;
      case 3: in.require(decode_edge(in.bytes(), out.edges)); break;
      case 4: in.require(decode_dataset(in.bytes(), out.datasets)); break;
      case 5: in.require(decode_address(in.bytes(), out.addresses)); break;
      case 6: out.dropped_jobs.emplace_back(in.text()); break;
      case 7: out.dropped_datasets.emplace_back(in.text()); break;
      default: break;
    }
  });
  if (!whole) return fault("DataError", "the coordinator's locations are damaged");
  return out;
}

arrow::Result<std::shared_ptr<arrow::Schema>> read_schema(const std::string& bytes) {
  arrow::io::BufferReader in(std::make_shared<arrow::Buffer>(bytes));
  arrow::ipc::DictionaryMemo memo;
  return arrow::ipc::ReadSchema(&in, &memo);
}

uint64_t Directory::version() const {
  std::shared_lock lock(mutex_);
  return version_;
}

Changes Directory::apply(const Locations& message) {
  std::unique_lock lock(mutex_);
  if (message.version != 0 && message.version < version_) return {false, {}, {}};
  if (message.full && message.version != 0) return replace(message);
  version_ = std::max(version_, message.version);
  add(message, message.version == 0);
  return drop(message);
}

void Directory::merge(const Locations& message) {
  std::unique_lock lock(mutex_);
  add(message, true);
}

void Directory::forget_dataset(const std::string& name) {
  std::unique_lock lock(mutex_);
  tables_.datasets.erase(name);
}

EdgePtr Directory::edge(const std::string& job, const std::string& node_path) const {
  std::shared_lock lock(mutex_);
  const auto found = tables_.edges.find({job, node_path});
  return found == tables_.edges.end() ? nullptr : found->second;
}

EdgePtr Directory::edge_numbered(const std::string& job, uint32_t edge) const {
  std::shared_lock lock(mutex_);
  for (auto at = tables_.edges.lower_bound({job, ""});
       at != tables_.edges.end() && at->first.first == job; ++at) {
    if (at->second->edge == edge) return at->second;
  }
  return nullptr;
}

std::vector<EdgePtr> Directory::edges(const std::string* job) const {
  std::shared_lock lock(mutex_);
  std::vector<EdgePtr> found;
  auto at = job == nullptr ? tables_.edges.begin() : tables_.edges.lower_bound({*job, ""});
  for (; at != tables_.edges.end() && (job == nullptr || at->first.first == *job); ++at) {
    found.push_back(at->second);
  }
  return found;
}

DatasetPtr Directory::dataset(const std::string& name) const {
  std::shared_lock lock(mutex_);
  const auto found = tables_.datasets.find(name);
  return found == tables_.datasets.end() ? nullptr : found->second;
}

std::vector<DatasetPtr> Directory::datasets() const {
  std::shared_lock lock(mutex_);
  std::vector<DatasetPtr> found;
  for (const auto& [name, dataset] : tables_.datasets) found.push_back(dataset);
  return found;
}

std::string Directory::address(const std::string& agent) const {
  std::shared_lock lock(mutex_);
  const auto found = tables_.addresses.find(agent);
  return found == tables_.addresses.end() ? std::string() : found->second;
}

std::map<std::string, std::string> Directory::addresses() const {
  std::shared_lock lock(mutex_);
  return tables_.addresses;
}

std::set<std::string> Directory::jobs() const {
  std::set<std::string> found;
  for (const auto& [key, edge] : tables_.edges) found.insert(key.first);
  return found;
}

Changes Directory::replace(const Locations& message) {
  const std::set<std::string> before = jobs();
  const std::map<std::string, DatasetPtr> datasets = std::move(tables_.datasets);
  tables_ = {};
  version_ = message.version;
  add(message, false);
  const std::set<std::string> now = jobs();
  Changes changes;
  std::ranges::set_difference(before, now, std::back_inserter(changes.dropped_jobs));
  for (const auto& [name, dataset] : datasets) {
    if (!tables_.datasets.contains(name)) changes.dropped_datasets.push_back(dataset);
  }
  return changes;
}

void Directory::add(const Locations& message, bool newer_only) {
  for (const EdgePtr& edge : message.edges) {
    EdgePtr& known = tables_.edges[{edge->job, edge->node_path}];
    const bool fuller = known == nullptr || edge->producers.size() > known->producers.size();
    if (!newer_only || fuller) known = edge;
  }
  for (const DatasetPtr& dataset : message.datasets) {
    DatasetPtr& known = tables_.datasets[dataset->name];
    if (!newer_only || known == nullptr || dataset->version > known->version) known = dataset;
  }
  for (const auto& [agent, address] : message.addresses) {
    if (newer_only) {
      tables_.addresses.try_emplace(agent, address);
    } else {
      tables_.addresses[agent] = address;
    }
  }
}

Changes Directory::drop(const Locations& message) {
  Changes changes;
  changes.dropped_jobs = message.dropped_jobs;
  for (const std::string& job : message.dropped_jobs) {
    const auto begin = tables_.edges.lower_bound({job, ""});
    auto end = begin;
    while (end != tables_.edges.end() && end->first.first == job) ++end;
    tables_.edges.erase(begin, end);
  }
  for (const std::string& name : message.dropped_datasets) {
    const auto found = tables_.datasets.find(name);
    if (found == tables_.datasets.end()) continue;
    changes.dropped_datasets.push_back(found->second);
    tables_.datasets.erase(found);
  }
  return changes;
}

void Finder::refresh(const std::string& job, const std::string& node_path) const {
  const EdgePtr known = table_->edge(job, node_path);
  if (known == nullptr || known->complete) return;
  if (known->mode == MODE_PIPELINED || known->state != 0) return;
  (void)ask_.locate(ask_.face.get(), job, "");
}

arrow::Result<EdgePtr> Finder::edge(const std::string& job, const std::string& node_path) const {
  EdgePtr found = table_->edge(job, node_path);
  if (found == nullptr) {
    ARROW_RETURN_NOT_OK(ask_.locate(ask_.face.get(), job, ""));
    found = table_->edge(job, node_path);
  }
  if (found != nullptr) return found;
  std::vector<std::string> known;
  for (const EdgePtr& edge : table_->edges(&job)) known.push_back(edge->node_path);
  return fault("NotFoundError", "job " + job + " has no readable partitions at " +
                                    quoted(node_path) + "; readable now: " + some(known) +
                                    "; a step that is fused with others is tapped when the job "
                                    "was submitted with configure(path, tap=True)",
               {.job = job, .node = node_path});
}

arrow::Result<EdgePtr> Finder::edge_numbered(
    const std::string& job, uint32_t edge, const std::vector<ProducerAttempt>& producers) const {
  EdgePtr found = table_->edge_numbered(job, edge);
  if (found == nullptr || !holds(*found, producers)) {
    ARROW_RETURN_NOT_OK(ask_.locate(ask_.face.get(), job, ""));
    found = table_->edge_numbered(job, edge);
  }
  if (found != nullptr) return found;
  return fault("NotFoundError", "the partitions of job " + job + " are gone; was it released?",
               {.job = job});
}

arrow::Result<DatasetPtr> Finder::dataset(const std::string& name) const {
  DatasetPtr found = table_->dataset(name);
  if (found == nullptr) {
    ARROW_RETURN_NOT_OK(ask_.locate(ask_.face.get(), "", name));
    found = table_->dataset(name);
  }
  if (found != nullptr) return found;
  std::vector<std::string> known;
  for (const DatasetPtr& dataset : table_->datasets()) {
    if (!dataset->is_state()) known.push_back(dataset->name);
  }
  return fault("NotFoundError",
               "there is no dataset " + quoted(name) + "; known: " + some(known));
}

arrow::Result<std::string> Finder::address(const std::string& agent,
                                           const std::string& what) const {
  std::string found = table_->address(agent);
  if (!found.empty()) return found;
  return fault("PeerLostError", what + " lies with agent " + agent +
                                    ", which is not connected; start it again",
               {.agent = agent});
}

}  // namespace fabric
