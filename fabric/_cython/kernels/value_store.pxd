from libc.stdint cimport int64_t, uint8_t, uint32_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.kernels.rows cimport RowCodec, RowTypes


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


cdef class FrozenStore:
    cdef shared_ptr[CFrozen] core


cdef class ValueStore:
    cdef shared_ptr[StoreCore] core
    cdef readonly RowCodec codec
    cdef bint linked
    cdef string key_room
    cdef string value_room
    cdef uint32_t sweeping
    cdef int check_linked(self) except -1
