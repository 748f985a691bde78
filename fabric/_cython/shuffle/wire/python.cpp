// pyarrow's objects from and to Arrow's C++, and counts of Python's: up with the GIL held, down
// from any thread.
#include "wire/python.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"  // of Python's datetime.h
#include <arrow/python/pyarrow.h>
#pragma GCC diagnostic pop

#include <stdexcept>

namespace fabric {
namespace {

void drop_reference(PyObject* object) {
  if (!Py_IsInitialized()) return;  // the process ends; its memory goes as a whole
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(object);
  PyGILState_Release(state);
}

}  // namespace

PyRef::PyRef(PyObject* object) : object_(object, &drop_reference) { Py_INCREF(object); }

void ensure_pyarrow() {
  if (arrow::py::import_pyarrow() != 0) throw std::runtime_error("pyarrow can't be loaded");
}

PyObject* wrap_batch(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return arrow::py::wrap_batch(batch);
}

PyObject* wrap_schema(const std::shared_ptr<arrow::Schema>& schema) {
  return arrow::py::wrap_schema(schema);
}

std::shared_ptr<arrow::RecordBatch> batch_of(PyObject* object) {
  auto found = arrow::py::unwrap_batch(object);
  if (!found.ok()) throw std::invalid_argument("a pyarrow.RecordBatch is needed");
  return *found;
}

std::shared_ptr<arrow::Schema> schema_of(PyObject* object) {
  auto found = arrow::py::unwrap_schema(object);
  if (!found.ok()) throw std::invalid_argument("a pyarrow.Schema is needed");
  return *found;
}

}  // namespace fabric
