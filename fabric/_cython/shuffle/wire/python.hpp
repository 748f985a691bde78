// The doors between pyarrow's objects and Arrow's C++; all need the GIL.
//
// One job: wrap and unwrap batches and schemas. A failed unwrap is a C++ exception, which Cython
// turns into a Python one.
#pragma once
#include <arrow/type_fwd.h>

#include <memory>

typedef struct _object PyObject;  // as Python.h has it

namespace fabric {

void ensure_pyarrow();
PyObject* wrap_batch(const std::shared_ptr<arrow::RecordBatch>& batch);
PyObject* wrap_schema(const std::shared_ptr<arrow::Schema>& schema);
std::shared_ptr<arrow::RecordBatch> batch_of(PyObject* object);
std::shared_ptr<arrow::Schema> schema_of(PyObject* object);

}  // namespace fabric
