// Finding what a descriptor or ticket names: the table first, then one question.
//
// One job: names to locations. The coordinator pushes locations; a name the table lacks costs one
// control call, whose answer Python merges into the table. What it does is in `directory.cpp`.
#pragma once
#include <arrow/result.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flight/asking.hpp"
#include "flight/directory.hpp"

namespace fabric {

struct ProducerAttempt;

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
