"""Byte strings by key and sub-key, in memory: the state of a task, frozen in microseconds.

One job: the face of `value_store.hpp`. Keys are rows of a `RowCodec`, whose hash tells their key
group. A store that is `linked` has sub-keys and finds all of a key's in their order. For one owner
thread; a `FrozenStore` may be read by another one meanwhile. Columns of keys are worked on without
the GIL, about 0.1 µs a key in large tables.
"""

import numpy as np

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint8_t
from libc.string cimport memcpy
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.kernels.arrow_c cimport ArrowArray, Rows, bytes_array
from fabric._cython.kernels.rows cimport BytesMaker, RowCodec, RowTypes


cdef extern from "value_store.hpp" namespace "fabric" nogil:
    const uint32_t STORE_SHARDS

    cppclass Bytes:
        Bytes() noexcept
        const uint8_t* data
        int64_t n

    cppclass ByteRows:
        const uint8_t* data
        const int64_t* offsets
        int64_t n

    cppclass Entry:
        Bytes key() noexcept
        Bytes sub() noexcept
        Bytes value() noexcept

    cppclass CFrozen "fabric::Frozen":
        uint32_t collect(uint32_t shard, uint32_t first_group, uint32_t end_group, int64_t n_bytes,
                         vector[const Entry*]& out) except +

    cppclass StoreCore:
        StoreCore(const RowTypes& keys, bint linked) except +
        const Entry* find(Bytes key, Bytes sub) except +
        void put(Bytes key, Bytes sub, Bytes value) except +
        bint remove(Bytes key, Bytes sub) except +
        void siblings(Bytes key, vector[const Entry*]& out) except +
        int64_t clear(Bytes key) except +
        void find_many(const ByteRows& keys, const ByteRows& subs,
                       vector[const Entry*]& out) except +
        void put_many(const ByteRows& keys, const ByteRows& subs, const ByteRows& values) except +
        int64_t remove_many(const ByteRows& keys, const ByteRows& subs) except +
        void siblings_many(const ByteRows& keys, int64_t* counts,
                           vector[const Entry*]& out) except +
        int64_t clear_many(const ByteRows& keys) except +
        int64_t sweep(uint32_t shard, int64_t before) except +
        shared_ptr[CFrozen] freeze() except +
        int64_t size() noexcept
        int64_t nbytes() noexcept


cdef inline Bytes bytes_of_object(bytes value) noexcept:
    cdef Bytes found
    found.data, found.n = <const uint8_t*> PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)
    return found


cdef inline ByteRows byte_rows(Rows rows) noexcept:
    """What a kernel takes for held rows."""
    cdef ByteRows found
    found.data, found.offsets, found.n = rows.data, rows.offsets, rows.n
    return found


cdef object bytes_from(Bytes value):
    return PyBytes_FromStringAndSize(<const char*> value.data, value.n)


cdef Rows subs_of(object subs, Rows keys, bint linked):
    """The sub-keys beside keys; any rows at all where there are none."""
    if (subs is not None) != linked:
        raise ValueError("sub-keys are given to a linked store, and to no other")
    if subs is None:
        return keys
    cdef Rows found = Rows(subs)
    if found.n != keys.n:
        raise ValueError(f"{keys.n} keys need as many sub-keys, got {found.n}")
    return found


cdef object gathered(const vector[const Entry*]& entries, int which):
    """Keys (0), sub-keys (1) or values (2) of entries as a large_binary array; null for NULL."""
    cdef ArrowArray out
    cdef int64_t i, n = entries.size()
    cdef BytesMaker* made = new BytesMaker(n)
    cdef Bytes part
    try:
        with nogil:
            for i in range(n):
                if entries[i] == NULL:
                    made.add_null(i)
                else:
                    made.add(i, part_of(entries[i], which).n)
            made.make_room()
            for i in range(n):
                if entries[i] != NULL:
                    part = part_of(entries[i], which)
                    if part.n > 0:
                        memcpy(made.at(i), part.data, part.n)
            made.finish(out)
    finally:
        del made
    return bytes_array(&out)


