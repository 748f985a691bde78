// Cutting batches to the size that clients of gRPC take.
#include "flight/foreign.hpp"

#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type_traits.h>

#include "store/size.hpp"

namespace fabric {
namespace {

// Of a batch as a message, and of the dictionaries that may go before it.
arrow::Result<int64_t> message_bytes(const arrow::RecordBatch& batch) {
  int64_t n_bytes = 0;
  ARROW_RETURN_NOT_OK(arrow::ipc::GetRecordBatchSize(batch, &n_bytes));
  return n_bytes + size_of(batch, 0, batch.num_rows()).shared();
}

}  // namespace

arrow::Result<BatchPtr> Pieces::next() {
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

arrow::Result<std::vector<BatchPtr>> small_messages(BatchPtr batch, int64_t bytes_max) {
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
