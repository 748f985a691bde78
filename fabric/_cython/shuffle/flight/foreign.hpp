// Batches as messages towards foreign clients: gRPC refuses messages over 4 MiB by default.
//
// One job: cut one batch into slices that fit, in order. A slice of views holds all bytes of its
// batch, so those are compacted; a larger single row travels alone.
#pragma once
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include <deque>
#include <memory>

#include "store/compact.hpp"

namespace fabric {

constexpr int64_t FOREIGN_BYTES_MAX = (4 << 20) - (64 << 10);  // the rest is for framing

using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

// Of a batch as a message, and of the dictionaries that may go before it.
inline arrow::Result<int64_t> message_bytes(const arrow::RecordBatch& batch) {
  int64_t n_bytes = 0;
  ARROW_RETURN_NOT_OK(arrow::ipc::GetRecordBatchSize(batch, &n_bytes));
  return n_bytes + size_of(batch, 0, batch.num_rows()).shared();
}

// Cuts one batch after the other; `next` is null when all of the last one is gone.
class Pieces {
 public:
  explicit Pieces(int64_t bytes_max = FOREIGN_BYTES_MAX) : bytes_max_(bytes_max) {}

  void put(BatchPtr batch) { waiting_.push_back(std::move(batch)); }

  arrow::Result<BatchPtr> next() {
    while (!waiting_.empty()) {
      BatchPtr piece = std::move(waiting_.front());
      waiting_.pop_front();
      ARROW_ASSIGN_OR_RAISE(int64_t size, message_bytes(*piece));
      if (size <= bytes_max_) return piece;
      ARROW_ASSIGN_OR_RAISE(piece, compacted(piece, false));
      ARROW_ASSIGN_OR_RAISE(size, message_bytes(*piece));
      if (piece->num_rows() <= 1 || size <= bytes_max_) return piece;
      const int64_t half = piece->num_rows() / 2;
      ARROW_ASSIGN_OR_RAISE(BatchPtr first, compacted(piece->Slice(0, half), false));
      ARROW_ASSIGN_OR_RAISE(BatchPtr second, compacted(piece->Slice(half), false));
      ARROW_ASSIGN_OR_RAISE(const int64_t first_size, message_bytes(*first));
      ARROW_ASSIGN_OR_RAISE(const int64_t second_size, message_bytes(*second));
      // Slices carry all bytes (a dictionary of which each has every entry): cutting only repeats.
      if (first_size + second_size > size + size / 2) return piece;
      waiting_.push_front(std::move(second));
      waiting_.push_front(std::move(first));
    }
    return nullptr;
  }

 private:
  int64_t bytes_max_;
  std::deque<BatchPtr> waiting_;
};

inline arrow::Result<std::vector<BatchPtr>> small_messages(BatchPtr batch, int64_t bytes_max) {
  Pieces pieces(bytes_max);
  pieces.put(std::move(batch));
  std::vector<BatchPtr> found;
  while (true) {
    ARROW_ASSIGN_OR_RAISE(BatchPtr piece, pieces.next());
    if (piece == nullptr) return found;
    found.push_back(std::move(piece));
  }
}

}  // namespace fabric
