from libc.stdint cimport int64_t

cdef void tumbling(const int64_t* times, int64_t n_rows, int64_t size, int64_t offset,
                   int64_t* starts, int64_t* ends) noexcept nogil
cdef int64_t count_sliding(const int64_t* times, int64_t n_rows, int64_t size, int64_t slide,
                           int64_t offset) noexcept nogil
cdef void sliding(const int64_t* times, int64_t n_rows, int64_t size, int64_t slide,
                  int64_t offset, int64_t* rows, int64_t* starts, int64_t* ends) noexcept nogil
