// Pipes of record batches: `pipes.hpp` with Arrow's errors and sizes, compiled once.
//
// One job: the pipelined edges of one job for those who use them: items from batches and events,
// refusals as statuses. A port is a pointer here, and what there is to ask of one is asked below.
#pragma once
#include <arrow/status.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ring/item.hpp"

namespace fabric {

class Waiter;
template <class Payload>
class Pipes;
template <class Payload>
class Tap;

using BatchPort = Port<std::shared_ptr<arrow::RecordBatch>>;
using BatchTap = Tap<std::shared_ptr<arrow::RecordBatch>>;
using BatchItem = Item<std::shared_ptr<arrow::RecordBatch>>;

BatchItem rows_item(uint32_t producer, std::shared_ptr<arrow::RecordBatch> batch);
BatchItem event_item(uint32_t producer, Kind kind, int64_t value, uint64_t total_rows);

// `seconds` from now; less than nothing is now, and a year is as good as for ever.
Deadline deadline_in(double seconds);

class BatchPipes {
 public:
  using Send = fabric::Send<std::shared_ptr<arrow::RecordBatch>>;
  using Putting = fabric::Putting<std::shared_ptr<arrow::RecordBatch>>;
  using Taking = fabric::Taking<std::shared_ptr<arrow::RecordBatch>>;

  explicit BatchPipes(std::string job);
  ~BatchPipes();

  // Adds a batch to `put`, in a way that its consumer can do with.
  arrow::Status add(BatchPort* port, uint32_t producer, std::shared_ptr<arrow::RecordBatch> batch,
                    Putting& put) const;

  // Adds a batch in partition order: partition p of `edge` gets rows offsets[p] to offsets[p + 1],
  // or nothing when there are none; without offsets every partition gets all rows.
  arrow::Status add_parts(uint32_t edge, uint32_t producer,
                          const std::shared_ptr<arrow::RecordBatch>& batch,
                          std::span<const int64_t> offsets, Putting& put) const;

  arrow::Status status(const Refusal& refused) const;

  // ---- as `Pipes` has them

  Refusal declare(uint32_t edge, uint32_t n_partitions, uint64_t batches_max, uint64_t bytes_max,
                  uint64_t wait_ns = 0);
  Refusal find(uint32_t edge, uint32_t partition, BatchPort*& port) const;
  Refusal put_now(Putting& put);
  Refusal put(Putting& put, Deadline deadline = NEVER);
  Refusal take_now(std::span<BatchPort* const> ports, size_t n, Taking& taking);
  Refusal take(std::span<BatchPort* const> ports, size_t n, Taking& taking,
               Deadline deadline = NEVER);
  Refusal wait_any(std::span<BatchPort* const> ports, Waiter& waiter, bool& ready,
                   Deadline deadline = NEVER);
  Refusal gather(std::span<BatchPort* const> ports, Deadline deadline, bool& pressed);
  Refusal rest(std::span<BatchPort* const> ports, int64_t until, bool& due, Deadline deadline);
  Refusal rest(std::span<BatchPort* const> ports, int64_t until, Waiter& waiter, bool& due,
               Deadline deadline);
  Refusal wanted(uint32_t edge, bool& answer) const;
  uint64_t waiting_bytes() const;

  // What these drop is destroyed at their end, with no lock held.
  void close(BatchPort& port);
  void cancel(std::string reason);

  // ---- of one port, as `Port` has them

  static uint32_t edge_of(const BatchPort& port);
  static uint32_t partition_of(const BatchPort& port);
  static void set_native(BatchPort& port);
  static bool closed(const BatchPort& port);
  static uint64_t bytes(const BatchPort& port);
  static uint64_t bytes_max(const BatchPort& port);
  static uint64_t batches(const BatchPort& port);
  static int64_t silent_until(const BatchPort& port);
  static bool ended(const BatchPort& port, const std::set<uint32_t>& producers);
  static Head peek(BatchPort& port, std::vector<BatchItem>& dropped);
  // Appends the next item to `taken`; none when nothing waits.
  static void take_one(BatchPort& port, std::vector<BatchItem>& taken,
                       std::vector<BatchItem>& dropped);

  // From here on `waiter`, who grants credit, is signalled once there is room for `need`.
  static void enter(BatchPort& port, Waiter& waiter, Need need);
  // And no more. Whoever was signalled passes the wake on, for it may not have needed all of it.
  static void leave(BatchPort& port, Waiter& waiter);

  static void add(BatchPort& port, std::shared_ptr<BatchTap> tap, std::shared_ptr<void> owner);
  static void remove(BatchPort& port, const BatchTap& tap);

 private:
  const std::unique_ptr<Pipes<std::shared_ptr<arrow::RecordBatch>>> pipes_;
  const std::string job_;
};

}  // namespace fabric
