// Batches whose buffers belong to Python objects, copied before they go to a native consumer.
//
// One job: the destructor of such a buffer (numpy, bytes) takes the GIL, so a native thread that
// drops the last reference would wait for whatever Python does. Only the rows of the slice are
// copied. Data buffers of views and dictionaries stay as they are.
#pragma once
#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <memory>
#include <string_view>
#include <typeinfo>

namespace fabric {

// Whether `buffer` or what it was sliced from is one of arrow::py's classes.
inline bool of_python(const arrow::Buffer* buffer) {
  for (; buffer != nullptr; buffer = buffer->parent().get()) {
    if (std::string_view(typeid(*buffer).name()).starts_with("N5arrow2py")) return true;
  }
  return false;
}

inline bool of_python(const arrow::ArrayData& column) {
  for (const auto& buffer : column.buffers) {
    if (of_python(buffer.get())) return true;
  }
  for (const auto& child : column.child_data) {
    if (of_python(*child)) return true;
  }
  return false;
}

inline arrow::Result<std::shared_ptr<arrow::RecordBatch>> without_python(
    std::shared_ptr<arrow::RecordBatch> batch) {
  for (int i = 0; i < batch->num_columns(); ++i) {
    if (!of_python(*batch->column_data(i))) continue;
    ARROW_ASSIGN_OR_RAISE(auto column, arrow::Concatenate({batch->column(i)}));
    ARROW_ASSIGN_OR_RAISE(batch, batch->SetColumn(i, batch->schema()->field(i), column));
  }
  return batch;
}

}  // namespace fabric
