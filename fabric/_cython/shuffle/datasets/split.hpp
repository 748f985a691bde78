// Which partition of a dataset each row goes to.
//
// One job: one batch in, runs of rows with their partitions out: by the hash of the dataset's keys,
// or, without keys, evenly in turn.
#pragma once
#include "datasets/keys.hpp"
#include "partition_batch.hpp"
#include "store/coalesce.hpp"

namespace fabric {

class Splitter {
 public:
  static arrow::Result<std::unique_ptr<Splitter>> make(const std::shared_ptr<arrow::Schema>& schema,
                                                       const std::vector<std::string>& keys,
                                                       uint32_t n_partitions, Allocator& allocator,
                                                       int cpu) {
    if (n_partitions < 1 || n_partitions > PARTITIONS_MAX) {
      return fault("ConfigError", "a dataset has 1 to " + std::to_string(PARTITIONS_MAX) +
                                      " partitions, not " + std::to_string(n_partitions));
    }
    auto splitter = std::make_unique<Splitter>(schema, n_partitions, allocator, cpu);
    if (keys.empty()) return splitter;
    ARROW_ASSIGN_OR_RAISE(const auto indices, key_indices(*schema, keys));
    Exported exported;
    ARROW_RETURN_NOT_OK(arrow::ExportSchema(*schema, &exported.schema));
    splitter->by_hash_ = std::make_unique<BatchPartitioner>(
        exported.schema, indices, static_cast<int32_t>(n_partitions), 0);
    return splitter;
  }

  Splitter(std::shared_ptr<arrow::Schema> schema, uint32_t n_partitions, Allocator& allocator,
           int cpu)
      : schema_(std::move(schema)), n_partitions_(n_partitions), allocator_(allocator), cpu_(cpu) {}

  // Call `take(partition, rows)` for each run; rows of one partition keep their order.
  template <class Take>
  arrow::Status split(const std::shared_ptr<arrow::RecordBatch>& batch, Take take) {
    return by_hash_ == nullptr ? in_turn(batch, take) : hashed(batch, take);
  }

 private:
  // Each batch is cut into equal runs; which partition begins goes on from batch to batch.
  template <class Take>
  arrow::Status in_turn(const std::shared_ptr<arrow::RecordBatch>& batch, Take take) {
    const int64_t n_rows = batch->num_rows();
    const int64_t n_runs = std::min<int64_t>(n_partitions_, n_rows);
    for (int64_t run = 0; run < n_runs; ++run) {
      const int64_t begin = n_rows * run / n_runs, end = n_rows * (run + 1) / n_runs;
      const auto partition = static_cast<uint32_t>((next_ + run) % n_partitions_);
      ARROW_RETURN_NOT_OK(take(partition, Rows{batch, begin, end - begin}));
    }
    next_ = (next_ + n_runs) % n_partitions_;
    return arrow::Status::OK();
  }

  template <class Take>
  arrow::Status hashed(const std::shared_ptr<arrow::RecordBatch>& batch, Take take) {
    std::vector<int64_t> offsets(n_partitions_ + 1);
    std::shared_ptr<arrow::RecordBatch> moved = batch;
    {
      Exported exported;
      ArrowArray out{};
      ARROW_RETURN_NOT_OK(exported.fill(*batch));
      if (by_hash_->run(exported.array, cpu_, allocator_, offsets.data(), out)) {
        ARROW_ASSIGN_OR_RAISE(moved, arrow::ImportRecordBatch(&out, schema_));
      }
    }
    for (uint32_t partition = 0; partition < n_partitions_; ++partition) {
      const int64_t begin = offsets[partition], n = offsets[partition + 1] - begin;
      if (n > 0) ARROW_RETURN_NOT_OK(take(partition, Rows{moved, begin, n}));
    }
    return arrow::Status::OK();
  }

  std::shared_ptr<arrow::Schema> schema_;
  uint32_t n_partitions_;
  Allocator& allocator_;
  int cpu_;
  std::unique_ptr<BatchPartitioner> by_hash_;
  int64_t next_ = 0;
};

}  // namespace fabric
