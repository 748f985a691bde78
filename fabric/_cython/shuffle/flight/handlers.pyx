"""What is behind the verbs of a Flight server, as an object to hand around; empty at first."""

cimport cython
from libcpp.memory cimport make_shared


cdef extern from "flight/handlers.hpp":
    pass


@cython.final
cdef class HandlerSet:
    """The functions of one server; owners of a verb set theirs in C++."""

    def __cinit__(self):
        self.handlers = make_shared[Handlers]()
