"""The hash of a row, the same 64 bits on every machine and in every process, and its partition.

One job: hash key columns of any Arrow type, one pass, a block of 1,024 rows at a time; and group
row ids by hash partition, two passes (count, then place), stable, O(rows + partitions). Gathering
columns is `take.pyx`'s. The GIL is released unless few rows are hashed.

Specification, version 1 (arithmetic modulo 2**64; test vectors in tests/_cython/kernels)::

    finish(x)        MurmurHash3's 64-bit finaliser
    step(h, word)    finish(h * 0x9E3779B97F4A7C15 + word)
    row hash         h = finish(seed + 0x9E3779B97F4A7C15); h = step(h, word) for each key in order

The word of a value is the same whatever its layout (width, dictionary, run-end encoding, view,
large, list view, fixed-size list, map, chunk, slice):

- integers, booleans: the value in two's complement;
- floats: the bits of the float64, with -0.0 as 0.0 and one NaN;
- dates, times, timestamps, durations: nanoseconds, whatever the unit; a zone does not count;
- decimals: unscaled * 10**-scale modulo 2**61 - 1, so 1.5 is 1.500;
- strings, binary, fixed-size binary: a wyhash of the bytes (`bytes_word`);
- lists, maps: 0x8EBC6AF09C88C6E3, a step for each element, a step for the length;
- structs, and intervals as (months, days, nanoseconds): 0x589965CC75374CC3, a step for each field;
- unions: the value held; extension types: their storage; null: 0xB492B66FBE98F273.

Different types may collide (1, True, one nanosecond): cast both sides of a join to one type first.
"""

import numpy as np
import pyarrow as pa

from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t
from libcpp.algorithm cimport fill

from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema, array_of, schema_of
from fabric._cython.kernels.cpu cimport current_cpu

N_KEY_GROUPS = PARTITIONS_MAX
cdef int64_t FEW = 256  # hashed sooner than another thread gives the GIL back


cdef int64_t hash_chunk(object chunk, uint64_t* hashes) except -1:
    """Export one pyarrow array and step it; returns its length."""
    schema_capsule, array_capsule = chunk.__arrow_c_array__()
    cdef const ArrowSchema* schema = schema_of(schema_capsule)
    cdef const ArrowArray* array = array_of(array_capsule)
    cdef int cpu = current_cpu()
    if array.length <= FEW:
        step_array(schema[0], array[0], cpu, hashes)
    else:
        with nogil:
            step_array(schema[0], array[0], cpu, hashes)
    return array.length


def hash_columns(arrays, uint64_t seed=0):
    """Hash rows over key columns, in the order given.

    Parameters
    ----------
    arrays
        At least one `pyarrow.Array` or `pyarrow.ChunkedArray`, all of one length; nulls are a
        value. Arrays from outside the process must have passed ``validate(full=True)``.
    seed
        Another seed gives another, independent hash.
    Returns
    -------
    hashes
        uint64, shape (rows,).
    Raises
    ------
    ValueError
        If there is no array, or their lengths differ.
    Notes
    -----
    The specification is in this module's docstring.
    Examples
    --------
    >>> import pyarrow as pa
    >>> hash_columns([pa.array([7, None])]).tolist()
    [8813418250837724954, 15774905230907688500]
    >>> bool((hash_columns([pa.array([7], "int8")]) == hash_columns([pa.array([7])])).all())
    True
    """
    lengths = {len(array) for array in arrays}
    if len(lengths) != 1:
        raise ValueError(f"hash_columns wants arrays of one length, got {sorted(lengths)}")
    cdef int64_t n_rows = lengths.pop(), done
    hashes = np.empty(n_rows, dtype=np.uint64)
    if n_rows == 0:
        return hashes
    cdef uint64_t[::1] view = hashes
    fill(&view[0], &view[0] + n_rows, start_of(seed))
    for array in arrays:
        done = 0
        for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else (array,):
            if len(chunk) > 0:
                done += hash_chunk(chunk, &view[done])
    return hashes


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
