// The materialised partitions of an agent: written once, sealed, read until the job is released.
//
// One job: who wrote what, from the first batch to the release. Slicing and coalescing wait until
// somebody reads. Thread-safe; one output is written by its task's thread only. Batches are
// destroyed outside the lock, and none of them needs the GIL for that (`owned.hpp`). What the
// budget has no room for goes to the disk, with the largest output first (`spiller.hpp`).
#pragma once
#include <set>

#include "store/local_rows.hpp"
#include "store/owned.hpp"

namespace fabric {

class Store {
 public:
  // Without `places` everything stays in memory, whatever the budget says.
  Store(std::string agent_id, std::shared_ptr<Budget> budget,
        std::shared_ptr<SpillPlaces> places, int cpu)
      : agent_id_(std::move(agent_id)), options_{std::move(budget), std::move(places), cpu} {
    if (options_.places == nullptr) return;
    spiller_ = std::make_shared<Spiller>(options_.budget);
    options_.budget->set_relief([spiller = std::weak_ptr(spiller_)](int64_t n_bytes) {
      if (const auto known = spiller.lock()) (void)known->make_room(n_bytes);
    });
  }

  // Open the output of one task attempt; what the same attempt wrote before is dropped.
  arrow::Status begin(const std::string& job, uint32_t edge,
                      const std::shared_ptr<arrow::Schema>& schema, int32_t n_partitions,
                      ProducerAttempt producer, const std::string& compression = "") {
    ARROW_ASSIGN_OR_RAISE(auto codec, codec_named(compression));
    auto fresh = std::make_shared<Output>(OutputName{agent_id_, job, edge, producer}, schema,
                                          n_partitions, std::move(codec), options_);
    if (spiller_ != nullptr) spiller_->add(fresh);
    std::shared_ptr<Output> old;  // destroyed after the lock
    std::lock_guard lock(mutex_);
    Edge& known = edges_.try_emplace({job, edge}, Edge{schema, n_partitions, {}}).first->second;
    if (known.n_partitions != n_partitions || !known.schema->Equals(*schema, false)) {
      return fault("InternalError", "edge " + name(job, edge) +
                                        " was opened twice with different shapes");
    }
    old = std::exchange(known.outputs[producer], std::move(fresh));
    if (old != nullptr) old->close();
    return arrow::Status::OK();
  }

  // Add rows: partition p owns rows offsets[p] to offsets[p + 1]; empty offsets: all own all.
  arrow::Status append(const std::string& job, uint32_t edge, ProducerAttempt producer,
                       std::shared_ptr<arrow::RecordBatch> batch, std::vector<int64_t> offsets) {
    ARROW_ASSIGN_OR_RAISE(batch, owned(std::move(batch)));
    const int64_t n_bytes = bytes_of_batch(*batch);
    {
      std::lock_guard lock(mutex_);
      ARROW_ASSIGN_OR_RAISE(const auto output, open_output(job, edge, producer));
      ARROW_RETURN_NOT_OK(check_offsets(*output, batch->num_rows(), offsets));
      if (batch->num_rows() > 0) output->append(std::move(batch), std::move(offsets), n_bytes);
    }
    return make_room();
  }

  // End the output: from now on it can be read, and never changes.
  arrow::Result<Totals> seal(const std::string& job, uint32_t edge, ProducerAttempt producer) {
    std::shared_ptr<Output> output;
    {
      std::lock_guard lock(mutex_);
      ARROW_ASSIGN_OR_RAISE(output, open_output(job, edge, producer));
    }
    ARROW_RETURN_NOT_OK(output->seal());
    return output->totals();
  }

  // Drop the output of a task attempt that did not succeed; unknown is fine.
  void discard(const std::string& job, uint32_t edge, ProducerAttempt producer) {
    std::shared_ptr<Output> dropped;
    std::lock_guard lock(mutex_);
    const auto known = edges_.find({job, edge});
    if (known == edges_.end()) return;
    auto& outputs = known->second.outputs;
    if (const auto found = outputs.find(producer); found != outputs.end()) {
      dropped = std::move(found->second);
      dropped->close();
      outputs.erase(found);
    }
    if (outputs.empty()) edges_.erase(known);
  }

