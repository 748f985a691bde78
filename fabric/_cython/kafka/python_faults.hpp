// C++ exceptions of the client as Python's; for faces alone.
//
// One job: the handler that every `except +` of them names. What librdkafka refused becomes the
// FabricError that faults.py chooses; an error that a decoder left set stays as it is.
#pragma once
#include <Python.h>

#include <new>
#include <stdexcept>

#include "codecs/codec.hpp"
#include "kafka/handle.hpp"

inline void fabric_set_fault(const fabric::kafka::Fault& fault) {
  PyObject* faults = PyImport_ImportModule("fabric._cython.kafka.faults");
  if (faults == nullptr) return;
  PyObject* choose = PyObject_GetAttrString(faults, "error_of");
  Py_DECREF(faults);
  if (choose == nullptr) return;
  PyObject* text = PyUnicode_DecodeUTF8(fault.text.data(),
                                        static_cast<Py_ssize_t>(fault.text.size()), "replace");
  PyObject* given = text == nullptr ? nullptr
                                    : Py_BuildValue("(isN)", fault.code, fault.name.c_str(), text);
  PyObject* named = Py_BuildValue(
      "{s:N,s:N,s:N,s:L}", "fatal", PyBool_FromLong(fault.fatal), "retryable",
      PyBool_FromLong(fault.retryable), "requires_abort", PyBool_FromLong(fault.requires_abort),
      "row", static_cast<long long>(fault.row));
  PyObject* error = given == nullptr || named == nullptr ? nullptr
                                                         : PyObject_Call(choose, given, named);
  Py_DECREF(choose);
  Py_XDECREF(given);
  Py_XDECREF(named);
  if (error == nullptr) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

// The client was used where it can't be: closed, or in a forked process.
inline void fabric_set_misuse(const char* text) {
  PyObject* errors = PyImport_ImportModule("fabric.errors");
  if (errors == nullptr) return;
  PyObject* kind = PyObject_GetAttrString(errors, "InternalError");
  Py_DECREF(errors);
  if (kind == nullptr) return;
  PyErr_SetString(kind, text);
  Py_DECREF(kind);
}

inline void fabric_raise_kafka_fault() {
  try {
    throw;
  } catch (const fabric::kafka::KafkaError& error) {
    fabric_set_fault(error.fault);
  } catch (const fabric::codecs::PythonError&) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "a codec lost its error");
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::overflow_error& error) {
    PyErr_SetString(PyExc_OverflowError, error.what());
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::logic_error& error) {
    fabric_set_misuse(error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}
