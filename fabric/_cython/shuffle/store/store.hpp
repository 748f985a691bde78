// The materialised partitions of an agent: written once, sealed, read until the job is released.
//
// One job: who wrote what, from the first batch to the release. Slicing and coalescing wait until
// somebody reads. Thread-safe; one output is written by its task's thread only. Batches are
// destroyed outside the lock, and none of them needs the GIL for that (`owned` of `size.hpp`). What
// the budget has no room for goes to the disk, with the largest output first.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/message.hpp"
#include "wire/ticket.hpp"

namespace fabric {

class Budget;
class Output;
struct OutputOptions;
enum class Reader;
class Spiller;

// Rows that lie on this agent, for one of its tasks: of a partition of one output, or fetched from
// another agent and put here because memory may not have room for them. They are read as often as
// the task wants, or kept in memory while it has them all.
class LocalRows {
 public:
  LocalRows(std::shared_ptr<Output> output, int32_t partition, std::shared_ptr<Spiller> spiller,
            int cpu);
  ~LocalRows();
  LocalRows(const LocalRows&) = delete;
  LocalRows& operator=(const LocalRows&) = delete;

  Totals totals() const;
  bool spilled() const;

  // Only what was put here can get more, from one thread, until it is sealed.
  arrow::Status append(std::shared_ptr<arrow::RecordBatch> batch);
  arrow::Status seal();

  std::unique_ptr<MessageStream> batches() const;

  // From now on they stay in memory until `let_go`; false when they can't.
  bool keep();
  void let_go();

 private:
  const std::shared_ptr<Output> output_;
  const int32_t partition_;
  const std::shared_ptr<Spiller> spiller_;
  const int cpu_;
  bool kept_ = false;
};

class Store {
 public:
  // Without `folders` everything stays in memory, whatever the budget says; `keep_free_bytes` of
  // each of their disks stay free for others.
  Store(std::string agent_id, std::shared_ptr<Budget> budget,
        const std::vector<std::string>& folders, int64_t keep_free_bytes, int cpu);
  ~Store();

  // Open the output of one task attempt; what the same attempt wrote before is dropped.
  arrow::Status begin(const std::string& job, uint32_t edge,
                      const std::shared_ptr<arrow::Schema>& schema, int32_t n_partitions,
                      ProducerAttempt producer, const std::string& compression = "");

  // Add rows: partition p owns rows offsets[p] to offsets[p + 1]; empty offsets: all own all.
  arrow::Status append(const std::string& job, uint32_t edge, ProducerAttempt producer,
                       std::shared_ptr<arrow::RecordBatch> batch, std::vector<int64_t> offsets);

  // End the output: from now on it can be read, and never changes.
  arrow::Result<Totals> seal(const std::string& job, uint32_t edge, ProducerAttempt producer);

  // Drop the output of a task attempt that did not succeed; unknown is fine.
  void discard(const std::string& job, uint32_t edge, ProducerAttempt producer);

  // Drop all partitions of `job`; returns the bytes given back. Streams being read go on.
  int64_t release(const std::string& job);

  // Bytes of all rows in memory now, sealed or not, and of IPC bytes kept beside them.
  int64_t stored_bytes() const;

  // Decoded bytes of all rows on the disk now.
  int64_t spilled_bytes() const;

  // Let every write to the folders fail with this errno, for tests; 0: none.
  void fail_disk(int error) const;

  // Jobs that hold anything here.
  std::set<std::string> jobs() const;

  // The schema of an edge; a NotFoundError when nothing of it is here.
  arrow::Result<std::shared_ptr<arrow::Schema>> edge_schema(const std::string& job,
                                                            uint32_t edge) const;

  // The messages a ticket names, with headers and END events. With `checksums` they are for another
  // agent: rows of an edge that compresses then come as stored IPC bytes.
  arrow::Result<std::unique_ptr<MessageStream>> open(const PartitionTicket& ticket,
                                                     bool checksums) const;

  // The same rows without headers or events, in smaller messages: for a task of this agent.
  arrow::Result<std::unique_ptr<MessageStream>> batches(const PartitionTicket& ticket) const;

  // The same rows one producer at a time, to be read as often as a task wants.
  arrow::Result<std::vector<std::shared_ptr<LocalRows>>> local(const PartitionTicket& ticket) const;

  // A place for rows that a task fetches from elsewhere, under the same budget; gone with it.
  std::shared_ptr<LocalRows> put_here(const std::string& job, uint32_t edge,
                                      ProducerAttempt producer,
                                      const std::shared_ptr<arrow::Schema>& schema) const;

 private:
  using EdgeKey = std::pair<std::string, uint32_t>;
  struct Edge {
    std::shared_ptr<arrow::Schema> schema;
    int32_t n_partitions;
    std::map<ProducerAttempt, std::shared_ptr<Output>> outputs;
  };

  arrow::Result<std::unique_ptr<MessageStream>> open_for(const PartitionTicket& ticket,
                                                         Reader reader) const;
  arrow::Result<std::vector<std::shared_ptr<Output>>> outputs_of(
      const PartitionTicket& ticket, std::shared_ptr<arrow::Schema>& schema) const;
  std::shared_ptr<Output> find_output(const std::string& job, uint32_t edge,
                                      ProducerAttempt producer) const;
  arrow::Result<std::shared_ptr<Output>> open_output(const std::string& job, uint32_t edge,
                                                     ProducerAttempt producer) const;
  arrow::Status check_partition(const PartitionTicket& ticket, int32_t n_partitions) const;
  arrow::Status lost(const std::string& job, uint32_t edge, ProducerAttempt producer,
                     uint32_t partition) const;
  int64_t sum_of(int64_t (Output::*bytes)() const) const;
  arrow::Status make_room() const;

  const std::string agent_id_;
  const std::unique_ptr<const OutputOptions> options_;
  std::shared_ptr<Spiller> spiller_;
  mutable std::mutex mutex_;
  std::map<EdgeKey, Edge> edges_;
};

}  // namespace fabric
