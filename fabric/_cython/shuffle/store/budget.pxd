from libc.stdint cimport int64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr, unique_ptr


cdef extern from * namespace "fabric" nogil:
    """
    namespace fabric {  // who only hands them on needs no more
    class Budget;
    class Share;
    }
    """
    cppclass CBudget "fabric::Budget":
        CBudget(int64_t bytes_max)
        int64_t bytes_max()
        int64_t used_bytes()
        int64_t n_waiting()

    cppclass CShare "fabric::Share":
        CShare(shared_ptr[CBudget] budget)
        cbool reserve(int64_t n_bytes)
        cbool try_reserve(int64_t n_bytes)
        void take(int64_t n_bytes)
        void give_back(int64_t n_bytes)
        int64_t close()
        int64_t held_bytes()


cdef class Budget:
    cdef shared_ptr[CBudget] core


cdef class Share:
    cdef unique_ptr[CShare] core
