"""Dense group ids for keys, batch after batch: what keyed state hangs on.

One job: number the different keys from 0 on and remember them. What is kept for a group lies by id
(`accumulators.pyx`, or whatever array). Keys of numbers, times, decimals, strings, binary, booleans
and dictionaries are compared in full; null is a value, -0.0 is 0.0 and there is one NaN. A single
key of at most 64 bits takes a fast path (one cache line a row, fetched ahead). The table grows a
segment at a time, so no batch waits for a rehash; O(rows), GIL released throughout. For one thread.
"""

import numpy as np
import pyarrow as pa

cimport cython
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool
from libcpp.vector cimport vector

from fabric._cython.kernels.arrow_c cimport (
    ArrowArray, array_of, export_array, parse_type, schema_of,
)
from fabric._cython.kernels.cpu cimport current_cpu

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.kernels.take import take

KEY_GROUP = "__key_group"


cdef list c_arrays(list columns, vector[Type]& types, vector[ArrowArray*]& arrays):
    """Columns as the kernel takes them; what is returned keeps them alive."""
    capsules = [column.__arrow_c_array__() for column in columns]
    for schema_capsule, array_capsule in capsules:
        types.push_back(parse_type(schema_of(schema_capsule)[0]))
        arrays.push_back(array_of(array_capsule))
    return capsules


cdef object groups_of(list keys):
    """The key group of each row, the top 15 bits of its keys' hash: uint16."""
    return (hash_columns(keys) >> np.uint64(49)).astype(np.uint16)


cdef object lie_in(object batch, object key_groups):
    """Whether each row of an export lies in a range of key groups."""
    groups = batch.column(KEY_GROUP).to_numpy(zero_copy_only=False)
    return (groups >= key_groups.start) & (groups < key_groups.stop)


def _plain(kind):
    """The type a key is known by: the same for all layouts of the same values; None for no key."""
    if isinstance(kind, pa.DictionaryType):
        return _plain(kind.value_type)
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if pa.types.is_nested(storage) or pa.types.is_run_end_encoded(storage):
        return None
    return kind


