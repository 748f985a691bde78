from libc.stdint cimport int64_t, uint32_t

from fabric._cython.kernels.arrow_c cimport ArrowArray, Type
from fabric._cython.kernels.memory cimport Allocator, system_allocator


cdef extern from "take.hpp" namespace "fabric" nogil:
    cppclass Order:
        @staticmethod
        Order gather(const uint32_t* rows, int64_t n) noexcept

        @staticmethod
        Order scatter(const uint32_t* target, int64_t n, Allocator& allocator) noexcept

    void take_array(const Type& type, ArrowArray& array, const Order& order, int cpu,
                    Allocator& allocator, ArrowArray& out) except +