  // Drop all partitions of `job`; returns the bytes given back. Streams being read go on.
  int64_t release(const std::string& job) {
    std::vector<std::shared_ptr<Output>> dropped;
    std::lock_guard lock(mutex_);
    int64_t n_bytes = 0;
    for (auto at = edges_.lower_bound({job, 0}); at != edges_.end() && at->first.first == job;) {
      for (auto& [_, output] : at->second.outputs) {
        n_bytes += output->close();
        dropped.push_back(std::move(output));
      }
      at = edges_.erase(at);
    }
    return n_bytes;
  }

  // Bytes of all rows in memory now, sealed or not, and of IPC bytes kept beside them.
  int64_t stored_bytes() const {
    std::lock_guard lock(mutex_);
    int64_t n_bytes = 0;
    for (const auto& [_, edge] : edges_) {
      for (const auto& [__, output] : edge.outputs) n_bytes += output->held_bytes();
    }
    return n_bytes;
  }

  // Decoded bytes of all rows on the disk now.
  int64_t spilled_bytes() const {
    std::lock_guard lock(mutex_);
    int64_t n_bytes = 0;
    for (const auto& [_, edge] : edges_) {
      for (const auto& [__, output] : edge.outputs) n_bytes += output->spilled_bytes();
    }
    return n_bytes;
  }

  // Where rows go that the budget has no room for; null: nowhere.
  const std::shared_ptr<SpillPlaces>& places() const { return options_.places; }

  // Jobs that hold anything here.
  std::set<std::string> jobs() const {
    std::lock_guard lock(mutex_);
    std::set<std::string> found;
    for (const auto& [key, _] : edges_) found.insert(key.first);
    return found;
  }

  // The schema of an edge; a NotFoundError when nothing of it is here.
  arrow::Result<std::shared_ptr<arrow::Schema>> edge_schema(const std::string& job,
                                                            uint32_t edge) const {
    std::lock_guard lock(mutex_);
    if (const auto known = edges_.find({job, edge}); known != edges_.end()) {
      return known->second.schema;
    }
    return fault("NotFoundError", "edge " + std::to_string(edge) +
                                      " has no partitions on this agent; was the job released?",
                 {.job = job, .agent = agent_id_});
  }

  // The messages a ticket names, with headers and END events. With `checksums` they are for another
  // agent: rows of an edge that compresses then come as stored IPC bytes.
  arrow::Result<std::unique_ptr<MessageStream>> open(const PartitionTicket& ticket,
                                                     bool checksums) const {
    ARROW_RETURN_NOT_OK(edge_schema(ticket.job, ticket.edge).status());
    return open_for(ticket, checksums ? Reader::AGENT : Reader::PROCESS);
  }

  // The same rows without headers or events, in smaller messages: for a task of this agent.
  arrow::Result<std::unique_ptr<MessageStream>> batches(const PartitionTicket& ticket) const {
    return open_for(ticket, Reader::TASK);
  }

  // The same rows one producer at a time, to be read as often as a task wants.
  arrow::Result<std::vector<std::shared_ptr<LocalRows>>> local(
      const PartitionTicket& ticket) const {
    std::vector<std::shared_ptr<LocalRows>> found;
    std::shared_ptr<arrow::Schema> schema;
    std::lock_guard lock(mutex_);
    ARROW_ASSIGN_OR_RAISE(auto outputs, outputs_of(ticket, schema));
    for (auto& output : outputs) {
      found.push_back(std::make_shared<LocalRows>(
          std::move(output), static_cast<int32_t>(ticket.partition), spiller_, options_.cpu));
    }
    return found;
  }

  // A place for rows that a task fetches from elsewhere, under the same budget; gone with it.
  std::shared_ptr<LocalRows> put_here(const std::string& job, uint32_t edge,
                                      ProducerAttempt producer,
                                      const std::shared_ptr<arrow::Schema>& schema) const {
    auto output = std::make_shared<Output>(OutputName{agent_id_, job, edge, producer}, schema, 1,
                                           nullptr, options_);
    if (spiller_ != nullptr) spiller_->add(output);
    return std::make_shared<LocalRows>(std::move(output), 0, spiller_, options_.cpu);
  }

 private:
  using EdgeKey = std::pair<std::string, uint32_t>;
  struct Edge {
    std::shared_ptr<arrow::Schema> schema;
    int32_t n_partitions;
    std::map<ProducerAttempt, std::shared_ptr<Output>> outputs;
  };

  static std::string name(const std::string& job, uint32_t edge) {
    return job + "/e" + std::to_string(edge);
  }

