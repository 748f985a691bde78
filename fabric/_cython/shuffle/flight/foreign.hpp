// Batches as messages towards foreign clients: gRPC refuses messages over 4 MiB by default.
//
// One job: cut one batch into slices that fit, in order. A slice of views holds all bytes of its
// batch, so those are compacted; a larger single row travels alone.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace fabric {

constexpr int64_t FOREIGN_BYTES_MAX = (4 << 20) - (64 << 10);  // the rest is for framing

using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

// Cuts one batch after the other; `next` is null when all of the last one is gone.
class Pieces {
 public:
  explicit Pieces(int64_t bytes_max = FOREIGN_BYTES_MAX) : bytes_max_(bytes_max) {}

  void put(BatchPtr batch) { waiting_.push_back(std::move(batch)); }
  arrow::Result<BatchPtr> next();

 private:
  int64_t bytes_max_;
  std::deque<BatchPtr> waiting_;
};

arrow::Result<std::vector<BatchPtr>> small_messages(BatchPtr batch, int64_t bytes_max);

}  // namespace fabric
