// Where partitions and datasets are: the table every agent answers Flight calls from.
//
// One job: keep what the coordinator pushes. Messages are versioned; an older one that arrives late
// changes nothing. Thread-safe; what it gives out is never changed.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

namespace fabric {

struct EdgeLocation;  // these three: `locations.hpp`
struct DatasetLocation;
struct Locations;
using EdgePtr = std::shared_ptr<const EdgeLocation>;
using DatasetPtr = std::shared_ptr<const DatasetLocation>;

// What an applied message took away, so that the agent can remove files.
struct Changes {
  bool applied = true;
  std::vector<std::string> dropped_jobs;
  std::vector<DatasetPtr> dropped_datasets;
};

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

}  // namespace fabric
