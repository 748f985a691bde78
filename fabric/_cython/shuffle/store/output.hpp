// What task attempts wrote on edges, and one partition of it as messages.
//
// One job: hold reordered batches with their offsets in memory or in spill files, and give out one
// partition's slices of them. Rows come in runs: those on the disk in the order in which they were
// spilled, then those in memory.
//
// A message that is read again (its connection broke) must be the same again, wherever its rows lie
// now: what is in memory when the output is sealed is spilled at once or not at all, by the same
// coalescing that readers of memory do.
#pragma once
#include <arrow/ipc/options.h>
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/budget.hpp"
#include "store/coalesce.hpp"
#include "store/message.hpp"
#include "wire/fault.hpp"
#include "wire/ticket.hpp"

namespace fabric {

class RunWriter;
class SpillCodec;
class SpillFiles;
class SpillPlaces;
class SpillReader;

// Whose rows: what the index of spill files and errors about them say of an output.
struct OutputName {
  std::string agent, job;
  uint32_t edge = 0;
  ProducerAttempt producer{0, 0};

  std::string task() const {
    return std::to_string(producer.task) + "#" + std::to_string(producer.attempt);
  }
  Where where() const { return {.job = job, .task = task(), .agent = agent}; }
};

// What outputs of one store share.
struct OutputOptions {
  // Without `folders` everything stays in memory; `keep_free_bytes` of each disk stay free for
  // others.
  OutputOptions(std::shared_ptr<Budget> budget, const std::vector<std::string>& folders,
                int64_t keep_free_bytes, int cpu);

  // Let every write to the folders fail with this errno, for tests; 0: none.
  void fail_disk(int error) const;

  std::shared_ptr<Budget> budget;
  std::shared_ptr<SpillPlaces> places;  // null: everything stays in memory
  int cpu = 0;
};

// A message with what its header says of it.
struct Stored {
  std::shared_ptr<arrow::RecordBatch> batch;  // null when the payload is enough
  std::shared_ptr<const arrow::ipc::IpcPayload> payload;
  int64_t n_rows = 0, n_bytes = 0;
  uint32_t crc32c = 0;
};

// Messages that are made once and sent often: checksums, and IPC bytes where the edge compresses.
// Kept in order as the first reader of a partition made them, for those who read it again. Readers
// at the same place wait for the one who makes the next message. When its rows move to the disk it
// is dropped, and its readers go on there.
class Shelf {
 public:
  // `share` counts the bytes of payloads and outlives the shelf.
  Shelf(Coalescer messages, std::shared_ptr<arrow::util::Codec> codec, bool keep_batches, int cpu,
        Share& share);

  // Message `index`; false when there are no more, or they are gone from here.
  arrow::Result<bool> at(size_t index, Stored& out);

  // Forget all; its source has no more rows.
  void drop();

 private:
  arrow::Result<bool> make_next();

  std::mutex mutex_;
  Coalescer messages_;
  const arrow::ipc::IpcWriteOptions options_;
  const bool keep_batches_;
  const int cpu_;
  Share& share_;
  std::deque<Stored> made_;
  int64_t payload_bytes_ = 0;
  bool dropped_ = false;
  arrow::Status failed_;
};

// Of one task attempt on one edge. Written by its task's thread alone; once sealed its rows never
// change and anyone may read them, but they may still move to the disk.
class Output {
 public:
  Output(OutputName name, std::shared_ptr<arrow::Schema> schema, int32_t n_partitions,
         std::shared_ptr<arrow::util::Codec> codec, const OutputOptions& options);
  ~Output();

  int32_t n_partitions() const { return n_partitions_; }
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  const SpillCodec& spill_codec() const { return *spill_codec_; }
  bool sealed() const { return sealed_.load(); }
  Totals totals() const { return totals_; }
  // Of one partition of a sealed output; bytes as if all rows were of one size.
  Totals totals(int32_t partition) const;
  int64_t held_bytes() const { return share_.held_bytes(); }

  // Nobody asks for these rows any more: what they held of the budget goes back, and is returned.
  int64_t close();
  bool closed() const { return closed_.load(); }

  // How many runs lie on the disk; the rows in memory come behind them.
  size_t n_runs() const { return n_runs_.load(); }
  // Decoded bytes of rows, in memory and on the disk.
  int64_t memory_bytes() const { return memory_bytes_.load(); }
  int64_t spilled_bytes() const { return spilled_bytes_.load(); }

  // Partition p owns rows offsets[p] to offsets[p + 1]; without offsets, all own all.
  void append(std::shared_ptr<arrow::RecordBatch> batch, std::vector<int64_t> offsets,
              int64_t n_bytes);

  // From now on nothing is added. Messages of rows that every partition gets are formed here, once.
  arrow::Status seal();

  // Move what is in memory now to the disk; on an error it stays. Any thread.
  arrow::Status spill();

  // For one reader of a sealed output that has spilled.
  SpillReader spilled(uint32_t partition) const;

  // The rows in memory behind `n_runs` runs as messages; short, and no longer to be used, when they
  // move to the disk meanwhile. This output must outlive them.
  Coalescer messages(int32_t partition, MessageSizes sizes, size_t n_runs) const;

  // Where messages of rows in memory are kept for the next reader; null where that does not pay.
  std::shared_ptr<Shelf> shelf(int32_t partition, size_t n_runs) const;

 private:
  struct Chunk;
  using Chunks = std::vector<std::shared_ptr<const Chunk>>;

  bool is_broadcast() const { return broadcast_ && !chunks_.empty(); }
  arrow::Status join_broadcast();
  static Coalescer messages_of(const Chunks& chunks, int32_t partition);
  arrow::Result<int> write_run(const Chunks& chunks, bool broadcast, RunWriter& writer) const;
  void forget(Chunks spilled, int64_t n_bytes);

  const OutputName name_;
  const std::shared_ptr<arrow::Schema> schema_;
  const int32_t n_partitions_;
  const std::shared_ptr<arrow::util::Codec> codec_;
  const OutputOptions options_;
  const std::unique_ptr<const SpillCodec> spill_codec_;
  Totals totals_;
  std::vector<int64_t> rows_;  // by partition
  std::atomic<bool> sealed_{false}, closed_{false};
  std::atomic<size_t> n_runs_{0};
  std::atomic<int64_t> memory_bytes_{0}, spilled_bytes_{0};
  mutable Share share_;  // before the shelves, which count in it
  std::mutex spilling_;  // held while a run is written, and to seal
  std::shared_ptr<SpillFiles> files_;  // changes under `spilling_`, before the first run is counted
  mutable std::mutex mutex_;  // of all below
  Chunks chunks_;
  bool broadcast_ = true;  // no chunk in memory has offsets
  mutable std::map<int32_t, std::shared_ptr<Shelf>> shelves_;
};

// Who reads: another agent (checksums, stored IPC bytes), one of this process, or a task of this
// agent, which wants neither headers nor events.
enum class Reader { AGENT, PROCESS, TASK };

// What one producer of a partition wrote.
struct PartitionPart {
  ProducerAttempt producer;
  std::shared_ptr<const Output> output;
};

// One partition of sealed outputs as messages, producer by producer, each closed by an END event.
// Holds the outputs: a release meanwhile takes nothing from a stream that is being read.
std::unique_ptr<MessageStream> partition_stream(std::shared_ptr<arrow::Schema> schema,
                                                const PartitionTicket& ticket,
                                                std::vector<PartitionPart> parts, Reader reader,
                                                int cpu);

}  // namespace fabric
