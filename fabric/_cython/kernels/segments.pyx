"""Statistics of segments of an array, as a list column has them: moments, ranks, registers.

One job: per segment, what aggregates of a whole column of lists are made of. Offsets are checked
once, before loops trust them; O(values), GIL released throughout.

- Central moments are made in two passes, so that far from zero they lose no digits. NaN and
  infinities go through as in IEEE 754.
- The value at a rank is found without sorting: a segment is copied to scratch and partitioned.
- HyperLogLog registers are sparse. A register is its index and the longest run of leading zeros
  seen in it, packed as ``index << 8 | run``; a segment keeps at most `N_REGISTERS`, each once.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libcpp.algorithm cimport nth_element
from libcpp.vector cimport vector

cdef extern from *:
    int leading_zeros "__builtin_clzll"(unsigned long long value) nogil

cdef int BITS = 11
N_REGISTERS = 1 << BITS


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


cdef void sums_of_powers(const double* values, const int64_t* offsets, int64_t n_segments,
                         double* out) noexcept nogil:
    """Per segment: mean, and the sums of squared, cubed and fourth powers of deviations."""
    cdef int64_t i, j, n
    cdef double total, mean, d, d2, rest, m2, m3, m4
    for i in range(n_segments):
        n = offsets[i + 1] - offsets[i]
        if n == 0:
            continue
        total = rest = m2 = m3 = m4 = 0.0
        for j in range(offsets[i], offsets[i + 1]):
            total += values[j]
        mean = total / n
        for j in range(offsets[i], offsets[i + 1]):
            rest += values[j] - mean
        mean += rest / n
        for j in range(offsets[i], offsets[i + 1]):
            d = values[j] - mean
            d2 = d * d
            m2 += d2
            m3 += d2 * d
            m4 += d2 * d2
        out[i * 4], out[i * 4 + 1], out[i * 4 + 2], out[i * 4 + 3] = mean, m2, m3, m4


cdef void sums_of_products(const double* x, const double* y, const int64_t* offsets,
                           int64_t n_segments, double* out) noexcept nogil:
    """Per segment: both means, and the sums of squared deviations of x, of y, and of products."""
    cdef int64_t i, j, n
    cdef double mean_x, mean_y, rest_x, rest_y, dx, dy, m2_x, m2_y, c2
    for i in range(n_segments):
        n = offsets[i + 1] - offsets[i]
        if n == 0:
            continue
        mean_x = mean_y = rest_x = rest_y = m2_x = m2_y = c2 = 0.0
        for j in range(offsets[i], offsets[i + 1]):
            mean_x += x[j]
            mean_y += y[j]
        mean_x /= n
        mean_y /= n
        for j in range(offsets[i], offsets[i + 1]):
            rest_x += x[j] - mean_x
            rest_y += y[j] - mean_y
        mean_x += rest_x / n
        mean_y += rest_y / n
        for j in range(offsets[i], offsets[i + 1]):
            dx = x[j] - mean_x
            dy = y[j] - mean_y
            m2_x += dx * dx
            m2_y += dy * dy
            c2 += dx * dy
        out[i * 5], out[i * 5 + 1], out[i * 5 + 2] = mean_x, mean_y, m2_x
        out[i * 5 + 3], out[i * 5 + 4] = m2_y, c2


def moments(const double[::1] values not None, const int64_t[::1] offsets not None):
    """Mean and sums of the 2nd, 3rd and 4th powers of deviations, a segment a row.

    Parameters
    ----------
    values
        float64, shape (values,); segment i is ``values[offsets[i]:offsets[i + 1]]``.
    offsets
        int64, shape (segments + 1,), not decreasing.
    Returns
    -------
    sums
        float64, shape (segments, 4): mean, m2, m3, m4; 0 for an empty segment.
    Raises
    ------
    ValueError
        If offsets leave the values or decrease.
    Notes
    -----
    The corrected two-pass algorithm: Chan, Golub, LeVeque, Algorithms for Computing the Sample
    Variance, 1983.
    Examples
    --------
    >>> import numpy as np
    >>> moments(np.array([1.0, 2.0, 3.0]), np.array([0, 3])).tolist()
    [[2.0, 2.0, 0.0, 2.0]]
    """
    check_offsets(offsets, values.shape[0])
    cdef int64_t n_segments = offsets.shape[0] - 1
    out = np.zeros((n_segments, 4))
    cdef double[:, ::1] view = out
    if n_segments > 0 and values.shape[0] > 0:
        with nogil:
            sums_of_powers(&values[0], &offsets[0], n_segments, &view[0, 0])
    return out


def co_moments(const double[::1] x not None, const double[::1] y not None,
               const int64_t[::1] offsets not None):
    """Means, sums of squared deviations and of their products of two arrays, a segment a row.

    Parameters
    ----------
    x, y
        float64, shapes (values,).
    offsets
        int64, shape (segments + 1,), not decreasing.
    Returns
    -------
    sums
        float64, shape (segments, 5): mean of x, mean of y, m2 of x, m2 of y, sum of products; 0
        for an empty segment.
    Raises
    ------
    ValueError
        If offsets leave the values or decrease, or the arrays differ in length.
    Examples
    --------
    >>> import numpy as np
    >>> co_moments(np.array([1.0, 3.0]), np.array([5.0, 1.0]), np.array([0, 2])).tolist()
    [[2.0, 3.0, 2.0, 8.0, -4.0]]
    """
    if x.shape[0] != y.shape[0]:
        raise ValueError(f"x has {x.shape[0]} values, y has {y.shape[0]}")
    check_offsets(offsets, x.shape[0])
    cdef int64_t n_segments = offsets.shape[0] - 1
    out = np.zeros((n_segments, 5))
    cdef double[:, ::1] view = out
    if n_segments > 0 and x.shape[0] > 0:
        with nogil:
            sums_of_products(&x[0], &y[0], &offsets[0], n_segments, &view[0, 0])
    return out


cdef int pick(const int64_t* keys, const int64_t* offsets, const int64_t* ranks,
              int64_t n_segments, int64_t* at, int64_t* after) except -1 nogil:
    """Fill `at` and `after`; a rank outside its segment leaves both as they are."""
    cdef vector[int64_t] scratch
    cdef int64_t i, j, n, rank
    for i in range(n_segments):
        n, rank = offsets[i + 1] - offsets[i], ranks[i]
        if rank < 0 or rank >= n:
            continue
        scratch.assign(keys + offsets[i], keys + offsets[i + 1])
        nth_element(scratch.begin(), scratch.begin() + rank, scratch.end())
        at[i] = after[i] = scratch[rank]
        if rank + 1 < n:
            after[i] = scratch[rank + 1]
        for j in range(rank + 2, n):
            after[i] = min(after[i], scratch[j])
    return 0


def select_ranks(const int64_t[::1] keys not None, const int64_t[::1] offsets not None,
                 const int64_t[::1] ranks not None):
    """The key at rank ``ranks[i]`` (0 is the smallest) of each segment i, and the next larger one.

    Parameters
    ----------
    keys
        int64, shape (values,); segment i is ``keys[offsets[i]:offsets[i + 1]]``.
    offsets
        int64, shape (segments + 1,), not decreasing.
    ranks
        int64, shape (segments,). One outside its segment (an empty segment, say) picks nothing.
    Returns
    -------
    at, after
        int64, shapes (segments,). Where there is no next one, `after` is `at`; 0 where nothing was
        picked.
    Raises
    ------
    ValueError
        If offsets leave the keys or decrease, or the lengths of `ranks` and `offsets` do not fit.
    Notes
    -----
    Introselect: Musser, Introspective Sorting and Selection Algorithms, 1997.
    Examples
    --------
    >>> import numpy as np
    >>> at, after = select_ranks(np.array([3, 1, 2, 9]), np.array([0, 3, 4]), np.array([1, 0]))
    >>> at.tolist(), after.tolist()
    ([2, 9], [3, 9])
    """
    check_offsets(offsets, keys.shape[0])
    cdef int64_t n_segments = offsets.shape[0] - 1
    if ranks.shape[0] != n_segments:
        raise ValueError(f"{n_segments} segments need as many ranks, got {ranks.shape[0]}")
    at, after = np.zeros(n_segments, np.int64), np.zeros(n_segments, np.int64)
    cdef int64_t[::1] at_view = at
    cdef int64_t[::1] after_view = after
    if n_segments > 0 and keys.shape[0] > 0:
        with nogil:
            pick(&keys[0], &offsets[0], &ranks[0], n_segments, &at_view[0], &after_view[0])
    return at, after


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
