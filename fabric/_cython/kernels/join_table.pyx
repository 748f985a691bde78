"""Rows found by their keys: the state of a join's side.

One job: keep rows, give those whose keys equal a batch's, forget them by time. As in SQL a null
key equals nothing; -0.0 equals 0.0, and NaN equals NaN. Rows of one key come in the order in which
they were inserted. One integer or time as the key takes a fast path (one cache line a row, fetched
ahead). The table grows a segment at a time, so no batch waits for a rehash; O(rows), GIL released
throughout. For one thread.
"""

import numpy as np
import pyarrow as pa

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t
from libc.string cimport memcpy
from libcpp cimport bool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from fabric._cython.kernels.arrow_c cimport ArrowArray, Type, export_array
from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.kernels.group_table cimport KeyTypes, c_arrays, groups_of, lie_in

from fabric._cython.kernels.group_table import KEY_GROUP
from fabric._cython.kernels.take import take


cdef extern from "tables.hpp" namespace "fabric" nogil:
    cppclass CJoinTable "fabric::JoinTable":
        void insert(const vector[Type]& key_types, const vector[ArrowArray*]& keys,
                    const vector[ArrowArray*]& payload, const int64_t* times, int cpu) except +
        const int32_t* placed() noexcept
        int64_t probe(const vector[Type]& types, const vector[ArrowArray*]& arrays, int64_t begin,
                      int64_t most, bool outer, int cpu) except +
        int64_t n_pairs() noexcept
        bool each_has_one() noexcept
        const uint32_t* probed() noexcept
        const int32_t* found() noexcept
        void contains(const vector[Type]& types, const vector[ArrowArray*]& arrays, int cpu,
                      uint8_t* out) except +
        int64_t remove_before(int64_t bound) except +
        vector[int32_t] before(int64_t bound) except +
        void list(int32_t* places) noexcept
        void times(const int32_t* places, int64_t n, int64_t* out) noexcept
        int64_t n_places() noexcept
        void gather(const int32_t* places, int64_t n, const vector[int32_t]& which,
                    ArrowArray& out) except +
        int64_t n_rows() noexcept
        int64_t n_bytes() noexcept

    unique_ptr[CJoinTable] make_join_table(const vector[Type]& keys,
                                           const vector[Type]& payload) except +

TIME = "__time"


def _as_stored(column, kind):
    """A column without dictionaries and views."""
    if isinstance(column.type, pa.DictionaryType):
        column = column.dictionary_decode()
    return column if column.type == kind else column.cast(kind)


