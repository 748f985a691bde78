// What keeps a Python object alive in C++.
//
// One job: the counted reference. Who holds one needs neither the GIL nor Python's headers.
#pragma once
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

}  // namespace fabric
