// Pipes of record batches: `pipes.hpp` with Arrow's errors and sizes.
//
// One job: items from batches and events, refusals as statuses.
#pragma once
#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ring/pipes.hpp"
#include "ring/size.hpp"
#include "wire/fault.hpp"

namespace fabric {

using BatchPort = Port<std::shared_ptr<arrow::RecordBatch>>;
using BatchItem = Item<std::shared_ptr<arrow::RecordBatch>>;

class BatchPipes : public Pipes<std::shared_ptr<arrow::RecordBatch>> {
 public:
  explicit BatchPipes(std::string job) : job_(std::move(job)) {}

  const std::string& job() const { return job_; }

  // What these drop is destroyed at their end, with no lock held.
  void close(BatchPort& port) {
    std::vector<Element> dropped;
    port.close(dropped);
  }
  void cancel(std::string reason) {
    std::vector<Element> dropped;
    Pipes::cancel(std::move(reason), dropped);
  }

  arrow::Status status(const Refusal& refused) const {
    return refused ? fault(refused.kind, refused.text, {.job = job_}) : arrow::Status::OK();
  }

 private:
  const std::string job_;
};

inline BatchItem rows_item(uint32_t producer, std::shared_ptr<arrow::RecordBatch> batch) {
  BatchItem item;
  item.producer = producer;
  item.rows = static_cast<uint64_t>(batch->num_rows());
  item.bytes = size_of(*batch);
  item.payload = std::move(batch);
  return item;
}

inline BatchItem event_item(uint32_t producer, Kind kind, int64_t value, uint64_t total_rows) {
  BatchItem item;
  item.producer = producer;
  item.kind = kind;
  item.value = value;
  item.rows = total_rows;
  return item;
}

}  // namespace fabric
