from libcpp.memory cimport shared_ptr

from fabric._cython.shuffle.flight.handlers cimport Handlers
from fabric._cython.shuffle.store.store cimport CStore


cdef extern from "flight/partitions.hpp" namespace "fabric" nogil:
    void set_store(Handlers& handlers, shared_ptr[const CStore] store)
