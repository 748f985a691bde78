"""What is known of the rows of each group so far: counts, sums, moments, extremes.

One job: aggregates by the group ids of `group_table.pyx`, batch after batch. All have the same
face: `update(ids, column)` takes rows in (id -1 leaves a row out; nulls count as SQL says),
`results(ids)` gives answers, `states(ids)` and `merge(ids, states)` carry exact states to another
table, `clear(ids)` begins anew for groups that were removed. They grow by themselves, and a group
that nothing came in for is empty. O(rows), GIL released throughout. For one thread.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool
from libcpp.memory cimport unique_ptr

from fabric._cython.kernels.arrow_c cimport (
    ArrowArray, ArrowSchema, Type, array_of, export_array, parse_type, schema_of,
)
from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.kernels.group_table cimport KeyTypes


cdef extern from "tables.hpp" namespace "fabric" nogil:
    cppclass CAccumulator "fabric::Accumulator":
        void reserve(const int32_t* ids, int64_t n, int cpu) except +
        void clear(const int32_t* ids, int64_t n) noexcept
        void update(const Type& type, const ArrowArray& array, const int32_t* ids) except +
        void merge(const Type& type, const ArrowArray& states, const int32_t* ids) except +
        void read(const int32_t* ids, int64_t n, uint8_t* out, uint8_t* seen) except +
        int64_t n_bytes() noexcept

    cppclass Counts(CAccumulator):
        void rows(const int32_t* ids, int64_t n) noexcept

    cppclass CExtremes "fabric::Extremes"(CAccumulator):
        bool is_ranked() noexcept
        void put_out(const int32_t* ids, int64_t n, ArrowArray& out) except +

    unique_ptr[Counts] make_counts() except +
    unique_ptr[CAccumulator] make_integer_sums() except +
    unique_ptr[CAccumulator] make_float_sums() except +
    unique_ptr[CAccumulator] make_decimal_sums() except +
    unique_ptr[CAccumulator] make_moment_sums() except +
    unique_ptr[CExtremes] make_extremes(const Type& type, bool greatest) except +

_DIGITS_MAX, _WIDE_DIGITS_MAX = 38, 76
_MOMENTS = ("count", "mean", "m2", "m3", "m4")


def _values(kind, data, seen):
    """An array of fixed width from its values' bytes, null where nothing was seen."""
    bits = None if seen.all() else pa.py_buffer(np.packbits(seen, bitorder="little"))
    return pa.Array.from_buffers(kind, len(seen), [bits, pa.py_buffer(data)])


def _numbers(column, name, allowed):
    """A column without its dictionary; ValueError when it is not of a type that is allowed."""
    if isinstance(column.type, pa.DictionaryType):
        column = column.dictionary_decode()
    if not allowed(column.type):
        raise ValueError(f"{name} can't add up {column.type}")
    return column


def _is_number(kind):
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


cdef class Accumulator:
    """What all aggregates have in common."""

    cdef CAccumulator* core

    def __dealloc__(self):
        with nogil:
            del self.core

    @property
    def nbytes(self):
        """Bytes of memory held."""
        return self.core.n_bytes()

    def clear(self, const int32_t[::1] ids not None):
        """Let these groups be empty again."""
        cdef int64_t n = ids.shape[0]
        if n > 0:
            with nogil:
                self.core.reserve(&ids[0], n, current_cpu())
                self.core.clear(&ids[0], n)

    cdef int take_in(self, const int32_t[::1] ids, object column, bint is_states) except -1:
        """Rows, or states of other tables, into their groups."""
        cdef int64_t n = ids.shape[0]
        if len(column) != n:
            raise ValueError(f"there are {n} ids, but {len(column)} rows")
        if n == 0:
            return 0
        schema_capsule, array_capsule = column.__arrow_c_array__()
        cdef const ArrowSchema* schema = schema_of(schema_capsule)
        cdef const ArrowArray* array = array_of(array_capsule)
        with nogil:
            self.core.reserve(&ids[0], n, current_cpu())
            if is_states:
                self.core.merge(parse_type(schema[0]), array[0], &ids[0])
            else:
                self.core.update(parse_type(schema[0]), array[0], &ids[0])
        return 0

    cdef tuple read(self, const int32_t[::1] ids, int width):
        """States of groups as bytes, shape (groups, width), and whether anything was seen."""
        cdef int64_t n = ids.shape[0]
        data, seen = np.empty((n, width), np.uint8), np.empty(n, np.uint8)
        cdef uint8_t[:, ::1] data_view = data
        cdef uint8_t[::1] seen_view = seen
        if n > 0:
            with nogil:
                self.core.reserve(&ids[0], n, current_cpu())
                self.core.read(&ids[0], n, &data_view[0, 0], &seen_view[0])
        return data, seen


