// Finding what a descriptor or ticket names: the table first, then one question.
//
// One job: names to locations. The coordinator pushes locations; a name the table lacks costs one
// control call, whose answer Python merges into the table.
#pragma once
#include "flight/asking.hpp"
#include "flight/directory.hpp"
#include "flight/text.hpp"
#include "wire/ticket.hpp"

namespace fabric {

class Finder {
 public:
  Finder(const Asking& ask, std::shared_ptr<Directory> table)
      : ask_(ask), table_(std::move(table)) {}

  const Directory& table() const { return *table_; }
  const Asking& asking() const { return ask_; }

  // Asks for news of an exchange that is not complete here: whom the coordinator told of the job's
  // end may be here before the news is. While it does not answer, what is known stands.
  void refresh(const std::string& job, const std::string& node_path) const {
    const EdgePtr known = table_->edge(job, node_path);
    if (known == nullptr || known->complete) return;
    if (known->mode == MODE_PIPELINED || known->state != 0) return;
    (void)ask_.locate(ask_.face.get(), job, "");
  }

  // The exchange at `node_path` of `job`.
  arrow::Result<EdgePtr> edge(const std::string& job, const std::string& node_path) const {
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

  // The exchange a ticket names, with `producers` when they are anywhere: the agent that gave the
  // ticket may have heard of them a moment before this one.
  arrow::Result<EdgePtr> edge_numbered(const std::string& job, uint32_t edge,
                                       const std::vector<ProducerAttempt>& producers) const {
    EdgePtr found = table_->edge_numbered(job, edge);
    if (found == nullptr || !holds(*found, producers)) {
      ARROW_RETURN_NOT_OK(ask_.locate(ask_.face.get(), job, ""));
      found = table_->edge_numbered(job, edge);
    }
    if (found != nullptr) return found;
    return fault("NotFoundError", "the partitions of job " + job + " are gone; was it released?",
                 {.job = job});
  }

  // The newest version of a dataset.
  arrow::Result<DatasetPtr> dataset(const std::string& name) const {
    DatasetPtr found = table_->dataset(name);
    if (found == nullptr) {
      ARROW_RETURN_NOT_OK(ask_.locate(ask_.face.get(), "", name));
      found = table_->dataset(name);
    }
    if (found != nullptr) return found;
    std::vector<std::string> known;
    for (const DatasetPtr& dataset : table_->datasets()) known.push_back(dataset->name);
    return fault("NotFoundError",
                 "there is no dataset " + quoted(name) + "; known: " + some(known));
  }

  // Where an agent listens; `what` it holds is named when it is not connected.
  arrow::Result<std::string> address(const std::string& agent, const std::string& what) const {
    std::string found = table_->address(agent);
    if (!found.empty()) return found;
    return fault("PeerLostError", what + " lies with agent " + agent +
                                      ", which is not connected; start it again",
                 {.agent = agent});
  }

 private:
  static bool holds(const EdgeLocation& edge, const std::vector<ProducerAttempt>& producers) {
    return std::ranges::all_of(producers, [&](const ProducerAttempt& wanted) {
      return std::ranges::any_of(edge.producers, [&](const ProducerPlace& known) {
        return known.task == wanted.task && known.attempt == wanted.attempt;
      });
    });
  }

  static std::string some(const std::vector<std::string>& names) {
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(names.size(), 20); ++i) {
      text += (text.empty() ? "" : ", ") + names[i];
    }
    return text.empty() ? "none" : text;
  }

  Asking ask_;
  std::shared_ptr<Directory> table_;
};

}  // namespace fabric
