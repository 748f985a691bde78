"""The least and the greatest value of each group, of any type that has an order.

One job: minimum and maximum by the group ids of `group_table.pyx`, with the face that
`accumulators.pyx` describes. Numbers, times and booleans take a fast path; decimals of more than 64
bits, strings and binary (by their bytes) are compared in full. NaN is greater than all numbers, and
-0.0 is 0.0. O(rows), GIL released throughout. For one thread.
"""

import numpy as np
import pyarrow as pa

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from fabric._cython.kernels.arrow_c cimport (
    ArrowArray, ArrowSchema, array_of, export_array, schema_of,
)
from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.kernels.group_table cimport KeyTypes
from fabric._cython.kernels.type cimport parse_type

_VALUE = "value"


cdef class Extremes:
    """What minimum and maximum have in common."""

    def __cinit__(self, kind not None):
        if pa.types.is_null(kind) or kind == pa.month_day_nano_interval():
            raise ValueError(f"values of {kind} have no order")
        self.types = KeyTypes(pa.schema([(_VALUE, kind)]))
        self.core = new CExtremes(self.types.types()[0], type(self) is Max)

    def __dealloc__(self):
        with nogil:
            del self.core

    @property
    def nbytes(self):
        """Bytes of memory held."""
        return self.core.n_bytes()

    def update(self, const int32_t[::1] ids not None, column not None):
        """Take in an array of the type, in any layout, one row an id.

        Raises
        ------
        ValueError
            If the array is of another type or length.
        """
        cdef int64_t n = ids.shape[0]
        self.types.arrays_of([column])
        if len(column) != n:
            raise ValueError(f"there are {n} ids, but {len(column)} rows")
        if n == 0:
            return
        schema_capsule, array_capsule = column.__arrow_c_array__()
        cdef const ArrowSchema* schema = schema_of(schema_capsule)
        cdef const ArrowArray* array = array_of(array_capsule)
        with nogil:
            self.core.update(parse_type(schema[0]), array[0], &ids[0], current_cpu())

    def merge(self, const int32_t[::1] ids not None, states not None):
        """Take in the states of groups, as `states` of another table gave them."""
        self.update(ids, states.column(0))

    def states(self, const int32_t[::1] ids not None):
        """A batch of one column `value`: the results."""
        return pa.record_batch({_VALUE: self.results(ids)})

    def results(self, const int32_t[::1] ids not None):
        """The value of each group, null where there is none."""
        stored = self.words(ids) if self.core.is_ranked() else self.values(ids)
        schema = pa.schema([(_VALUE, stored.type)])
        batch = pa.RecordBatch.from_arrays([stored], schema=schema)
        return self.types.as_declared(batch).column(0)

    def clear(self, const int32_t[::1] ids not None):
        """Let these groups be empty again."""
        cdef int64_t n = ids.shape[0]
        if n > 0:
            with nogil:
                self.core.clear(&ids[0], n, current_cpu())

    cdef object words(self, const int32_t[::1] ids):
        """Values of at most 64 bits."""
        cdef int64_t n = ids.shape[0]
        found, seen = np.empty(n, np.uint64), np.empty(n, np.uint8)
        cdef uint64_t[::1] found_view = found
        cdef uint8_t[::1] seen_view = seen
        if n > 0:
            with nogil:
                self.core.read(&ids[0], n, current_cpu(), &found_view[0], &seen_view[0])
        kind = self.types.stored.field(0).type
        storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        if pa.types.is_boolean(storage):
            data = np.packbits(found.astype(np.uint8), bitorder="little")
        else:
            data = found.astype(f"u{storage.bit_width // 8}")
        bits = None if seen.all() else pa.py_buffer(np.packbits(seen, bitorder="little"))
        values = pa.Array.from_buffers(storage, n, [bits, pa.py_buffer(data)])
        return values if kind == storage else pa.ExtensionArray.from_storage(kind, values)

    cdef object values(self, const int32_t[::1] ids):
        """Values of more bits."""
        cdef int64_t n = ids.shape[0]
        cdef const int32_t* first = &ids[0] if n > 0 else NULL
        cdef ArrowArray out
        capsule = self.types.stored.__arrow_c_schema__()
        with nogil:
            self.core.put_out(first, n, current_cpu(), out)
        return pa.record_batch(export_array(capsule, &out)).column(0)


@cython.final
cdef class Min(Extremes):
    """The least value of each group.

    Parameters
    ----------
    kind
        `pyarrow.DataType` of the values.
    Raises
    ------
    ValueError
        If values of this type have no order.
    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> least = Min(pa.string())
    >>> least.update(np.array([0, 1, 0], np.int32), pa.array(["b", None, "a"]))
    >>> least.results(np.array([0, 1], np.int32)).to_pylist()
    ['a', None]
    """


@cython.final
cdef class Max(Extremes):
    """The greatest value of each group; as `Min`."""
