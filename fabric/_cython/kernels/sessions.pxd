from libc.stdint cimport int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector


cdef extern from "sessions.hpp" namespace "fabric" nogil:
    cdef cppclass Session:
        int64_t group
        int64_t start
        int64_t end
        cbool open
        cbool given

    cdef cppclass CSessionTable "fabric::SessionTable":
        CSessionTable(int64_t gap, int64_t last, cbool updates) except +
        void assign(const int64_t* groups, const int64_t* times, int64_t n, int64_t* slots,
                    vector[int64_t]& merged, vector[int64_t]& into) except +
        int64_t restore(int64_t group, int64_t start, int64_t end, cbool given) except +
        void close(int64_t limit, vector[int64_t]& slots) except +
        void ended(int64_t limit, vector[int64_t]& slots) except +
        void have_open(const int64_t* groups, int64_t n, uint8_t* out)
        const vector[Session]& sessions()
        int64_t n_open()
        int64_t n_bytes()


cdef class SessionTable:
    cdef CSessionTable* table
    cdef readonly int64_t gap_us

    cdef object columns(self, vector[int64_t]& slots)
