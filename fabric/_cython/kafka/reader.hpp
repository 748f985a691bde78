// Partitions of topics, read into Arrow columns.
//
// One job: a queue a partition, records of it as columns or decoded, where the next one is, and a
// file descriptor that says when something came. No group, no rebalance: who reads what is decided
// elsewhere. One thread at a time may use a partition; everything else is safe from any thread.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "codecs/codec.hpp"
#include "kafka/handle.hpp"

namespace fabric::kafka {

// Columns that may be asked for, in the order in which they come.
enum Want : unsigned {
  WANT_KEY = 1, WANT_VALUE = 2, WANT_TOPIC = 4, WANT_PARTITION = 8, WANT_OFFSET = 16,
  WANT_TIMESTAMP = 32, WANT_HEADERS = 64,
};

struct Start {
  int64_t offset;  // or -2: the first there is, -1: behind the last
  int32_t leader_epoch;  // -1: not known
};

// Records that were taken; they stay the reader's until `settle`.
struct Taken {
  int64_t n_records = 0;
  int64_t n_bytes = 0;  // of keys and values
  int64_t first_offset = -1;
};

struct Record {
  int64_t offset;
  codecs::Span value;  // data is nullptr for a null; it lies there until `settle`
};

class Reader {
 public:
  explicit Reader(const Settings& settings);
  ~Reader();

  // Begin to read partitions; those that are read already go on undisturbed.
  void assign(const std::map<PartitionKey, Start>& starts);
  void unassign(const std::vector<PartitionKey>& partitions);

  // Take at most `rows_max` records, of which all but the first fit into `bytes_max`; never waits.
  // `columns` (released by the caller) is what `schema`, a struct of the wanted ones, says. Values
  // go through `decoder` where one is given. When it throws, nothing was taken.
  Taken take(const PartitionKey& partition, int64_t rows_max, int64_t bytes_max, unsigned wants,
             const ArrowSchema& schema, codecs::Decoder* decoder, ArrowArray& columns);
  // A record that was taken.
  Record record(const PartitionKey& partition, int64_t row);
  // What was taken is through, and will not come again; else the next `take` begins with it.
  void settle(const PartitionKey& partition);

  int64_t position(const PartitionKey& partition);
  int32_t leader_epoch(const PartitionKey& partition);  // of the last settled record; -1: unknown
  bool at_end(const PartitionKey& partition);
  int64_t high_watermark(const PartitionKey& partition);  // -1: not known yet; asks nobody
  std::pair<int64_t, int64_t> watermark_offsets(const PartitionKey& partition, int timeout_ms);
  std::map<PartitionKey, int64_t> offsets_for_times(const std::map<PartitionKey, int64_t>& times,
                                                    int timeout_ms);
  std::map<PartitionKey, int64_t> committed(const std::vector<PartitionKey>& partitions,
                                            int timeout_ms);
  void commit(const std::map<PartitionKey, int64_t>& offsets);

  void poll();  // serve what is no partition's: errors, statistics
  int wake_fd() const { return wake_fd_; }
  Handle& handle() { return handle_; }
  void close() noexcept;

 private:
  struct Split;
  std::shared_ptr<Split> split_of(const PartitionKey& partition);
  void fetch(Split& split, size_t n_records, int64_t bytes_max);
  void note(const Message& message);
  // Offsets by partition; throws the error of a partition.
  std::map<PartitionKey, int64_t> offsets_in(Partitions& answered) const;
  void forget(Split& split) noexcept;
  static void on_wake(Client*, void* wake_fd);

  Handle handle_;
  int wake_fd_ = -1;
  Queue* main_ = nullptr;
  std::mutex lock_;  // of splits_
  std::map<PartitionKey, std::shared_ptr<Split>> splits_;
  std::mutex polling_;
};

}  // namespace fabric::kafka
