"""Rows that are among the best of their group, without sorting.

One job: which rows have a key no smaller than the n-th largest of their group. The n best keys of
each group are a heap with the worst of them first: O(rows log n), O(rows) where few get in. Two
passes, scratch of n keys a group, GIL released throughout.
"""

import numpy as np

from libc.stdint cimport INT64_MIN, int64_t
from libcpp.vector cimport vector


cdef void sift_down(int64_t* heap, int64_t n, int64_t key) noexcept nogil:
    """Put `key` in the place of the smallest, which lies first."""
    cdef int64_t at = 0, child = 1
    while child < n:
        if child + 1 < n and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = key


cdef int find_bounds(const int64_t* codes, const int64_t* keys, int64_t n_rows, int64_t n_groups,
                     int64_t n, vector[int64_t]& best) except -1 nogil:
    """Fill `best` with a heap of the n largest keys of each group; 1 for a code out of range."""
    cdef int64_t i
    cdef int64_t* heap
    best.assign(n_groups * n, INT64_MIN)
    for i in range(n_rows):
        if codes[i] < 0 or codes[i] >= n_groups:
            return 1
        heap = best.data() + codes[i] * n
        if keys[i] > heap[0]:
            sift_down(heap, n, keys[i])
    return 0


cdef void mark(const int64_t* codes, const int64_t* keys, int64_t n_rows, int64_t n,
               const int64_t* best, unsigned char* found) noexcept nogil:
    """Fill `found`: 1 where a key reaches the n-th best of its group."""
    cdef int64_t i
    for i in range(n_rows):
        found[i] = keys[i] >= best[codes[i] * n]


def top_rows(const int64_t[::1] codes not None, const int64_t[::1] keys not None,
             int64_t n_groups, int64_t n):
    """Which rows are as good as the n-th best of their group; all that tie with it are.

    Parameters
    ----------
    codes
        int64, shape (rows,): the group of each row, from 0 below `n_groups`.
    keys
        int64, shape (rows,): larger is better.
    n_groups, n
        Number of groups, and how many rows of each are wanted: 1 or more.
    Returns
    -------
    mask
        bool, shape (rows,).
    Raises
    ------
    ValueError
        If the lengths differ, a code is out of range, or `n` is less than 1.
    Examples
    --------
    >>> import numpy as np
    >>> top_rows(np.array([0, 1, 0, 0]), np.array([5, 1, 7, 5]), 2, 2).tolist()
    [True, True, True, True]
    >>> top_rows(np.array([0, 1, 0, 0]), np.array([4, 1, 7, 5]), 2, 2).tolist()
    [False, True, True, True]
    """
    if codes.shape[0] != keys.shape[0]:
        raise ValueError(f"{codes.shape[0]} codes need as many keys, got {keys.shape[0]}")
    if n < 1 or n_groups < 0:
        raise ValueError(f"wanted are 1 or more rows of 0 or more groups, not {n} of {n_groups}")
    cdef vector[int64_t] best
    cdef bint outside
    mask = np.zeros(codes.shape[0], np.bool_)
    cdef unsigned char[::1] found = mask.view(np.uint8)
    if codes.shape[0] == 0:
        return mask
    with nogil:
        outside = find_bounds(&codes[0], &keys[0], codes.shape[0], n_groups, n, best)
        if not outside:
            mark(&codes[0], &keys[0], codes.shape[0], n, best.data(), &found[0])
    if outside:
        raise ValueError(f"a code is not from 0 below {n_groups}")
    return mask