@cython.final
cdef class JoinTable:
    """Rows of one schema, by the values of their keys.

    Parameters
    ----------
    schema
        `pyarrow.Schema` of the rows; no column is nested.
    keys
        Names of the key columns, one or more.
    Raises
    ------
    ValueError
        If there is no key, a key is unknown or not unique, or a column is nested.
    Examples
    --------
    >>> import pyarrow as pa
    >>> table = JoinTable(pa.schema([("k", pa.int64()), ("v", pa.string())]), ["k"])
    >>> table.insert(pa.record_batch({"k": [1, 2, 1], "v": ["a", "b", "c"]})).tolist()
    [0, 1, 2]
    >>> rows, places, end = table.probe([pa.array([3, 1, 2])])
    >>> rows.tolist(), table.take(places)["v"].to_pylist(), end
    ([1, 1, 2], ['a', 'c', 'b'], 3)
    """

    cdef KeyTypes keys
    cdef KeyTypes columns
    cdef list key_indices
    cdef CJoinTable* core

    def __cinit__(self, schema not None, keys not None):
        self.columns = KeyTypes(schema, "column")
        self.key_indices = []
        for key in keys:
            found = schema.get_all_field_indices(key)
            if len(found) != 1:
                many = "is there more than once" if found else "is not there"
                raise ValueError(f"key column {key!r} {many}; columns are {schema.names}")
            self.key_indices.append(found[0])
        self.keys = KeyTypes(pa.schema([schema.field(i) for i in self.key_indices]))
        self.core = make_join_table(self.keys.types(), self.columns.types()).release()

    def __dealloc__(self):
        with nogil:
            del self.core

    @property
    def schema(self):
        """The rows' fields."""
        return self.columns.schema

    @property
    def n_rows(self):
        """How many rows there are."""
        return self.core.n_rows()

    @property
    def nbytes(self):
        """Bytes of memory held."""
        return self.core.n_bytes()

    def insert(self, batch not None, const int64_t[::1] times=None):
        """Keep the rows of a batch.

        Parameters
        ----------
        batch
            A `pyarrow.RecordBatch` of the schema's types, in any layout of them. From outside the
            process it must have passed ``validate(full=True)``.
        times
            What `remove_before` goes by, one a row; such rows stay for ever when not given.
        Returns
        -------
        places
            Where each row is until it is removed, as `probe` gives them: int32, shape (rows,).
        Raises
        ------
        ValueError
            If columns are of other types, too few or many, or there is not a time a row.
        OverflowError
            If there would be more than 2**31 - 1 rows.
        """
        columns = self.columns.arrays_of(batch)
        cdef int64_t n = batch.num_rows
        if times is not None and times.shape[0] != n:
            raise ValueError(f"there are {n} rows, but {times.shape[0]} times")
        places = np.empty(n, np.int32)
        if n == 0:
            return places
        cdef int32_t[::1] places_view = places
        kinds = self.columns.stored.types
        stored = [_as_stored(column, kind) for column, kind in zip(columns, kinds)]
        cdef vector[Type] types, key_types
        cdef vector[ArrowArray*] arrays, key_arrays
        kept = c_arrays(stored, types, arrays)
        kept += c_arrays([columns[i] for i in self.key_indices], key_types, key_arrays)
        cdef const int64_t* first = NULL
        if times is not None:
            first = &times[0]
        cdef int cpu = current_cpu()
        with nogil:
            self.core.insert(key_types, key_arrays, arrays, first, cpu)
            memcpy(&places_view[0], self.core.placed(), n * sizeof(int32_t))
        return places

    def probe(self, keys not None, *, bool outer=False, int64_t begin=0,
              int64_t pairs_max=1 << 22):
        """Pairs of a probe row and a kept row of equal keys, by probe row.

        Parameters
        ----------
        keys
            A `pyarrow.RecordBatch` of the keys alone, or one array a key.
        outer
            A probe row without a match makes a pair too, with the place -1.
        begin
            The first probe row.
        pairs_max
            Stop before a probe row that would make more pairs, unless it is the first.
        Returns
        -------
        probe_rows, places, end
            uint32 and int32, shapes (pairs,), to be taken from the probe side and by `take`; and
            the probe row to go on with, the number of rows at the end. `probe_rows` is None when
            every probe row has made one pair, so that there is nothing to take. A place holds until
            its row is removed.
        Raises
        ------
        ValueError
            If keys are of other types, too few or many, or of several lengths.
        """
        columns = self.keys.arrays_of(keys)
        cdef int64_t n_rows = len(columns[0]), end = n_rows
        if not 0 <= begin <= n_rows:
            raise ValueError(f"begin is {begin}, but there are {n_rows} rows")
        cdef vector[Type] types
        cdef vector[ArrowArray*] arrays
        cdef int cpu = current_cpu()
        cdef int64_t n = 0
        cdef bool whole = begin == 0
        if begin < n_rows:
            _kept = c_arrays(columns, types, arrays)
            with nogil:
                end = self.core.probe(types, arrays, begin, pairs_max, outer, cpu)
            n = self.core.n_pairs()
            whole = n == n_rows and self.core.each_has_one()
        places, rows = np.empty(n, np.int32), None
        cdef int32_t[::1] places_view = places
        cdef uint32_t[::1] rows_view
        if n > 0:
            memcpy(&places_view[0], self.core.found(), n * sizeof(int32_t))
        if not whole:
            rows = np.empty(n, np.uint32)
            rows_view = rows
            if n > 0:
                memcpy(&rows_view[0], self.core.probed(), n * sizeof(uint32_t))
        return rows, places, end

    def contains(self, keys not None):
        """Whether there is a row of equal keys: bool, shape (rows,); `keys` as for `probe`."""
        columns = self.keys.arrays_of(keys)
        found = np.zeros(len(columns[0]), np.uint8)
        cdef uint8_t[::1] view = found
        cdef vector[Type] types
        cdef vector[ArrowArray*] arrays
        cdef int cpu = current_cpu()
        if view.shape[0] > 0:
            _kept = c_arrays(columns, types, arrays)
            with nogil:
                self.core.contains(types, arrays, cpu, &view[0])
        return found.view(np.bool_)

    def take(self, const int32_t[::1] places not None, columns=None):
        """The rows at places that `probe` gave: a `pyarrow.RecordBatch`; nulls for place -1.

        Parameters
        ----------
        places
            int32.
        columns
            Names of the columns wanted; all when not given.
        Raises
        ------
        IndexError
            If there never was a row there.
        OverflowError
            If strings of a column with 32-bit offsets come to 2 GiB.
        """
        cdef int64_t n = places.shape[0]
        cdef int64_t i, n_places = self.core.n_places()
        cdef bool wrong = False
        with nogil:
            for i in range(n):  # places of rows that are gone are harmless
                wrong = wrong | (places[i] < -1) | (places[i] >= n_places)
        if wrong:
            raise IndexError(f"places are -1 to {n_places - 1}, got {np.min(places)} to "
                             f"{np.max(places)}")
        return self.gathered(places, self.schema.names if columns is None else list(columns))

    cdef object gathered(self, const int32_t[::1] places, list names):
        cdef vector[int32_t] which
        for name in names:
            which.push_back(self.schema.get_field_index(name))
            if which.back() < 0:
                raise ValueError(f"column {name!r} is not there, or more than once; "
                                 f"columns are {self.schema.names}")
        kinds = KeyTypes(pa.schema([self.schema.field(i) for i in which]), "column")
        cdef int64_t n = places.shape[0]
        cdef const int32_t* first = &places[0] if n > 0 else NULL
        cdef ArrowArray out
        capsule = kinds.stored.__arrow_c_schema__()
        with nogil:
            self.core.gather(first, n, which, out)
        return kinds.as_declared(pa.record_batch(export_array(capsule, &out)))

    def remove_before(self, int64_t time):
        """Forget the rows whose time is less; returns how many."""
        cdef int64_t n
        with nogil:
            n = self.core.remove_before(time)
        return n

    def before(self, int64_t time):
        """The places of the rows that `remove_before` would forget: int32, rising."""
        cdef vector[int32_t] found
        with nogil:
            found = self.core.before(time)
        places = np.empty(found.size(), np.int32)
        cdef int32_t[::1] view = places
        if not found.empty():
            memcpy(&view[0], found.data(), found.size() * sizeof(int32_t))
        return places

    def places(self):
        """The places of all rows, in the order of `export`: int32, rising."""
        places = np.empty(self.n_rows, np.int32)
        cdef int32_t[::1] view = places
        if view.shape[0] > 0:
            with nogil:
                self.core.list(&view[0])
        return places

    def export(self):
        """All rows, and as the last columns `__time` and `__key_group`."""
        places, times = self.places(), np.empty(self.n_rows, np.int64)
        cdef int32_t[::1] view = places
        cdef int64_t[::1] times_view = times
        if view.shape[0] > 0:
            with nogil:
                self.core.times(&view[0], view.shape[0], &times_view[0])
        batch = self.gathered(places, self.schema.names)
        keys = [batch.column(i) for i in self.key_indices]
        batch = batch.append_column(TIME, pa.array(times))
        return batch.append_column(KEY_GROUP, pa.array(groups_of(keys)))

    def restore(self, exported not None, key_groups not None):
        """Insert the rows of an export that lie in a range of key groups; returns how many."""
        here = lie_in(exported, key_groups)
        rows = np.flatnonzero(here).astype(np.uint32)
        columns = [take(exported.column(i), rows) for i in range(len(self.schema))]
        times = exported.column(TIME).to_numpy(zero_copy_only=False)[here]
        self.insert(pa.RecordBatch.from_arrays(columns, schema=self.schema), times)
        return len(rows)