cdef class Total(Accumulator):
    """An accumulator whose states are a column `name`; `kind` is the type of counts, float sums."""

    cdef str name
    cdef object kind

    def merge(self, const int32_t[::1] ids not None, states not None):
        """Take in the states of groups, as `states` of another table gave them."""
        self.take_in(ids, states.column(0), True)

    def states(self, const int32_t[::1] ids not None):
        """Exact states of groups: a batch of one column."""
        return pa.record_batch({self.name: self.results(ids)})

    def results(self, const int32_t[::1] ids not None):
        """The value of each group."""
        return _values(self.kind, *self.read(ids, 8))


@cython.final
cdef class CountAll(Total):
    """How many rows there are: int64.

    Examples
    --------
    >>> import numpy as np
    >>> count = CountAll()
    >>> count.update(np.array([0, 1, 0, -1], np.int32))
    >>> count.results(np.array([0, 1, 2], np.int32)).to_pylist()
    [2, 1, 0]
    """

    def __cinit__(self):
        self.core, self.name, self.kind = make_counts().release(), "count", pa.int64()

    def update(self, const int32_t[::1] ids not None):
        """Count rows by their groups' ids: int32, shape (rows,)."""
        cdef int64_t n = ids.shape[0]
        if n > 0:
            with nogil:
                self.core.reserve(&ids[0], n, current_cpu())
                (<Counts*> self.core).rows(&ids[0], n)


def _unfolded_nulls(column):
    """Null where a run-end encoded array is; Arrow decodes runs of few types, bools among them."""
    values = column.values
    if isinstance(values.type, pa.DictionaryType) and values.dictionary.null_count > 0:
        values = values.dictionary_decode()
    is_there = pa.RunEndEncodedArray.from_arrays(column.run_ends, values.is_valid())
    rows = pc.run_end_decode(is_there).slice(column.offset, len(column))
    return pc.if_else(rows, rows, pa.scalar(None, pa.bool_()))


@cython.final
cdef class Count(Total):
    """How many values are not null: int64."""

    def __cinit__(self):
        self.core, self.name, self.kind = make_counts().release(), "count", pa.int64()

    def update(self, const int32_t[::1] ids not None, column not None):
        """Count the values of an array of any type but unions, one row an id."""
        if isinstance(column.type, pa.DictionaryType) and column.dictionary.null_count > 0:
            column = column.dictionary_decode()
        elif pa.types.is_run_end_encoded(column.type):
            column = _unfolded_nulls(column)
        elif pa.types.is_union(column.type):
            raise ValueError(f"Count can't tell which values of {column.type} are null")
        self.take_in(ids, column, False)


@cython.final
cdef class SumInt64(Total):
    """The sum of integers: int64, null when there is no value.

    Inside, sums have 96 bits: only results that do not fit 64 bits are refused, whatever the order
    in which their values came.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> total = SumInt64()
    >>> total.update(np.array([0, 1, 0], np.int32), pa.array([2**63 - 1, None, -5]))
    >>> total.results(np.array([0, 1], np.int32)).to_pylist()
    [9223372036854775802, None]
    """

    def __cinit__(self):
        self.core, self.name = make_integer_sums().release(), "sum"

    def update(self, const int32_t[::1] ids not None, column not None):
        """Add an array of integers of any width, one row an id.

        Raises
        ------
        ValueError
            If the array holds no integers, or its length differs.
        """
        self.take_in(ids, _numbers(column, "SumInt64", pa.types.is_integer), False)

    def states(self, const int32_t[::1] ids not None):
        """Exact states of groups: a batch of one column `sum`."""
        kind = pa.decimal128(_DIGITS_MAX, 0)
        return pa.record_batch({self.name: _values(kind, *self.read(ids, 16))})

    def results(self, const int32_t[::1] ids not None):
        """The sum of each group: int64.

        Raises
        ------
        OverflowError
            If a sum does not fit 64 bits.
        """
        data, seen = self.read(ids, 16)
        words = data.view(np.int64)
        low = np.ascontiguousarray(words[:, 0])
        wrong = np.flatnonzero(low >> 63 != words[:, 1])
        if len(wrong) > 0:
            total = int.from_bytes(data[wrong[0]].tobytes(), "little", signed=True)
            raise OverflowError(
                f"the sum of group {ids[wrong[0]]} is {total}, which does not fit 64 bits; "
                "cast the values to decimal or double first")
        return _values(pa.int64(), low, seen)


@cython.final
cdef class SumFloat64(Total):
    """The sum of floats, added in the order of rows: float64, null when there is no value."""

    def __cinit__(self):
        self.core, self.name, self.kind = make_float_sums().release(), "sum", pa.float64()

    def update(self, const int32_t[::1] ids not None, column not None):
        """Add an array of numbers, one row an id; others than floats are cast to float64."""
        column = _numbers(column, "SumFloat64", _is_number)
        if column.type not in (pa.float32(), pa.float64()):
            column = column.cast(pa.float64())
        self.take_in(ids, column, False)


