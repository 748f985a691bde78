"""Rows that are among the best of their group, without sorting.

One job: which rows have a key no smaller than the n-th largest of their group so far. The n best
keys of each group are a heap with the worst of them first: O(rows log n), O(rows) where few get in.
Two passes, scratch of n keys a group, GIL released throughout.
"""

import numpy as np

cimport cython
from libc.stdint cimport INT64_MIN, int64_t, uint32_t
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


cdef int enter(const uint32_t* codes, const int64_t* keys, int64_t n_rows, int64_t n,
               vector[int64_t]& best) except -1 nogil:
    """Put keys into the heaps of their groups; 1, and nothing done, for a code out of range."""
    cdef int64_t i, n_groups = best.size() // n
    cdef uint32_t largest = 0
    cdef int64_t* heap
    for i in range(n_rows):
        largest = max(largest, codes[i])
    if largest >= n_groups:
        return 1
    for i in range(n_rows):
        heap = best.data() + codes[i] * n
        if keys[i] > heap[0]:
            sift_down(heap, n, keys[i])
    return 0


cdef void mark(const uint32_t* codes, const int64_t* keys, int64_t n_rows, int64_t n,
               const int64_t* best, unsigned char* found) noexcept nogil:
    """Fill `found`: 1 where a key reaches the n-th best of its group."""
    cdef int64_t i
    for i in range(n_rows):
        found[i] = keys[i] >= best[codes[i] * n]


@cython.final
cdef class TopRows:
    """The n best keys of each group among the rows seen; for one thread.

    Parameters
    ----------
    n
        How many rows of each group are wanted: 1 or more.
    Raises
    ------
    ValueError
        If `n` is less than 1.
    Examples
    --------
    >>> import numpy as np
    >>> top, codes = TopRows(2), np.array([0, 1, 0, 0], np.uint32)
    >>> top.among(codes, np.array([4, 1, 7, 5]), 2).tolist()
    [False, True, True, True]
    >>> top.among(codes, np.array([5, 1, 9, 7]), 2).tolist()
    [False, True, True, True]
    """

    cdef int64_t n
    cdef vector[int64_t] best

    def __cinit__(self, int64_t n):
        if n < 1:
            raise ValueError(f"wanted are 1 or more rows of each group, not {n}")
        self.n = n

    def among(self, const uint32_t[::1] codes not None, const int64_t[::1] keys not None,
              int64_t n_groups):
        """Which of these rows are as good as the n-th best of their group, of all seen so far.

        Parameters
        ----------
        codes
            uint32, shape (rows,): the group of each row, from 0 below `n_groups`.
        keys
            int64, shape (rows,): larger is better.
        n_groups
            Never fewer than before.
        Returns
        -------
        mask
            bool, shape (rows,); all that tie with the n-th best are true.
        Raises
        ------
        ValueError
            If the lengths differ or a code is out of range; then no row counts as seen.
        """
        cdef int64_t n_rows = codes.shape[0]
        if n_rows != keys.shape[0]:
            raise ValueError(f"{n_rows} codes need as many keys, got {keys.shape[0]}")
        if n_groups * self.n > <int64_t> self.best.size():
            self.best.resize(n_groups * self.n, INT64_MIN)
        mask = np.zeros(n_rows, np.bool_)
        cdef unsigned char[::1] found = mask.view(np.uint8)
        cdef bint outside
        if n_rows == 0:
            return mask
        with nogil:
            outside = enter(&codes[0], &keys[0], n_rows, self.n, self.best)
            if not outside:
                mark(&codes[0], &keys[0], n_rows, self.n, self.best.data(), &found[0])
        if outside:
            raise ValueError(f"a code is not from 0 below {self.best.size() // self.n}")
        return mask
