"""Where kernels put what they make."""


cdef extern from * namespace "fabric" nogil:
    """
    namespace fabric {  // who only hands them on needs no more
    class Allocator;
    }
    """
    cppclass Allocator:
        pass