@cython.final
cdef class SumDecimal(Total):
    """The sum of decimals of one scale: decimal128, null when there is no value.

    Inside, sums have 256 bits: only results of too many digits are refused.

    Parameters
    ----------
    precision, scale
        Of the results.
    """

    cdef readonly object type

    def __cinit__(self, precision, scale):
        self.type = pa.decimal128(precision, scale)
        self.core, self.name = make_decimal_sums().release(), "sum"

    def update(self, const int32_t[::1] ids not None, column not None):
        """Add an array of decimals of this scale, one row an id.

        Raises
        ------
        ValueError
            If the array holds no decimals of this scale.
        """
        column = _numbers(column, "SumDecimal", pa.types.is_decimal)
        if column.type.scale != self.type.scale:
            raise ValueError(f"decimals have scale {self.type.scale} here, got {column.type}")
        if not pa.types.is_decimal128(column.type):
            column = column.cast(pa.decimal128(_DIGITS_MAX, self.type.scale))
        self.take_in(ids, column, False)

    def states(self, const int32_t[::1] ids not None):
        """Exact states of groups: a batch of one column `sum`."""
        kind = pa.decimal256(_WIDE_DIGITS_MAX, self.type.scale)
        return pa.record_batch({self.name: _values(kind, *self.read(ids, 32))})

    def results(self, const int32_t[::1] ids not None):
        """The sum of each group.

        Raises
        ------
        OverflowError
            If a sum has more digits than the type.
        """
        sums = self.states(ids).column(0)
        try:
            return sums.cast(self.type)
        except pa.ArrowInvalid as error:
            raise OverflowError(f"a sum does not fit {self.type}: {error}") from error


@cython.final
cdef class Moments(Accumulator):
    """Count, mean and sums of powers of deviations: what variances and the like are made of.

    Notes
    -----
    Updated one by one and merged as in Pebay, Formulas for Robust, One-Pass Parallel Computation of
    Covariances and Arbitrary-Order Statistical Moments, 2008.
    """

    def __cinit__(self):
        self.core = make_moment_sums().release()

    def update(self, const int32_t[::1] ids not None, column not None):
        """Take in an array of numbers, cast to float64, one row an id; nulls don't count."""
        column = _numbers(column, "Moments", _is_number)
        self.take_in(ids, column.cast(pa.float64()), False)

    def merge(self, const int32_t[::1] ids not None, states not None):
        """Take in the states of groups, as `states` of another table gave them."""
        columns = [states.column(name).to_numpy(zero_copy_only=False) for name in _MOMENTS]
        rows = np.ascontiguousarray(np.column_stack(columns), np.float64)
        self.take_in(ids, _values(pa.binary(rows.itemsize * len(_MOMENTS)), rows,
                                  np.ones(len(rows), np.uint8)), True)

    def states(self, const int32_t[::1] ids not None):
        """A batch of count, mean, m2, m3, m4: float64; zeros where there is no value."""
        rows = self.read(ids, 8 * len(_MOMENTS))[0].view(np.float64)
        return pa.record_batch({name: rows[:, i].copy() for i, name in enumerate(_MOMENTS)})


cdef class Extremes(Total):
    """The least or greatest values, of any type that has an order.

    Numbers, times and booleans take a fast path; others are compared in full, strings and binary by
    their bytes. NaN is greater than all numbers, and -0.0 is 0.0.
    """

    cdef KeyTypes types

    def __cinit__(self, kind not None):
        if pa.types.is_null(kind) or kind == pa.month_day_nano_interval():
            raise ValueError(f"values of {kind} have no order")
        self.name, self.types = "value", KeyTypes(pa.schema([("value", kind)]))
        self.core = make_extremes(self.types.types()[0], type(self) is Max).release()

    def update(self, const int32_t[::1] ids not None, column not None):
        """Take in an array of the type, in any layout, one row an id.

        Raises
        ------
        ValueError
            If the array is of another type or length.
        """
        self.types.arrays_of([column])
        self.take_in(ids, column, False)

    def merge(self, const int32_t[::1] ids not None, states not None):
        """Take in the states of groups, as `states` of another table gave them."""
        self.update(ids, states.column(0))

    def results(self, const int32_t[::1] ids not None):
        """The value of each group, null where there is none."""
        stored = self.ranked(ids) if (<CExtremes*> self.core).is_ranked() else self.unranked(ids)
        batch = pa.record_batch({self.name: stored})
        return self.types.as_declared(batch).column(0)

    cdef object ranked(self, const int32_t[::1] ids):
        """Values of at most 64 bits."""
        data, seen = self.read(ids, 8)
        words = data.view(np.uint64)[:, 0]
        kind = self.types.stored.field(0).type
        storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        if pa.types.is_boolean(storage):
            data = np.packbits(words.astype(np.uint8), bitorder="little")
        else:
            data = words.astype(f"u{storage.bit_width // 8}")
        values = _values(storage, data, seen)
        return values if kind == storage else pa.ExtensionArray.from_storage(kind, values)

    cdef object unranked(self, const int32_t[::1] ids):
        """Values of more bits."""
        cdef int64_t n = ids.shape[0]
        cdef const int32_t* first = &ids[0] if n > 0 else NULL
        cdef ArrowArray out
        capsule = self.types.stored.__arrow_c_schema__()
        with nogil:
            self.core.reserve(first, n, current_cpu())
            (<CExtremes*> self.core).put_out(first, n, out)
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
