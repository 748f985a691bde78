"""Reordering columns of any Arrow type.

One job: rows of an array to new places. Where they go is `hash.pyx`'s business. Numbers of a
permutation are scattered (read in order, written by target), all else is gathered; nested columns
carry their children's rows along. Dictionaries are kept, not copied; views come out compact.
O(rows + bytes), buffers from an `Allocator`, GIL released throughout.
"""

import numpy as np
import pyarrow as pa

from libc.stdint cimport int64_t, uint32_t

from fabric._cython.kernels.arrow_c cimport (
    ArrowArray, ArrowSchema, Type, array_of, export_array, parse_type, schema_of,
)
from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.kernels.memory cimport Allocator, system_allocator


cdef extern from "take.hpp" namespace "fabric" nogil:
    cppclass Order:
        @staticmethod
        Order gather(const uint32_t* rows, int64_t n) noexcept

        @staticmethod
        Order scatter(const uint32_t* target, int64_t n, Allocator& allocator) noexcept

    void take_array(const Type& type, ArrowArray& array, const Order& order, int cpu,
                    Allocator& allocator, ArrowArray& out) except +


def take(array, const uint32_t[::1] rows not None):
    """Gather rows: row j of the result is row ``rows[j]``; rows may repeat or be left out.

    Parameters
    ----------
    array
        A `pyarrow.Array`. From outside the process it must have passed ``validate(full=True)``.
    rows
        shape (rows of the result,), uint32, each less than ``len(array)``.
    Returns
    -------
    taken
        A `pyarrow.Array` of the same type. Lists and strings of null rows come out empty.
    Raises
    ------
    IndexError
        If a row is out of range.
    OverflowError
        If offsets of the result do not fit their type.
    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> take(pa.array(["a", None, "c"]), np.array([2, 0, 1, 2], dtype=np.uint32)).to_pylist()
    ['c', 'a', None, 'c']
    """
    cdef int64_t n_rows = rows.shape[0]
    if n_rows and np.max(rows) >= len(array):
        raise IndexError(f"row {np.max(rows)} is out of range for {len(array)} rows")
    return reorder(array, &rows[0] if n_rows else NULL, n_rows, False)


def scatter(array, const uint32_t[::1] targets not None):
    """Permute rows: row i goes to ``targets[i]``.

    Parameters
    ----------
    array
        As for `take`.
    targets
        A permutation of ``range(len(array))``, uint32.
    Returns
    -------
    scattered
        A `pyarrow.Array` of the same type and length.
    Raises
    ------
    ValueError
        If `targets` is no permutation of the rows.
    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> scatter(pa.array([7, 8, 9]), np.array([1, 2, 0], dtype=np.uint32)).to_pylist()
    [9, 7, 8]
    """
    cdef int64_t n_rows = targets.shape[0]
    seen = np.bincount(targets, minlength=len(array)) if n_rows else np.empty(0)
    if n_rows != len(array) or len(seen) != n_rows or not (seen == 1).all():
        raise ValueError(f"targets must be a permutation of {len(array)} rows")
    return reorder(array, &targets[0] if n_rows else NULL, n_rows, True)


cdef object reorder(object array, const uint32_t* places, int64_t n_rows, bint by_target):
    schema_capsule, array_capsule = array.__arrow_c_array__()
    cdef const ArrowSchema* schema = schema_of(schema_capsule)
    cdef ArrowArray* source = array_of(array_capsule)
    cdef ArrowArray out
    cdef int cpu = current_cpu()
    with nogil:
        if by_target:
            take_array(parse_type(schema[0]), source[0],
                       Order.scatter(places, n_rows, system_allocator()), cpu, system_allocator(),
                       out)
        else:
            take_array(parse_type(schema[0]), source[0], Order.gather(places, n_rows), cpu,
                       system_allocator(), out)
    return pa.array(export_array(schema_capsule, &out))
