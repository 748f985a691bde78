# When a wait is over at the latest, for Cython.

cdef extern from "ring/deadline.hpp" namespace "fabric" nogil:
    cppclass Deadline:
        pass

    const Deadline NEVER
    Deadline deadline_in(double seconds)
