// Pipes of record batches: `pipes.hpp` with Arrow's errors and sizes.
//
// One job: items from batches and events, refusals as statuses.
#pragma once
#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ring/own.hpp"
#include "ring/pipes.hpp"
#include "ring/size.hpp"
#include "wire/fault.hpp"

namespace fabric {

using BatchPort = Port<std::shared_ptr<arrow::RecordBatch>>;
using BatchTap = Tap<std::shared_ptr<arrow::RecordBatch>>;
using BatchItem = Item<std::shared_ptr<arrow::RecordBatch>>;

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

class BatchPipes : public Pipes<std::shared_ptr<arrow::RecordBatch>> {
 public:
  explicit BatchPipes(std::string job) : job_(std::move(job)) {}

  const std::string& job() const { return job_; }

  // Adds a batch to `put`, in a way that its consumer can do with.
  arrow::Status add(BatchPort* port, uint32_t producer, std::shared_ptr<arrow::RecordBatch> batch,
                    Putting& put) const {
    if (port->native()) {
      ARROW_ASSIGN_OR_RAISE(batch, without_python(std::move(batch)));
    }
    put.sends.push_back({port, rows_item(producer, std::move(batch))});
    return arrow::Status::OK();
  }

  // Adds a batch in partition order: partition p of `edge` gets rows offsets[p] to offsets[p + 1],
  // or nothing when there are none; without offsets every partition gets all rows.
  arrow::Status add_parts(uint32_t edge, uint32_t producer,
                          const std::shared_ptr<arrow::RecordBatch>& batch,
                          std::span<const int64_t> offsets, Putting& put) const {
    std::vector<BatchPort*> ports;
    ARROW_RETURN_NOT_OK(status(find_all(edge, ports)));
    if (!offsets.empty() && offsets.size() != ports.size() + 1) {
      return status(bug("edge " + std::to_string(edge) + " has " + std::to_string(ports.size()) +
                        " partitions, " + std::to_string(offsets.size()) + " offsets were given"));
    }
    if (!offsets.empty() && (offsets.front() < 0 || offsets.back() > batch->num_rows() ||
                             !std::ranges::is_sorted(offsets))) {
      return status(bug("offsets that are not those of the batch"));
    }
    for (size_t i = 0; i < ports.size(); ++i) {
      const int64_t n = offsets.empty() ? batch->num_rows() : offsets[i + 1] - offsets[i];
      if (n == 0) continue;
      auto rows = n == batch->num_rows() ? batch : batch->Slice(offsets[i], n);
      ARROW_RETURN_NOT_OK(add(ports[i], producer, std::move(rows), put));
    }
    return arrow::Status::OK();
  }

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

}  // namespace fabric
