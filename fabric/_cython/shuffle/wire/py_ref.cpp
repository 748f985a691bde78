// Counts of Python objects that C++ holds: see `py_ref.hpp`.
//
// One job: up with the GIL held, down from any thread.
#include <Python.h>

#include "wire/py_ref.hpp"

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

}  // namespace fabric
