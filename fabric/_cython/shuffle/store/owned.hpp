// Batches whose memory belongs to no Python object.
//
// One job: copy buffers that numpy or bytes own, because giving those back takes the GIL, from
// whatever thread does it. Call it at the door of everything that native threads empty. Batches
// that came through the C data interface are not looked into.
#pragma once
#include <arrow/array/array_base.h>
#include <arrow/array/concatenate.h>
#include <arrow/array/util.h>
#include <arrow/python/common.h>
#include <arrow/record_batch.h>

typedef struct _PyArray_Descr PyArray_Descr;  // so that the next header needs no numpy
#include <arrow/python/numpy_convert.h>

namespace fabric {

inline bool python_owns(const arrow::Buffer* buffer) {
  for (; buffer != nullptr; buffer = buffer->parent().get()) {
    if (dynamic_cast<const arrow::py::NumPyBuffer*>(buffer) != nullptr) return true;
    if (dynamic_cast<const arrow::py::PyBuffer*>(buffer) != nullptr) return true;
  }
  return false;
}

inline bool python_owns(const arrow::ArrayData& data) {
  for (const auto& buffer : data.buffers) {
    if (python_owns(buffer.get())) return true;
  }
  for (const auto& child : data.child_data) {
    if (python_owns(*child)) return true;
  }
  return data.dictionary != nullptr && python_owns(*data.dictionary);
}

// Copy every buffer that Python owns, whole.
inline arrow::Result<std::shared_ptr<arrow::ArrayData>> with_own_buffers(
    const arrow::ArrayData& data) {
  auto own = std::make_shared<arrow::ArrayData>(data);
  for (auto& buffer : own->buffers) {
    if (!python_owns(buffer.get())) continue;
    ARROW_ASSIGN_OR_RAISE(buffer, buffer->CopySlice(0, buffer->size()));
  }
  for (auto& child : own->child_data) {
    ARROW_ASSIGN_OR_RAISE(child, with_own_buffers(*child));
  }
  if (own->dictionary != nullptr) {
    ARROW_ASSIGN_OR_RAISE(own->dictionary, with_own_buffers(*own->dictionary));
  }
  return own;
}

// `batch` itself when nothing of it is Python's; else with those columns copied.
inline arrow::Result<std::shared_ptr<arrow::RecordBatch>> owned(
    std::shared_ptr<arrow::RecordBatch> batch) {
  for (int i = 0; i < batch->num_columns(); ++i) {
    if (!python_owns(*batch->column_data(i))) continue;
    // Concatenating copies the rows of a slice alone; what it shares (dictionaries, the bytes
    // behind views) is copied whole.
    ARROW_ASSIGN_OR_RAISE(auto column, arrow::Concatenate({batch->column(i)}));
    ARROW_ASSIGN_OR_RAISE(auto data, with_own_buffers(*column->data()));
    ARROW_ASSIGN_OR_RAISE(batch, batch->SetColumn(i, batch->schema()->field(i),
                                                  arrow::MakeArray(std::move(data))));
  }
  return batch;
}

}  // namespace fabric
