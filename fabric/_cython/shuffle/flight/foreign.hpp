// Batches as messages towards foreign clients: gRPC refuses messages over 4 MiB by default.
//
// One job: cut one batch into slices that fit, in order. A slice of views holds all bytes of its
// batch, so pieces with views are copied; a larger single row travels alone.
#pragma once
#include <arrow/array/builder_base.h>
#include <arrow/array/util.h>
#include <arrow/builder.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <deque>
#include <memory>
#include <vector>

#include "wire/fault.hpp"

namespace fabric {

constexpr int64_t FOREIGN_BYTES_MAX = (4 << 20) - (64 << 10);  // the rest is for framing

using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

inline bool holds_views(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW: return true;
    case arrow::Type::STRUCT:
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST: break;
    default: return false;
  }
  for (const auto& field : type.fields()) {
    if (holds_views(*field->type())) return true;
  }
  return false;
}

// `batch` with columns of views that hold their own bytes only.
inline arrow::Result<BatchPtr> compacted(const BatchPtr& batch) {
  std::vector<std::shared_ptr<arrow::Array>> columns = batch->columns();
  bool changed = false;
  for (std::shared_ptr<arrow::Array>& column : columns) {
    if (!holds_views(*column->type())) continue;
    std::unique_ptr<arrow::ArrayBuilder> builder;
    ARROW_RETURN_NOT_OK(
        arrow::MakeBuilder(arrow::default_memory_pool(), column->type(), &builder));
    ARROW_RETURN_NOT_OK(
        builder->AppendArraySlice(arrow::ArraySpan(*column->data()), 0, column->length()));
    ARROW_ASSIGN_OR_RAISE(column, builder->Finish());
    changed = true;
  }
  if (!changed) return batch;
  return arrow::RecordBatch::Make(batch->schema(), batch->num_rows(), std::move(columns));
}

inline arrow::Result<int64_t> message_bytes(const arrow::RecordBatch& batch) {
  int64_t n_bytes = 0;
  ARROW_RETURN_NOT_OK(arrow::ipc::GetRecordBatchSize(batch, &n_bytes));
  return n_bytes;
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
      ARROW_ASSIGN_OR_RAISE(piece, compacted(piece));
      ARROW_ASSIGN_OR_RAISE(size, message_bytes(*piece));
      if (piece->num_rows() <= 1 || size <= bytes_max_) return piece;
      const int64_t half = piece->num_rows() / 2;
      ARROW_ASSIGN_OR_RAISE(BatchPtr first, compacted(piece->Slice(0, half)));
      ARROW_ASSIGN_OR_RAISE(BatchPtr second, compacted(piece->Slice(half)));
      ARROW_ASSIGN_OR_RAISE(const int64_t first_size, message_bytes(*first));
      ARROW_ASSIGN_OR_RAISE(const int64_t second_size, message_bytes(*second));
      // A slice of this type carries all bytes: cutting would only repeat them.
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

}  // namespace fabric
