// Where partitions and datasets are: the table every agent answers Flight calls from.
//
// One job: keep what the coordinator pushes (control.proto), and find names in it. The bytes of
// each location are kept beside its fields, so that Python gets the same message that was pushed.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flight/asking.hpp"
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
  // Whether it is a state of a stream, which is listed under a descriptor of its own.
  bool is_state() const {
    return !parts.empty() && parts[0].transaction.starts_with("view.state.");
  }
  bool owns(const std::string& agent, size_t partition) const {
    return std::ranges::find(owners_of(partition), agent) != owners_of(partition).end();
  }
};

using EdgePtr = std::shared_ptr<const EdgeLocation>;
using DatasetPtr = std::shared_ptr<const DatasetLocation>;

// One message of the coordinator.
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

// What an applied message took away, so that the agent can remove files.
struct Changes {
  bool applied = true;
  std::vector<std::string> dropped_jobs;
  std::vector<DatasetPtr> dropped_datasets;
};

// The table. Messages are versioned; an older one that arrives late changes nothing. Thread-safe;
// what it gives out is never changed.
class Directory {
 public:
  uint64_t version() const;

  // Take over a pushed message unless a newer one was applied already. A message of version 0
  // answers a question of ours (`locate`): it only adds, and does not count as a version.
  Changes apply(const Locations& message);

  // Add the answer to a question of ours: unknown names, newer datasets, fuller edges.
  void merge(const Locations& message);

  // Take a dataset out before the coordinator's message arrives: we dropped it ourselves.
  void forget_dataset(const std::string& name);

  EdgePtr edge(const std::string& job, const std::string& node_path) const;
  EdgePtr edge_numbered(const std::string& job, uint32_t edge) const;
  // By job and node path; of one job only when `job` is not null.
  std::vector<EdgePtr> edges(const std::string* job = nullptr) const;
  DatasetPtr dataset(const std::string& name) const;
  std::vector<DatasetPtr> datasets() const;  // by name
  // Where the agent's Flight server listens, as advertised; empty when it is not connected.
  std::string address(const std::string& agent) const;
  std::map<std::string, std::string> addresses() const;

 private:
  struct Tables {
    std::map<std::pair<std::string, std::string>, EdgePtr> edges;
    std::map<std::string, DatasetPtr> datasets;
    std::map<std::string, std::string> addresses;
  };

  std::set<std::string> jobs() const;
  // A full table: what it does not mention is gone.
  Changes replace(const Locations& message);
  void add(const Locations& message, bool newer_only);
  Changes drop(const Locations& message);

  mutable std::shared_mutex mutex_;
  Tables tables_;
  uint64_t version_ = 0;
};

// Finding what a descriptor or ticket names: the table first, then one question. The coordinator
// pushes locations; a name the table lacks costs one control call, whose answer Python merges into
// the table.
class Finder {
 public:
  Finder(const Asking& ask, std::shared_ptr<Directory> table)
      : ask_(ask), table_(std::move(table)) {}

  const Directory& table() const { return *table_; }
  const Asking& asking() const { return ask_; }

  // Asks for news of an exchange that is not complete here: whom the coordinator told of the job's
  // end may be here before the news is. While it does not answer, what is known stands.
  void refresh(const std::string& job, const std::string& node_path) const;

  // The exchange at `node_path` of `job`.
  arrow::Result<EdgePtr> edge(const std::string& job, const std::string& node_path) const;

  // The exchange a ticket names, with `producers` when they are anywhere: the agent that gave the
  // ticket may have heard of them a moment before this one.
  arrow::Result<EdgePtr> edge_numbered(const std::string& job, uint32_t edge,
                                       const std::vector<ProducerAttempt>& producers) const;

  // The newest version of a dataset.
  arrow::Result<DatasetPtr> dataset(const std::string& name) const;

  // Where an agent listens; `what` it holds is named when it is not connected.
  arrow::Result<std::string> address(const std::string& agent, const std::string& what) const;

 private:
  Asking ask_;
  std::shared_ptr<Directory> table_;
};

}  // namespace fabric