def _stored(kind):
    """What keys are put out as before they get their declared type: no views, no dictionaries."""
    if isinstance(kind, pa.DictionaryType):
        return _stored(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


@cython.final
cdef class KeyTypes:
    """Which types keys (or `what` else is kept) have, and what arrays may stand for them.

    Parameters
    ----------
    schema
        `pyarrow.Schema`, a field a key.
    what
        Errors call the fields so.
    Raises
    ------
    ValueError
        If there is no key, or a key is nested.
    """

    def __cinit__(self, schema not None, what="key"):
        self.schema, self.what = schema, what
        self.plain = tuple(_plain(field.type) for field in schema)
        if not self.plain:
            raise ValueError(f"a table needs at least one {what}, got none")
        for field, plain in zip(schema, self.plain):
            if plain is None:
                raise ValueError(
                    f"{what} {field.name!r} is {field.type}, but must be a number, time, decimal, "
                    f"string, binary or boolean: let its parts be {what}s of their own")
        self.stored = pa.schema(
            [field.with_type(_stored(field.type)) for field in schema])

    cdef vector[Type] types(self) except *:
        """The keys as the kernel lays them out."""
        cdef vector[Type] found
        for field in self.stored:
            capsule = field.__arrow_c_schema__()
            found.push_back(parse_type(schema_of(capsule)[0]))
        return found

    cdef list arrays_of(self, object keys):
        """The key columns, checked: of one length, each of its key's type in any layout."""
        columns = keys.columns if isinstance(keys, pa.RecordBatch) else list(keys)
        if len(columns) != len(self.plain):
            raise ValueError(
                f"there are {len(self.plain)} {self.what}s ({', '.join(self.schema.names)}), "
                f"got {len(columns)} columns")
        for field, plain, column in zip(self.schema, self.plain, columns):
            if column.type != field.type and _plain(column.type) != plain:
                raise ValueError(
                    f"{self.what} {field.name!r} is {field.type}, got {column.type}")
            if len(column) != len(columns[0]):
                raise ValueError(
                    f"{self.what}s are of one length, got "
                    f"{sorted({len(each) for each in columns})} rows")
        return columns

    cdef object as_declared(self, object batch):
        """A batch of stored types as one of the declared types."""
        if self.stored == self.schema:
            return batch
        columns = []
        for column, field in zip(batch.columns, self.schema):
            if isinstance(field.type, pa.DictionaryType):
                column = column.cast(field.type.value_type).dictionary_encode()
            columns.append(column.cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@cython.final
cdef class GroupTable:
    """Groups of equal keys, numbered from 0 on in the order in which they are first seen.

    Parameters
    ----------
    key_types
        `pyarrow.Schema` of the keys, one or more, not nested.
    Raises
    ------
    ValueError
        If there is no key, or a key is nested.
    Notes
    -----
    Arrays of a key may have any layout of its type: a string key takes dictionaries, views and
    large strings. Ids are int32; ids of removed groups are given again only after `compact`.
    Extendible hashing: Fagin, Nievergelt, Pippenger, Strong, ACM TODS 4(3), 1979.
    Examples
    --------
    >>> import pyarrow as pa
    >>> table = GroupTable(pa.schema([("k", pa.string())]))
    >>> table.upsert([pa.array(["b", "a", "b", None])]).tolist()
    [0, 1, 0, 2]
    >>> table.find([pa.array(["a", "c"])]).tolist()
    [1, -1]
    >>> table.keys()["k"].to_pylist()
    ['b', 'a', None]
    """

    def __cinit__(self, key_types not None):
        self.types = KeyTypes(key_types)
        self.core = make_group_table(self.types.types()).release()

    def __dealloc__(self):
        with nogil:
            del self.core

    @property
    def schema(self):
        """The keys' fields."""
        return self.types.schema

    @property
    def n_groups(self):
        """How many groups there are."""
        return self.core.n_groups()

    @property
    def n_ids(self):
        """Ids are less than this: how long an array by id has to be."""
        return self.core.n_ids()

    @property
    def nbytes(self):
        """Bytes of memory held."""
        return self.core.n_bytes()

    def upsert(self, keys not None):
        """The group of each row; a key that is new makes a group.

        Parameters
        ----------
        keys
            A `pyarrow.RecordBatch` of the keys, or one array a key. From outside the process they
            must have passed ``validate(full=True)``.
        Returns
        -------
        ids
            int32, shape (rows,).
        Raises
        ------
        ValueError
            If columns are of other types, too few or many, or of several lengths.
        OverflowError
            If there would be more than 2**31 - 1 groups.
        """
        return self.number(keys, True)

    def find(self, keys not None):
        """The group of each row, -1 where the key is unknown; arguments as for `upsert`."""
        return self.number(keys, False)

    cdef object number(self, object keys, bool insert):
        columns = self.types.arrays_of(keys)
        cdef int64_t n_rows = len(columns[0])
        ids = np.empty(n_rows, dtype=np.int32)
        if n_rows == 0:
            return ids
        cdef int32_t[::1] view = ids
        cdef vector[Type] types
        cdef vector[ArrowArray*] arrays
        _kept = c_arrays(columns, types, arrays)
        cdef int cpu = current_cpu()
        with nogil:
            if insert:
                self.core.upsert(types, arrays, cpu, &view[0])
            else:
                self.core.find(types, arrays, cpu, &view[0])
        return ids

    def ids(self):
        """Ids of all groups, rising: int32, shape (n_groups,)."""
        found = np.empty(self.core.n_groups(), dtype=np.int32)
        cdef int32_t[::1] view = found
        if view.shape[0] > 0:
            with nogil:
                self.core.list(&view[0])
        return found

    cdef object checked(self, object ids):
        """Ids of groups that exist: those given, or all."""
        if ids is None:
            return self.ids()
        cdef const int32_t[::1] view = ids
        cdef int64_t n = view.shape[0]
        cdef int64_t stranger = self.core.first_stranger(&view[0], n) if n > 0 else n
        if stranger < n:
            raise IndexError(f"there is no group {view[stranger]}")
        return ids

    def keys(self, ids=None):
        """The keys of groups, a `pyarrow.RecordBatch` of the table's schema.

        Parameters
        ----------
        ids
            int32; all groups, by rising id, when not given.
        Raises
        ------
        IndexError
            If there is no such group.
        OverflowError
            If strings of a key with 32-bit offsets come to 2 GiB.
        """
        cdef const int32_t[::1] view = self.checked(ids)
        cdef int64_t n = view.shape[0]
        cdef const int32_t* first = &view[0] if n > 0 else NULL
        cdef ArrowArray out
        capsule = self.types.stored.__arrow_c_schema__()
        with nogil:
            self.core.keys(first, n, out)
        return self.types.as_declared(pa.record_batch(export_array(capsule, &out)))

    def key_groups(self, ids=None):
        """The key group of each group (the top 15 bits of its keys' hash): uint16; as `keys`."""
        return groups_of(self.keys(ids).columns)

    def remove(self, const int32_t[::1] ids not None):
        """Forget groups. Their ids are given to nobody before `compact`.

        Raises
        ------
        IndexError
            If there is no such group, or it is named twice; then none is removed.
        """
        cdef int64_t n = ids.shape[0]
        if n > 0:
            with nogil:
                self.core.remove(&ids[0], n)

    def compact(self):
        """Let new groups have the ids of removed ones, those removed first before the others."""
        with nogil:
            self.core.compact()

    def export(self, ids=None):
        """The keys and, as the last column `__key_group`, their key groups; as `keys`."""
        keys = self.keys(ids)
        return keys.append_column(KEY_GROUP, pa.array(groups_of(keys.columns)))

    def restore(self, exported not None, key_groups not None):
        """Take groups of an export that lie in a range of key groups, those known included.

        Parameters
        ----------
        exported
            What `export` gave; more columns before the last are ignored.
        key_groups
            A `range` of key groups with step 1.
        Returns
        -------
        ids
            int32, shape (rows,): the group of each row, -1 for one that lies elsewhere.
        """
        here = lie_in(exported, key_groups)
        keys = [exported.column(i) for i in range(len(self.types.schema))]
        ids = np.full(len(here), -1, dtype=np.int32)
        if here.all():
            return self.upsert(keys) if len(here) > 0 else ids
        rows = np.flatnonzero(here).astype(np.uint32)
        ids[here] = self.upsert([take(column, rows) for column in keys])
        return ids
