"""The door between a Flight server and what others put behind its verbs, see `handlers.hpp`.

Owners of a verb cimport `HandlerSet`, and set their function in `handlers.get()` before the server
is started: `server.pyx` shares the set with the native server.
"""

from libcpp.memory cimport shared_ptr


cdef extern from "flight/handlers.hpp" namespace "fabric" nogil:
    cppclass Handlers:
        Handlers()


cdef class HandlerSet:
    cdef shared_ptr[Handlers] handlers
