"""Stable grouping of row ids by hash partition.

One job: turn a hash per row into `offsets` and `row_ids`. Hashing lives in `hash.pyx`, gathering
columns in `take.pyx`. Two passes (count, then place), O(rows + partitions) time, no per-row
allocation, GIL released throughout.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from fabric._cython.kernels.cpu cimport current_cpu


cdef extern from "partition.hpp" namespace "fabric" nogil:
    const int32_t PARTITIONS_MAX

    void partition_ids(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                       uint16_t* ids) noexcept
    void group_rows(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                    int64_t* offsets, int64_t* row_ids) except +

N_KEY_GROUPS = PARTITIONS_MAX


cdef int32_t checked_partitions(object n_partitions) except -1:
    """The number as a C int, or ValueError naming the range."""
    if not 1 <= n_partitions <= PARTITIONS_MAX:
        raise ValueError(
            f"n_partitions must be between 1 and {PARTITIONS_MAX}, got {n_partitions}")
    return n_partitions


def partition_of(const uint64_t[::1] hashes not None, n_partitions):
    """The partition of each row: key group (top 15 bits) times `n_partitions`, shifted down 15.

    Parameters
    ----------
    hashes
        One hash per row; shape (rows,), uint64, C-contiguous, no nulls.
    n_partitions
        1 <= n <= 2**15.
    Returns
    -------
    ids
        uint16, shape (rows,).
    Raises
    ------
    ValueError
        If `n_partitions` is out of its range.
    Examples
    --------
    >>> import numpy as np
    >>> partition_of(np.array([0, 1 << 63, (1 << 64) - 1], dtype=np.uint64), 3).tolist()
    [0, 1, 2]
    """
    cdef int32_t n = checked_partitions(n_partitions)
    cdef int64_t n_rows = hashes.shape[0]
    ids = np.empty(n_rows, dtype=np.uint16)
    cdef uint16_t[::1] view = ids
    if n_rows > 0:
        with nogil:
            partition_ids(current_cpu(), &hashes[0], n_rows, n, &view[0])
    return ids


def partition_rows(const uint64_t[::1] hashes not None, n_partitions):
    """Group row ids by partition ``(hash >> 49) * n_partitions >> 15``, keeping row order inside.

    Parameters
    ----------
    hashes
        One hash per row; shape (rows,), uint64, C-contiguous, no nulls.
    n_partitions
        1 <= n <= 2**15.
    Returns
    -------
    offsets, row_ids
        int64, shapes (n_partitions + 1,) and (rows,). Partition p owns
        ``row_ids[offsets[p]:offsets[p + 1]]``.
    Raises
    ------
    ValueError
        If `n_partitions` is out of its range, or there are 2**32 rows or more.
    Notes
    -----
    Counting sort: Knuth, TAOCP vol. 3, section 5.2, algorithm D.
    Examples
    --------
    >>> import numpy as np
    >>> offsets, rows = partition_rows(np.array([0, 1 << 63, 1], dtype=np.uint64), 2)
    >>> offsets.tolist(), rows.tolist()
    ([0, 2, 3], [0, 2, 1])
    """
    cdef int32_t n = checked_partitions(n_partitions)
    cdef int64_t n_rows = hashes.shape[0]
    if n_rows >> 32:
        raise ValueError(f"a batch may hold 2**32 - 1 rows at most, got {n_rows}")
    offsets = np.zeros(n + 1, dtype=np.int64)
    rows = np.empty(n_rows, dtype=np.int64)
    cdef int64_t[::1] offsets_view = offsets
    cdef int64_t[::1] rows_view = rows
    if n_rows > 0:
        with nogil:
            group_rows(current_cpu(), &hashes[0], n_rows, n, &offsets_view[0], &rows_view[0])
    return offsets, rows
