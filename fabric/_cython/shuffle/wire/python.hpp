// The doors between pyarrow's objects and Arrow's C++; all need the GIL.
//
// One job: wrap and unwrap batches and schemas. A failed unwrap is a C++ exception, which Cython
// turns into a Python one.
#pragma once
#include <arrow/python/pyarrow.h>
#include <arrow/record_batch.h>

#include <memory>
#include <stdexcept>

namespace fabric {

inline void ensure_pyarrow() {
  if (arrow::py::import_pyarrow() != 0) throw std::runtime_error("pyarrow can't be loaded");
}

inline PyObject* wrap_batch(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return arrow::py::wrap_batch(batch);
}

inline PyObject* wrap_schema(const std::shared_ptr<arrow::Schema>& schema) {
  return arrow::py::wrap_schema(schema);
}

inline std::shared_ptr<arrow::RecordBatch> batch_of(PyObject* object) {
  auto found = arrow::py::unwrap_batch(object);
  if (!found.ok()) throw std::invalid_argument("a pyarrow.RecordBatch is needed");
  return *found;
}

inline std::shared_ptr<arrow::Schema> schema_of(PyObject* object) {
  auto found = arrow::py::unwrap_schema(object);
  if (!found.ok()) throw std::invalid_argument("a pyarrow.Schema is needed");
  return *found;
}

}  // namespace fabric
