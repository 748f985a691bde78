// Python's objects in C++: pyarrow's batches and schemas as Arrow's, and what keeps any object
// alive.
//
// One job: the doors between Python and C++. Wrapping and unwrapping need the GIL; a failed unwrap
// is a C++ exception, which Cython turns into a Python one. Who holds a `PyRef` needs neither the
// GIL nor Python's headers.
#pragma once
#include <arrow/type_fwd.h>

#include <memory>

typedef struct _object PyObject;  // as Python.h has it

namespace fabric {

// A counted Python object that any thread may copy and drop; made by one that holds the GIL.
class PyRef {
 public:
  PyRef() = default;
  explicit PyRef(PyObject* object);
  PyObject* get() const { return object_.get(); }

 private:
  std::shared_ptr<PyObject> object_;
};

void ensure_pyarrow();
PyObject* wrap_batch(const std::shared_ptr<arrow::RecordBatch>& batch);
PyObject* wrap_schema(const std::shared_ptr<arrow::Schema>& schema);
std::shared_ptr<arrow::RecordBatch> batch_of(PyObject* object);
std::shared_ptr<arrow::Schema> schema_of(PyObject* object);

}  // namespace fabric
