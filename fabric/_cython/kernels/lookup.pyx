"""Sorted rows looked up by the hashes of their keys: what filters say, and where rows are.

One job: the inner loops of a column store that is asked for keys. A filter has three bits for each
hash (Bloom, 1970): it never denies a hash that was added. Rows of a block are sorted by hash, then
time. O(log rows) for each key, nothing is copied. The GIL is released, unless there are few keys:
these are found sooner than another thread gives it back.
"""

import numpy as np

from libc.stdint cimport int64_t, uint64_t, uint8_t
from libcpp.algorithm cimport lower_bound, upper_bound
from libcpp.vector cimport vector

cdef int64_t FEW = 256
cdef uint64_t[3] MIX = [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9]


cdef inline bint has(const uint8_t* bits, uint64_t n_bits, uint64_t hashed) noexcept nogil:
    """Whether all bits of a hash are set; `n_bits` is not 0."""
    cdef uint64_t at
    cdef int i
    for i in range(3):
        at = ((hashed * MIX[i]) >> 32) % n_bits
        if not (bits[at >> 3] >> (at & 7)) & 1:
            return False
    return True


def add_to_filter(uint8_t[::1] bits not None, const uint64_t[::1] hashes not None):
    """Set the bits of hashes in a filter.

    Parameters
    ----------
    bits
        uint8, shape (bytes,), at least one; changed in place.
    hashes
        uint64, shape (n,).

    Raises
    ------
    ValueError
        If the filter has no bits.
    """
    if bits.shape[0] == 0:
        raise ValueError("a filter has at least one byte")
    cdef uint64_t n_bits = 8 * <uint64_t>bits.shape[0]
    cdef uint64_t at
    cdef int64_t i
    cdef int k
    with nogil:
        for i in range(hashes.shape[0]):
            for k in range(3):
                at = ((hashes[i] * MIX[k]) >> 32) % n_bits
                bits[at >> 3] |= <uint8_t>(1 << (at & 7))


def in_filter(const uint8_t[::1] bits not None, const uint64_t[::1] hashes not None):
    """Which hashes may have been added to a filter.

    Parameters
    ----------
    bits
        uint8, shape (bytes,), at least one.
    hashes
        uint64, shape (n,).

    Returns
    -------
    found
        bool, shape (n,): True for each that was added, and, with 12 bits for each hash, for about
        one in a hundred of the others.

    Raises
    ------
    ValueError
        If the filter has no bits.

    Examples
    --------
    >>> import numpy as np
    >>> bits = np.zeros(12, np.uint8)
    >>> add_to_filter(bits, np.array([7, 8], np.uint64))
    >>> in_filter(bits, np.array([7, 8], np.uint64)).tolist()
    [True, True]
    """
    if bits.shape[0] == 0:
        raise ValueError("a filter has at least one byte")
    found = np.empty(hashes.shape[0], np.bool_)
    cdef uint8_t[::1] view = found.view(np.uint8)
    cdef int64_t i
    with nogil:
        for i in range(hashes.shape[0]):
            view[i] = has(&bits[0], 8 * <uint64_t>bits.shape[0], hashes[i])
    return found


def in_blocks(const uint64_t[::1] hashes not None, const uint64_t[::1] firsts not None,
              const uint64_t[::1] lasts not None, const uint8_t[::1] filters not None,
              const int64_t[::1] ends not None):
    """Which hashes some row of a run may have.

    Parameters
    ----------
    hashes
        uint64, shape (n,).
    firsts, lasts
        uint64, shape (blocks,): the least and the greatest hash of each block, not decreasing.
    filters, ends
        uint8, shape (bytes,): the filters of all blocks; int64, shape (blocks,): where that of each
        block ends.

    Returns
    -------
    found
        bool, shape (n,): False where no row can have the hash.

    Raises
    ------
    ValueError
        If the lengths do not fit, or a filter leaves the bytes.
    """
    cdef int64_t n_blocks = lasts.shape[0], n = hashes.shape[0], wrong
    if firsts.shape[0] != n_blocks or ends.shape[0] != n_blocks:
        raise ValueError(
            f"{n_blocks} blocks need as many first hashes and filters, got {firsts.shape[0]} and "
            f"{ends.shape[0]}")
    found = np.zeros(n, np.bool_)
    cdef uint8_t[::1] view = found.view(np.uint8)
    if n_blocks == 0 or n == 0:
        return found
    cdef const uint8_t* bits = &filters[0] if filters.shape[0] else NULL
    cdef int64_t n_bytes = filters.shape[0]
    if n <= FEW:
        wrong = ask_blocks(&hashes[0], n, &firsts[0], &lasts[0], n_blocks, bits, n_bytes, &ends[0],
                           &view[0])
    else:
        with nogil:
            wrong = ask_blocks(&hashes[0], n, &firsts[0], &lasts[0], n_blocks, bits, n_bytes,
                               &ends[0], &view[0])
    if wrong >= 0:
        raise ValueError(f"the filter of block {wrong} leaves the {n_bytes} bytes")
    return found


