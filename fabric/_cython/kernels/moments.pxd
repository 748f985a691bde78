from libc.stdint cimport int64_t


cdef void sums_of_powers(const double* values, const int64_t* offsets, int64_t n_segments,
                         double* out) noexcept nogil
cdef void sums_of_products(const double* x, const double* y, const int64_t* offsets,
                           int64_t n_segments, double* out) noexcept nogil