cdef inline Bytes part_of(const Entry* entry, int which) noexcept nogil:
    cdef Entry* found = <Entry*> entry
    return found.key() if which == 0 else found.sub() if which == 1 else found.value()


@cython.final
cdef class FrozenStore:
    """A store as it was when it was frozen; any thread may read it."""

    cdef shared_ptr[CFrozen] core

    def read(self, uint32_t cursor, uint32_t first_group, uint32_t end_group, int64_t n_bytes):
        """Some entries of these key groups, about `n_bytes` of them at least unless it is the end.

        Parameters
        ----------
        cursor
            0 at first, then what the last call gave.
        Returns
        -------
        cursor, keys, subs, values
            -1 for the cursor when there is no more; three `pyarrow.LargeBinaryArray`.
        """
        cdef vector[const Entry*] entries
        with nogil:
            cursor = self.core.get().collect(cursor, first_group, end_group, n_bytes, entries)
        parts = [gathered(entries, which) for which in range(3)]
        return (-1 if cursor == STORE_SHARDS else cursor, *parts)


cdef class ValueStore:
    """Values by key, or by key and sub-key when `linked`; all of them are bytes.

    Parameters
    ----------
    codec
        Of the keys, which are its rows.
    linked
        Whether values have a sub-key, and a key's are found together.
    Raises
    ------
    TypeError
        If the codec is not one for keys.
    Examples
    --------
    >>> import pyarrow as pa
    >>> from fabric._cython.kernels.rows import RowCodec
    >>> codec = RowCodec(pa.schema([("user", pa.int64())]), canonical=True)
    >>> store, ada = ValueStore(codec), codec.encode_one(1)
    >>> store.put(ada, b"one")
    >>> frozen = store.freeze()
    >>> store.put(ada, b"two")
    >>> store.get(ada), frozen.read(0, 0, 1 << 15, 1 << 20)[3].to_pylist()
    (b'two', [b'one'])
    """

    cdef shared_ptr[StoreCore] core
    cdef readonly RowCodec codec
    cdef bint linked
    cdef string key_room
    cdef string value_room
    cdef uint32_t sweeping

    def __cinit__(self, codec not None, bint linked=False):
        if not codec.canonical:
            raise TypeError("a store needs a codec of keys: RowCodec(schema, canonical=True)")
        self.codec, self.linked = codec, linked
        self.core.reset(new StoreCore(self.codec.types, linked))

    def get(self, bytes key not None, bytes sub not None=b""):
        """The value, or None."""
        cdef const Entry* entry = self.core.get().find(bytes_of_object(key), bytes_of_object(sub))
        return None if entry == NULL else bytes_from(part_of(entry, 2))

    def put(self, bytes key not None, bytes value not None, bytes sub not None=b""):
        """Set it."""
        self.core.get().put(bytes_of_object(key), bytes_of_object(sub), bytes_of_object(value))

    def get_one(self, key, RowCodec values not None):
        """The value of a key, both of them as Python has them; no sub-key."""
        cdef Bytes row
        cdef const Entry* entry
        if not self.codec.quick or not values.quick:
            found = self.get(self.codec.encode_one(key))
            return None if found is None else values.decode_one(found)
        self.key_room.clear()
        self.codec.put_all(key, self.key_room)
        row.data, row.n = <const uint8_t*> self.key_room.data(), self.key_room.size()
        entry = self.core.get().find(row, Bytes())
        if entry == NULL:
            return None
        row = part_of(entry, 2)
        return values.take_all(row.data, row.n)

    def put_one(self, key, value, RowCodec values not None):
        """Set the value of a key, both of them as Python has them; no sub-key."""
        cdef Bytes row, new
        if not self.codec.quick or not values.quick:
            self.put(self.codec.encode_one(key), values.encode_one(value))
            return
        self.key_room.clear()
        self.value_room.clear()
        self.codec.put_all(key, self.key_room)
        values.put_all(value, self.value_room)
        row.data, row.n = <const uint8_t*> self.key_room.data(), self.key_room.size()
        new.data, new.n = <const uint8_t*> self.value_room.data(), self.value_room.size()
        self.core.get().put(row, Bytes(), new)

    def remove(self, bytes key not None, bytes sub not None=b""):
        """Whether it was there."""
        return self.core.get().remove(bytes_of_object(key), bytes_of_object(sub))

    def children(self, bytes key not None):
        """All sub-keys and values of a key, by sub-key; for a linked store."""
        cdef vector[const Entry*] entries
        cdef const Entry* entry
        self.check_linked()
        self.core.get().siblings(bytes_of_object(key), entries)
        found = []
        for entry in entries:
            found.append((bytes_from(part_of(entry, 1)), bytes_from(part_of(entry, 2))))
        return found

    def clear(self, bytes key not None):
        """Remove all of a key; how many there were."""
        self.check_linked()
        return self.core.get().clear(bytes_of_object(key))

    def get_many(self, keys, subs=None):
        """The value of each key, null where there is none."""
        cdef Rows rows = Rows(keys), more = subs_of(subs, rows, self.linked)
        cdef ByteRows found = byte_rows(rows), beside = byte_rows(more)
        cdef vector[const Entry*] entries
        with nogil:
            self.core.get().find_many(found, beside, entries)
        return gathered(entries, 2)

    def put_many(self, keys, values, subs=None):
        """Set the value of each key; of equal keys the last one counts.

        Raises
        ------
        ValueError
            If the lengths differ, or sub-keys are missing or not wanted.
        """
        cdef Rows rows = Rows(keys), more = subs_of(subs, rows, self.linked), new = Rows(values)
        cdef ByteRows found = byte_rows(rows), beside = byte_rows(more), fresh = byte_rows(new)
        if new.n != rows.n:
            raise ValueError(f"{rows.n} keys need as many values, got {new.n}")
        with nogil:
            self.core.get().put_many(found, beside, fresh)

    def remove_many(self, keys, subs=None):
        """Remove keys; how many were there."""
        cdef Rows rows = Rows(keys), more = subs_of(subs, rows, self.linked)
        cdef ByteRows found = byte_rows(rows), beside = byte_rows(more)
        cdef int64_t n_removed
        with nogil:
            n_removed = self.core.get().remove_many(found, beside)
        return n_removed

    def children_many(self, keys):
        """How many each key has (int64, shape (keys,)), and all sub-keys and values in order."""
        cdef Rows rows = Rows(keys)
        cdef ByteRows found = byte_rows(rows)
        cdef vector[const Entry*] entries
        self.check_linked()
        counts = np.empty(rows.n, np.int64)
        cdef int64_t[::1] view = counts
        if rows.n > 0:
            with nogil:
                self.core.get().siblings_many(found, &view[0], entries)
        return counts, gathered(entries, 1), gathered(entries, 2)

    def clear_many(self, keys):
        """Remove all of these keys; how many entries there were."""
        cdef Rows rows = Rows(keys)
        cdef ByteRows found = byte_rows(rows)
        cdef int64_t n_removed
        self.check_linked()
        with nogil:
            n_removed = self.core.get().clear_many(found)
        return n_removed

    def sweep_shards(self, int64_t before, uint32_t n_shards):
        """Remove values whose first 8 bytes, an int64, are not after `before`, in the next shards.

        Returns
        -------
        n_removed, round
            Whether the whole table has been gone through with this call.
        """
        cdef int64_t n_removed = 0
        cdef uint32_t end = min(STORE_SHARDS, self.sweeping + n_shards)
        with nogil:
            while self.sweeping < end:
                n_removed += self.core.get().sweep(self.sweeping, before)
                self.sweeping += 1
        done = end == STORE_SHARDS
        if done:
            self.sweeping = 0
        return n_removed, done

    def freeze(self):
        """A view of the store as it is now; 20 µs, and a copy of what is written meanwhile."""
        cdef FrozenStore frozen = FrozenStore.__new__(FrozenStore)
        frozen.core = self.core.get().freeze()
        return frozen

    def __len__(self):
        return self.core.get().size()

    @property
    def nbytes(self):
        """Memory of the entries and the table, without the allocator's own."""
        return self.core.get().nbytes()

    cdef int check_linked(self) except -1:
        if not self.linked:
            raise ValueError("this store has no sub-keys: ValueStore(codec, linked=True) has")
        return 0
