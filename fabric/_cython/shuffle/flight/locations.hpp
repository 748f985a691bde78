// Where one exchange or dataset is, read from the coordinator's protobuf (control.proto).
//
// One job: decode. The bytes of each location are kept beside its fields, so that Python gets the
// same message that was pushed. What they do is in `directory.cpp`.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

// Appends one location; false when its bytes are damaged.
bool decode_dataset(std::string_view bytes, std::vector<DatasetPtr>& all);

arrow::Result<Locations> decode_locations(std::string_view bytes);

// The `schema` of a location.
arrow::Result<std::shared_ptr<arrow::Schema>> read_schema(const std::string& bytes);

}  // namespace fabric
