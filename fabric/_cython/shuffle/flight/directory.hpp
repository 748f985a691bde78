// Where partitions and datasets are: the table every agent answers Flight calls from.
//
// One job: keep what the coordinator pushes. Messages are versioned; an older one that arrives late
// changes nothing. Thread-safe; what it gives out is never changed.
#pragma once
#include <algorithm>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "flight/locations.hpp"

namespace fabric {

// What an applied message took away, so that the agent can remove files.
struct Changes {
  bool applied = true;
  std::vector<std::string> dropped_jobs;
  std::vector<DatasetPtr> dropped_datasets;
};

class Directory {
 public:
  uint64_t version() const {
    std::shared_lock lock(mutex_);
    return version_;
  }

  // Take over a pushed message unless a newer one was applied already. A message of version 0
  // answers a question of ours (`locate`): it only adds, and does not count as a version.
  Changes apply(const Locations& message) {
    std::unique_lock lock(mutex_);
    if (message.version != 0 && message.version < version_) return {false, {}, {}};
    if (message.full && message.version != 0) return replace(message);
    version_ = std::max(version_, message.version);
    add(message, message.version == 0);
    return drop(message);
  }

  // Add the answer to a question of ours: unknown names, newer datasets, fuller edges.
  void merge(const Locations& message) {
    std::unique_lock lock(mutex_);
    add(message, true);
  }

  // Take a dataset out before the coordinator's message arrives: we dropped it ourselves.
  void forget_dataset(const std::string& name) {
    std::unique_lock lock(mutex_);
    tables_.datasets.erase(name);
  }

  EdgePtr edge(const std::string& job, const std::string& node_path) const {
    std::shared_lock lock(mutex_);
    const auto found = tables_.edges.find({job, node_path});
    return found == tables_.edges.end() ? nullptr : found->second;
  }
  EdgePtr edge_numbered(const std::string& job, uint32_t edge) const {
    std::shared_lock lock(mutex_);
    for (auto at = tables_.edges.lower_bound({job, ""});
         at != tables_.edges.end() && at->first.first == job; ++at) {
      if (at->second->edge == edge) return at->second;
    }
    return nullptr;
  }
  // By job and node path; of one job only when `job` is not null.
  std::vector<EdgePtr> edges(const std::string* job = nullptr) const {
    std::shared_lock lock(mutex_);
    std::vector<EdgePtr> found;
    auto at = job == nullptr ? tables_.edges.begin() : tables_.edges.lower_bound({*job, ""});
    for (; at != tables_.edges.end() && (job == nullptr || at->first.first == *job); ++at) {
      found.push_back(at->second);
    }
    return found;
  }
  DatasetPtr dataset(const std::string& name) const {
    std::shared_lock lock(mutex_);
    const auto found = tables_.datasets.find(name);
    return found == tables_.datasets.end() ? nullptr : found->second;
  }
  std::vector<DatasetPtr> datasets() const {  // by name
    std::shared_lock lock(mutex_);
    std::vector<DatasetPtr> found;
    for (const auto& [name, dataset] : tables_.datasets) found.push_back(dataset);
    return found;
  }
  // Where the agent's Flight server listens, as advertised; empty when it is not connected.
  std::string address(const std::string& agent) const {
    std::shared_lock lock(mutex_);
    const auto found = tables_.addresses.find(agent);
    return found == tables_.addresses.end() ? std::string() : found->second;
  }
  std::map<std::string, std::string> addresses() const {
    std::shared_lock lock(mutex_);
    return tables_.addresses;
  }

 private:
  struct Tables {
    std::map<std::pair<std::string, std::string>, EdgePtr> edges;
    std::map<std::string, DatasetPtr> datasets;
    std::map<std::string, std::string> addresses;
  };

  std::set<std::string> jobs() const {
    std::set<std::string> found;
    for (const auto& [key, edge] : tables_.edges) found.insert(key.first);
    return found;
  }

  // A full table: what it does not mention is gone.
  Changes replace(const Locations& message) {
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

  void add(const Locations& message, bool newer_only) {
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

  Changes drop(const Locations& message) {
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

  mutable std::shared_mutex mutex_;
  Tables tables_;
  uint64_t version_ = 0;
};

}  // namespace fabric
