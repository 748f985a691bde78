"""The door between a Flight server and what others put behind its verbs, see `handlers.hpp`.

Owners of a verb cimport `HandlerSet`, and set their function in `handlers.get()` before the server
is started: `server.pyx` shares the set with the native server.
"""

from libcpp.memory cimport shared_ptr


cdef extern from * namespace "fabric" nogil:
    """
    namespace fabric {  // who only hands them on needs no more
    struct Handlers;
    }
    """
    cppclass Handlers:
        Handlers()


cdef class HandlerSet:
    cdef shared_ptr[Handlers] handlers
