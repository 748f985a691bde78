// Rows of several partitions as messages of about 1 MiB.
//
// One job: gather what one producer sent to the partitions of one consumer's agent into one batch,
// with the partitions' row counts in batch order. Order per (producer, partition) is kept: whoever
// sends an event of a producer flushes its rows first.
#pragma once
#include <arrow/table.h>

#include "wire/check.hpp"

namespace fabric {

constexpr uint64_t PACK_BYTES = 1 << 20;
constexpr uint64_t ALONE_BYTES = 256 << 10;  // so much goes uncopied

struct Packed {
  std::shared_ptr<arrow::RecordBatch> batch;
  std::vector<PartitionRows> partitions;
};

class Pack {
 public:
  void add(uint32_t partition, std::shared_ptr<arrow::RecordBatch> batch, uint64_t bytes,
           uint64_t charge) {
    partitions_.push_back({partition, static_cast<uint64_t>(batch->num_rows()), charge});
    batches_.push_back(std::move(batch));
    bytes_ += bytes;
  }

  bool empty() const { return batches_.empty(); }
  bool full() const { return bytes_ >= PACK_BYTES; }

  // All of it as messages, in order: one, unless batches are large or can't be joined (dictionaries
  // that differ), then one each.
  std::vector<Packed> take() {
    std::vector<Packed> out;
    const auto joined = batches_.size() > 1 && bytes_ < ALONE_BYTES * batches_.size()
                            ? arrow::ConcatenateRecordBatches(batches_)
                            : arrow::Result<std::shared_ptr<arrow::RecordBatch>>(nullptr);
    if (joined.ok() && *joined != nullptr) {
      out.push_back({*joined, std::move(partitions_)});
    } else {
      for (size_t i = 0; i < batches_.size(); ++i) {
        out.push_back({std::move(batches_[i]), {partitions_[i]}});
      }
    }
    *this = Pack();
    return out;
  }

 private:
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  std::vector<PartitionRows> partitions_;
  uint64_t bytes_ = 0;
};

}  // namespace fabric
