// Where one exchange or dataset is, read from the coordinator's protobuf (control.proto).
//
// One job: decode. The bytes of each location are kept beside its fields, so that Python gets the
// same message that was pushed.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wire/ticket.hpp"

namespace fabric {

constexpr uint32_t EDGE_BROADCAST = 2, EDGE_FORWARD = 5, MODE_PIPELINED = 2;  // EdgeKind, EdgeMode
constexpr uint32_t JOB_RUNNING = 2, JOB_FAILED = 4, JOB_CANCELLED = 5;  // JobState

struct ProducerPlace {
  uint32_t task = 0, attempt = 0;
  std::string agent;
};

struct EdgeLocation {
  std::string wire;  // the message itself
  std::string job, node_path;
  uint32_t edge = 0;
  std::string schema;  // Arrow IPC
  uint32_t n_partitions = 0, kind = 0, mode = 0;
  std::vector<ProducerPlace> producers;  // those whose output is sealed
  bool complete = false;
  uint64_t rows = 0, bytes = 0;
  bool is_result = false;
  uint32_t n_producers = 0;  // sealed or not; 0: not said
  uint32_t state = 0;        // of the job, once it ended
  double release_s = 0;      // wall time; 0: not known yet
  std::string error;         // of a job that failed or was cancelled
  bool ordered = false;      // one partition after the other holds the rows in order
};

struct DatasetLocation {
  std::string wire;
  std::string name;
  uint64_t version = 0;
  std::string schema;
  std::vector<std::string> keys;
  uint32_t n_partitions = 0;
  std::vector<std::string> owners;  // agent ids, `replicas` a partition; "": nobody at the moment
  std::vector<DatasetPart> parts;
  uint64_t rows = 0;
  uint32_t replicas = 1;

  bool whole() const {
    return n_partitions > 0 && owners.size() == size_t{n_partitions} * replicas;
  }
  // Of one partition, places without an owner included; the location is `whole`.
  std::span<const std::string> owners_of(size_t partition) const {
    return std::span(owners).subspan(partition * replicas, replicas);
  }
  bool owns(const std::string& agent, size_t partition) const {
    return std::ranges::find(owners_of(partition), agent) != owners_of(partition).end();
  }
};

using EdgePtr = std::shared_ptr<const EdgeLocation>;
using DatasetPtr = std::shared_ptr<const DatasetLocation>;

struct Locations {
  uint64_t version = 0;
  bool full = false;
  std::vector<EdgePtr> edges;
  std::vector<DatasetPtr> datasets;
  std::map<std::string, std::string> addresses;
  std::vector<std::string> dropped_jobs, dropped_datasets;
};

inline bool decode_place(std::string_view bytes, ProducerPlace& out) {
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.field() == 1) out.task = in.number32();
    if (in.field() == 2) out.attempt = in.number32();
    if (in.field() == 3) out.agent = in.text();
  }
  return in.ok();
}

inline bool decode_edge(std::string_view bytes, std::vector<EdgePtr>& all) {
  auto out = std::make_shared<EdgeLocation>();
  out->wire = bytes;
  ProtoReader in(bytes);
  bool whole = true;
  while (whole && in.next()) {
    switch (in.field()) {
      case 1: out->job = in.text(); break;
      case 2: out->node_path = in.text(); break;
      case 3: out->edge = in.number32(); break;
      case 4: out->schema = in.bytes(); break;
      case 5: out->n_partitions = in.number32(); break;
      case 6: out->kind = in.number32(); break;
      case 7: out->mode = in.number32(); break;
      case 8: whole = decode_place(in.bytes(), out->producers.emplace_back()); break;
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
  }
  all.push_back(std::move(out));
  return whole && in.ok();
}

inline bool decode_dataset(std::string_view bytes, std::vector<DatasetPtr>& all) {
  auto out = std::make_shared<DatasetLocation>();
  out->wire = bytes;
  ProtoReader in(bytes);
  bool whole = true;
  while (whole && in.next()) {
    switch (in.field()) {
      case 1: out->name = in.text(); break;
      case 2: out->version = in.number(); break;
      case 3: out->schema = in.bytes(); break;
      case 4: out->keys.emplace_back(in.text()); break;
      case 5: out->n_partitions = in.number32(); break;
      case 6: out->owners.emplace_back(in.text()); break;
      case 7: whole = decode_part(in.bytes(), out->parts.emplace_back()); break;
      case 8: out->rows = in.number(); break;
      case 9: out->replicas = std::max(1u, in.number32()); break;
      default: break;
    }
  }
  all.push_back(std::move(out));
  return whole && in.ok();
}

inline bool decode_address(std::string_view bytes, std::map<std::string, std::string>& all) {
  ProtoReader in(bytes);
  std::string agent, address;
  while (in.next()) {
    if (in.field() == 1) agent = in.text();
    if (in.field() == 2) address = in.text();
  }
  all[agent] = address;
  return in.ok();
}

inline arrow::Result<Locations> decode_locations(std::string_view bytes) {
  ProtoReader in(bytes);
  Locations out;
  bool whole = true;
  while (whole && in.next()) {
    switch (in.field()) {
      case 1: out.version = in.number(); break;
      case 2: out.full = in.number() != 0; break;
      case 3: whole = decode_edge(in.bytes(), out.edges); break;
      case 4: whole = decode_dataset(in.bytes(), out.datasets); break;
      case 5: whole = decode_address(in.bytes(), out.addresses); break;
      case 6: out.dropped_jobs.emplace_back(in.text()); break;
      case 7: out.dropped_datasets.emplace_back(in.text()); break;
      default: break;
    }
  }
  if (!whole || !in.ok()) return fault("DataError", "the coordinator's locations are damaged");
  return out;
}

}  // namespace fabric
