from libc.stdint cimport int32_t


cdef int32_t checked_partitions(object n_partitions) except -1