  arrow::Result<std::unique_ptr<MessageStream>> open_for(const PartitionTicket& ticket,
                                                         Reader reader) const {
    std::vector<PartitionStream::Part> parts;
    std::shared_ptr<arrow::Schema> schema;
    std::lock_guard lock(mutex_);
    ARROW_ASSIGN_OR_RAISE(auto outputs, outputs_of(ticket, schema));
    for (size_t i = 0; i < outputs.size(); ++i) {
      parts.push_back({ticket.producers[i], std::move(outputs[i])});
    }
    return std::make_unique<PartitionStream>(std::move(schema), ticket, std::move(parts), reader,
                                             options_.cpu);
  }

  // The sealed outputs of all producers that a ticket names. Under the lock.
  arrow::Result<std::vector<std::shared_ptr<Output>>> outputs_of(
      const PartitionTicket& ticket, std::shared_ptr<arrow::Schema>& schema) const {
    std::vector<std::shared_ptr<Output>> outputs;
    const auto known = edges_.find({ticket.job, ticket.edge});
    const bool here = known != edges_.end();
    if (here) {
      schema = known->second.schema;
      ARROW_RETURN_NOT_OK(check_partition(ticket, known->second.n_partitions));
    }
    for (const ProducerAttempt& producer : ticket.producers) {
      std::shared_ptr<Output> output;
      if (here) {
        const auto found = known->second.outputs.find(producer);
        if (found != known->second.outputs.end()) output = found->second;
      }
      if (output == nullptr || !output->sealed()) {
        return lost(ticket.job, ticket.edge, producer, ticket.partition);
      }
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

  arrow::Status check_partition(const PartitionTicket& ticket, int32_t n_partitions) const {
    if (ticket.partition < static_cast<uint32_t>(n_partitions)) return arrow::Status::OK();
    return fault("NotFoundError", "edge " + std::to_string(ticket.edge) + " has partitions 0 to " +
                                      std::to_string(n_partitions - 1) + ", not " +
                                      std::to_string(ticket.partition),
                 {.job = ticket.job, .agent = agent_id_});
  }

  // Call it without locks.
  arrow::Status make_room() const {
    return spiller_ == nullptr ? arrow::Status::OK() : spiller_->make_room(0);
  }

  static arrow::Status check_offsets(const Output& output, int64_t n_rows,
                                     const std::vector<int64_t>& offsets) {
    if (offsets.empty()) return arrow::Status::OK();
    const bool right = offsets.size() == static_cast<size_t>(output.n_partitions()) + 1 &&
                       offsets.front() >= 0 && offsets.back() <= n_rows &&
                       std::is_sorted(offsets.begin(), offsets.end());
    if (right) return arrow::Status::OK();
    return fault("InternalError", "offsets don't cut " + std::to_string(n_rows) + " rows into " +
                                      std::to_string(output.n_partitions()) + " partitions");
  }

  arrow::Status lost(const std::string& job, uint32_t edge, ProducerAttempt producer,
                     uint32_t partition) const {
    return fault("PartitionLostError",
                 "partition " + std::to_string(partition) + " of edge " + std::to_string(edge) +
                     ", written by task " + std::to_string(producer.task) + " attempt " +
                     std::to_string(producer.attempt) +
                     ", is not on this agent; the job was released or the agent restarted, so run "
                     "it again",
                 {.job = job, .agent = agent_id_});
  }

  // Under the lock.
  arrow::Result<std::shared_ptr<Output>> open_output(const std::string& job, uint32_t edge,
                                                     ProducerAttempt producer) const {
    std::shared_ptr<Output> output;
    if (const auto known = edges_.find({job, edge}); known != edges_.end()) {
      const auto found = known->second.outputs.find(producer);
      if (found != known->second.outputs.end()) output = found->second;
    }
    // Dropped under a running task: its job was released.
    if (output == nullptr) return lost(job, edge, producer, 0);
    if (output->sealed()) {
      return fault("InternalError", "edge " + name(job, edge) + " from task " +
                                        std::to_string(producer.task) + "#" +
                                        std::to_string(producer.attempt) + " is sealed already");
    }
    return output;
  }

  const std::string agent_id_;
  const OutputOptions options_;
  std::shared_ptr<Spiller> spiller_;
  mutable std::mutex mutex_;
  std::map<EdgeKey, Edge> edges_;
};

}  // namespace fabric
