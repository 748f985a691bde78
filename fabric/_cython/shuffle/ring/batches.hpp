// Pipes of record batches: `pipes.hpp` with Arrow's errors and sizes.
//
// One job: the pipelined edges of one job for those who use them: items from batches and events,
// refusals as statuses.
#pragma once
#include <arrow/status.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ring/pipes.hpp"

namespace fabric {

using BatchPort = Port<std::shared_ptr<arrow::RecordBatch>>;
using BatchTap = Tap<std::shared_ptr<arrow::RecordBatch>>;
using BatchItem = Item<std::shared_ptr<arrow::RecordBatch>>;

BatchItem rows_item(uint32_t producer, std::shared_ptr<arrow::RecordBatch> batch);
BatchItem event_item(uint32_t producer, Kind kind, int64_t value, uint64_t total_rows);

// `seconds` from now; less than nothing is now, and a year is as good as for ever.
Deadline deadline_in(double seconds);

class BatchPipes : public Pipes<std::shared_ptr<arrow::RecordBatch>> {
 public:
  explicit BatchPipes(std::string job) : job_(std::move(job)) {}

  // Adds a batch to `put`, in a way that its consumer can do with.
  arrow::Status add(BatchPort* port, uint32_t producer, std::shared_ptr<arrow::RecordBatch> batch,
                    Putting& put) const;

  // Adds a batch in partition order: partition p of `edge` gets rows offsets[p] to offsets[p + 1],
  // or nothing when there are none; without offsets every partition gets all rows.
  arrow::Status add_parts(uint32_t edge, uint32_t producer,
                          const std::shared_ptr<arrow::RecordBatch>& batch,
                          std::span<const int64_t> offsets, Putting& put) const;

  arrow::Status status(const Refusal& refused) const;

  // What a cancelled job's pipes say; fine otherwise.
  arrow::Status cancellation();

  // Leaves items where they are, as `Pipes::rest` does, and lets producers elsewhere know.
  Refusal rest(std::span<BatchPort* const> ports, int64_t until, bool& due, Deadline deadline);
  using Pipes::rest;

  // What these drop is destroyed at their end, with no lock held.
  static void close(BatchPort& port);
  void cancel(std::string reason);

 private:
  const std::string job_;
};

}  // namespace fabric
