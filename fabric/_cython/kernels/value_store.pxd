from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.kernels.rows cimport RowCodec, Rows, RowTypes


cdef extern from "value_store.hpp" namespace "fabric" nogil:
    const uint32_t STORE_SHARDS

    cppclass Bytes:
        Bytes() noexcept
        const uint8_t* data
        int64_t n

    cppclass Entry:
        Bytes key() noexcept
        Bytes sub() noexcept
        Bytes value() noexcept

    cppclass FreezeState:
        pass

    cppclass Shards:
        pass

    cppclass CFrozen "fabric::Frozen":
        CFrozen(shared_ptr[StoreCore] core, shared_ptr[FreezeState] state,
                const Shards& shards) except +
        uint32_t collect(uint32_t shard, uint32_t first_group, uint32_t end_group, int64_t n_bytes,
                         vector[const Entry*]& out) except +

    cppclass StoreCore:
        StoreCore(const RowTypes& keys, bint linked) except +
        uint64_t hash(Bytes key) except +
        Entry* find(uint64_t key_hash, Bytes key, Bytes sub) except +
        void put(uint64_t key_hash, Bytes key, Bytes sub, Bytes value) except +
        bint remove(uint64_t key_hash, Bytes key, Bytes sub) except +
        void siblings(uint64_t key_hash, Bytes key, vector[const Entry*]& out) except +
        int64_t clear(uint64_t key_hash, Bytes key) except +
        int64_t sweep(uint32_t shard, int64_t before) except +
        shared_ptr[FreezeState] freeze() except +
        const Shards& table() noexcept
        void prefetch(uint64_t key_hash) noexcept
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
    cdef int hash_all(self, Rows rows, vector[uint64_t]& hashes) except -1 nogil
