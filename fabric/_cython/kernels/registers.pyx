"""HyperLogLog registers of segments, sparse: about how many different values, in bounded space.

One job: from hashes to registers, and registers to one per segment. A register is its index and
the longest run of leading zeros seen in it, packed as ``index << 8 | run``; a segment keeps at most
`N_REGISTERS`, each once. O(values), one allocation of all registers, GIL released throughout.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp.vector cimport vector

from fabric._cython.kernels.segments cimport check_offsets

cdef extern from *:
    int leading_zeros "__builtin_clzll"(unsigned long long value) nogil

cdef int BITS = 11
N_REGISTERS = 1 << BITS


cdef void codes(const uint64_t* hashes, int64_t n, int32_t* out) noexcept nogil:
    """The register of each hash: the low bits choose it, the others are looked at from the top."""
    cdef int64_t i
    cdef uint64_t rest
    for i in range(n):
        rest = hashes[i] >> BITS
        out[i] = <int32_t>(hashes[i] & ((1 << BITS) - 1)) << 8
        out[i] |= (leading_zeros(rest) - BITS + 1) if rest else 64 - BITS + 1


cdef int64_t merge(const int32_t* given, const int64_t* offsets, int64_t n_segments,
                   int32_t* out, int64_t* out_offsets) except -1 nogil:
    """Each register of a segment once, with its longest run; returns how many there are."""
    cdef vector[uint8_t] longest
    cdef vector[int32_t] touched
    cdef int64_t i, j, made = 0
    cdef int32_t index
    cdef uint8_t run
    longest.resize(1 << BITS)
    for i in range(n_segments):
        out_offsets[i] = made
        touched.clear()
        for j in range(offsets[i], offsets[i + 1]):
            index, run = (given[j] >> 8) & ((1 << BITS) - 1), given[j] & 0xFF
            if longest[index] == 0:
                touched.push_back(index)
            if run > longest[index]:
                longest[index] = run
        for index in touched:
            out[made] = (index << 8) | longest[index]
            longest[index] = 0
            made += 1
    out_offsets[n_segments] = made
    return made


def register_codes(const uint64_t[::1] hashes not None):
    """The register of each hash, as ``index << 8 | run``.

    Parameters
    ----------
    hashes
        uint64, shape (rows,).
    Returns
    -------
    codes
        int32, shape (rows,); the run is 1 or more.
    Examples
    --------
    >>> import numpy as np
    >>> register_codes(np.array([3, 1 << 63], dtype=np.uint64)).tolist()
    [822, 1]
    """
    out = np.empty(hashes.shape[0], np.int32)
    cdef int32_t[::1] view = out
    if hashes.shape[0] > 0:
        with nogil:
            codes(&hashes[0], hashes.shape[0], &view[0])
    return out


def merge_registers(const int32_t[::1] given not None, const int64_t[::1] offsets not None):
    """Every register of a segment once, with the longest of its runs.

    Parameters
    ----------
    given
        int32, shape (values,); codes of `register_codes`, a run of 0 counts as none.
    offsets
        int64, shape (segments + 1,), not decreasing.
    Returns
    -------
    codes, offsets
        int32 and int64: the registers of the segments, in no order inside one.
    Raises
    ------
    ValueError
        If offsets leave the values or decrease.
    Notes
    -----
    Flajolet, Fusy, Gandouet, Meunier, HyperLogLog: the analysis of a near-optimal cardinality
    estimation algorithm, 2007.
    Examples
    --------
    >>> import numpy as np
    >>> codes, offsets = merge_registers(np.array([259, 257, 259], np.int32), np.array([0, 2, 3]))
    >>> codes.tolist(), offsets.tolist()
    ([259, 259], [0, 1, 2])
    """
    check_offsets(offsets, given.shape[0])
    cdef int64_t n_segments = offsets.shape[0] - 1
    cdef int64_t made = 0
    out, out_offsets = np.empty(given.shape[0], np.int32), np.zeros(n_segments + 1, np.int64)
    cdef int32_t[::1] view = out
    cdef int64_t[::1] offsets_view = out_offsets
    if n_segments > 0 and given.shape[0] > 0:
        with nogil:
            made = merge(&given[0], &offsets[0], n_segments, &view[0], &offsets_view[0])
    return out[:made], out_offsets
