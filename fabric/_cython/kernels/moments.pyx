"""Central moments of segments, in two passes, so that far from zero they lose no digits.

One job: means and sums of powers of deviations, of one array or of two together. O(values), no
allocation but the answers, GIL released throughout. NaN and infinities go through as in IEEE 754.
"""

import numpy as np

from libc.stdint cimport int64_t

from fabric._cython.kernels.segments cimport check_offsets


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
