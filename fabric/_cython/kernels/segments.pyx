"""Segments of an array, as a list column has them: what all kernels over segments share.

One job: check offsets once, before loops trust them. O(segments).
"""


cdef int check_offsets(const int64_t[::1] offsets, int64_t n_values) except -1:
    """Refuse offsets that are none or leave the `n_values` values."""
    cdef int64_t i
    if offsets.shape[0] == 0:
        raise ValueError("offsets need at least one entry")
    if offsets[0] < 0 or offsets[offsets.shape[0] - 1] > n_values:
        raise ValueError(
            f"offsets run from {offsets[0]} to {offsets[offsets.shape[0] - 1]}, "
            f"but there are {n_values} values")
    for i in range(offsets.shape[0] - 1):
        if offsets[i] > offsets[i + 1]:
            raise ValueError(f"offset {i + 1} is smaller than the one before it")
    return 0
