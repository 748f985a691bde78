from libc.stdint cimport int64_t, uint8_t
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema


cdef extern from *:
    """
    #include <new>
    #include <stdexcept>

    #include "codecs/codec.hpp"

    // A codec's exception as Python's; a Python error that it left set stays as it is.
    static void fabric_raise_codec_fault() {
      try {
        throw;
      } catch (const fabric::codecs::PythonError&) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "a codec lost its error");
      } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
      } catch (const std::overflow_error& error) {
        PyErr_SetString(PyExc_OverflowError, error.what());
      } catch (const std::invalid_argument& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
      } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
      }
    }
    """
    void raise_fault "fabric_raise_codec_fault"()


cdef extern from "codecs/codec.hpp" namespace "fabric::codecs" nogil:
    cppclass Bytes:
        char* data()
        int64_t size()
        char* take()

    struct Span:
        const uint8_t* data
        int64_t size

    struct CBad "fabric::codecs::Bad":
        int64_t row
        string reason

    cppclass CDecoder "fabric::codecs::Decoder":
        void append(const Span* values, int64_t n) except +raise_fault
        void finish(ArrowArray& out, vector[CBad]& bad) except +raise_fault
        void reset()
        int64_t n_rows()

    cppclass Values:
        vector[int64_t] offsets
        vector[int64_t] null_rows
        Bytes data
        bint finish(ArrowArray& out) except +raise_fault

    cppclass CEncoder "fabric::codecs::Encoder":
        void encode(const ArrowArray& rows, Values& out) except +raise_fault


cdef class Decoder:
    cdef unique_ptr[CDecoder] core
    cdef readonly object schema
    cdef object flat
    cdef object flat_capsule
    cdef const ArrowSchema* prepare(self, object schema) except NULL


cdef class Encoder:
    cdef unique_ptr[CEncoder] core
    cdef readonly object schema
    cdef object flat
    cdef object flat_capsule
    cdef const ArrowSchema* prepare(self, object schema) except NULL
