// A put on its way to one owner of dataset partitions.
//
// One job: the shape. `PartWriter` (write.hpp) is the owner in this process; others send elsewhere.
#pragma once
#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <memory>

namespace fabric {

// What one owner sealed of one writer attempt; the sum is that of the batches' CRC32Cs, mod 2^32.
struct Receipt {
  uint64_t rows = 0;
  uint32_t crc32c_sum = 0;
};

// One thread writes; end it with `seal` or `abandon`. An `abandon` after either does nothing.
class OwnerWriter {
 public:
  virtual ~OwnerWriter() = default;
  // Rows of one partition; no rows say that the partition has none.
  virtual arrow::Status write(uint32_t partition,
                              const std::shared_ptr<arrow::RecordBatch>& batch) = 0;
  // Wait until everything lies durably at the owner.
  virtual arrow::Result<Receipt> seal() = 0;
  // Give up; the owner keeps nothing.
  virtual void abandon() = 0;
};

}  // namespace fabric
