"""Order statistics of segments: the values at given ranks, without sorting.

One job: per segment, the value at a rank and the one after it. Each segment is copied to scratch
and partitioned around the rank: O(values) on average, one allocation of the longest segment, GIL
released throughout.
"""

import numpy as np

from libc.stdint cimport int64_t
from libcpp.algorithm cimport nth_element
from libcpp.vector cimport vector

from fabric._cython.kernels.segments cimport check_offsets


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