cdef int64_t ask_blocks(const uint64_t* hashes, int64_t n, const uint64_t* firsts,
                        const uint64_t* lasts, int64_t n_blocks, const uint8_t* filters,
                        int64_t n_bytes, const int64_t* ends, uint8_t* found) noexcept nogil:
    """See `in_blocks`; returns a block whose filter leaves the bytes, -1 if there is none."""
    cdef int64_t i, block, begin, end
    for i in range(n):
        block = lower_bound(lasts, lasts + n_blocks, hashes[i]) - lasts
        if block == n_blocks or firsts[block] > hashes[i]:
            continue
        begin = ends[block - 1] if block > 0 else 0
        end = ends[block]
        if begin < 0 or begin >= end or end > n_bytes:
            return block
        found[i] = has(filters + begin, 8 * <uint64_t>(end - begin), hashes[i])
    return -1


def positions(const uint64_t[::1] rows not None, const int64_t[::1] row_times not None,
              const uint64_t[::1] hashes not None, times=None, int64_t since=-(1 << 63),
              removed=None, int64_t begin=0):
    """Where keys are among sorted rows.

    Parameters
    ----------
    rows, row_times
        uint64 and int64, shape (n,): the hash and the time of each row, sorted by both.
    hashes, times
        uint64 and int64, shape (keys,), sorted likewise: what is looked for. Without times a row
        with one of the hashes is found whatever its time.
    since
        Rows with earlier times are left out.
    removed
        uint8, shape (bytes,): a bit for each row by its number, where set the row is left out.
    begin
        The number of the first row in `removed`.

    Returns
    -------
    at
        int64, shape (found,): positions in `rows`, in order.

    Raises
    ------
    ValueError
        If lengths do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> rows, times = np.array([3, 5, 5, 9], np.uint64), np.array([0, 1, 2, 0])
    >>> positions(rows, times, np.array([5, 6], np.uint64)).tolist()
    [1, 2]
    >>> positions(rows, times, np.array([5, 9], np.uint64), np.array([2, 4])).tolist()
    [2]
    """
    cdef int64_t n = rows.shape[0], n_keys = hashes.shape[0]
    cdef const int64_t[::1] wanted
    cdef const int64_t* t = NULL
    cdef const uint8_t[::1] bits
    cdef const uint8_t* gone = NULL
    if row_times.shape[0] != n:
        raise ValueError(f"{n} rows need as many times, got {row_times.shape[0]}")
    if times is not None:
        wanted = times
        if wanted.shape[0] != n_keys:
            raise ValueError(f"{n_keys} hashes need as many times, got {wanted.shape[0]}")
        if n_keys:
            t = &wanted[0]
    if removed is not None:
        bits = removed
        if begin < 0 or 8 * bits.shape[0] < begin + n:
            raise ValueError(
                f"rows {begin} to {begin + n} need as many bits, got {8 * bits.shape[0]}")
        if bits.shape[0]:
            gone = &bits[0]
    cdef vector[int64_t] found
    if 0 < n_keys <= FEW and n:
        search(&rows[0], &row_times[0], n, &hashes[0], t, n_keys, since, gone, begin, found)
    elif n and n_keys:
        with nogil:
            search(&rows[0], &row_times[0], n, &hashes[0], t, n_keys, since, gone, begin, found)
    at = np.empty(found.size(), np.int64)
    cdef int64_t[::1] view = at
    cdef size_t i
    for i in range(found.size()):
        view[i] = found[i]
    return at


cdef int search(const uint64_t* rows, const int64_t* row_times, int64_t n, const uint64_t* hashes,
                const int64_t* times, int64_t n_keys, int64_t since, const uint8_t* gone,
                int64_t begin, vector[int64_t]& found) except -1 nogil:
    """See `positions`."""
    cdef int64_t i, at = 0, end, number
    for i in range(n_keys):
        if i > 0 and hashes[i] == hashes[i - 1] and (times == NULL or times[i] == times[i - 1]):
            continue
        at = lower_bound(rows + at, rows + n, hashes[i]) - rows
        if at == n:
            break
        if rows[at] != hashes[i]:
            continue
        end = upper_bound(rows + at, rows + n, hashes[i]) - rows
        number = at
        if times != NULL:
            number = lower_bound(row_times + at, row_times + end, times[i]) - row_times
            end = upper_bound(row_times + number, row_times + end, times[i]) - row_times
        while number < end:
            if row_times[number] >= since and not (
                gone != NULL and (gone[(begin + number) >> 3] >> ((begin + number) & 7)) & 1
            ):
                found.push_back(number)
            number += 1
    return 0
