"""Hash partitioning of record batches: the heart of every exchange.

One job: one batch in; one batch in partition order and the offsets of the partitions out. Partition
p is ``batch.slice(offsets[p], offsets[p + 1] - offsets[p])``, which copies nothing. Which row
belongs where is `kernels/hash`'s (specification); how columns move is `kernels/take`'s. Output
buffers come from a `BufferPool` and go back when the batch is released.
O(rows + bytes + partitions) a batch, GIL released; one object may serve many threads.
"""

import numpy as np
import pyarrow as pa

cimport cython
from cython.operator cimport dereference
from libc.stdint cimport int32_t, int64_t, uint64_t
from libcpp cimport bool
from libcpp.vector cimport vector

from fabric._cython.kernels.arrow_c cimport (
    ArrowArray, ArrowSchema, array_of, export_array, schema_of,
)
from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.kernels.hash cimport checked_partitions
from fabric._cython.kernels.memory cimport Allocator
from fabric._cython.shuffle.pool cimport BufferPool

from fabric._cython.shuffle.pool import default_pool


cdef extern from "partition_batch.hpp" namespace "fabric" nogil:
    cppclass BatchPartitioner:
        BatchPartitioner(const ArrowSchema& schema, const vector[int32_t]& keys,
                         int32_t n_partitions, uint64_t seed, bool numbered) except +
        bool run(ArrowArray& batch, int cpu, Allocator& allocator, int64_t* offsets,
                 ArrowArray& out) except +


cdef vector[int32_t] key_indices(object schema, tuple keys) except *:
    """Positions of the key columns; refuses none, unknown and ambiguous ones."""
    cdef vector[int32_t] indices
    if not keys:
        raise ValueError("hash partitioning needs at least one key column, got none")
    for key in keys:
        found = schema.get_all_field_indices(key)
        if len(found) != 1:
            many = "is there more than once" if found else "is not there"
            raise ValueError(f"key column {key!r} {many}; columns are {schema.names}")
        indices.push_back(found[0])
    return indices


@cython.final
cdef class Partitioner:
    """Hash-partition batches of one schema by `keys`.

    Parameters
    ----------
    schema
        `pyarrow.Schema` of every batch.
    keys
        Names of the key columns, in the order they are hashed.
    n_partitions
        1 <= n <= 2**15.
    pool
        Where output buffers come from; the pool of the process when not given.
    seed
        Of the hash; edges and datasets that must agree about owners use the same.
    numbered
        Nothing is hashed: the one key, an int32, is the number of the partition.
    Raises
    ------
    ValueError
        If there is no key, a key is unknown or not unique, or `n_partitions` out of its range.
    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"k": [1, 2, 1, 3], "v": ["a", "b", "c", "d"]})
    >>> moved, offsets = Partitioner(batch.schema, ["k"], 2).partition(batch)
    >>> moved["v"].to_pylist(), offsets.tolist()
    (['a', 'c', 'd', 'b'], [0, 3, 4])
    """

    cdef BatchPartitioner* core
    cdef readonly BufferPool pool
    cdef readonly object schema
    cdef readonly tuple keys
    cdef readonly int32_t n_partitions
    cdef bool numbered

    def __cinit__(self, schema not None, keys, n_partitions, *, BufferPool pool=None,
                  uint64_t seed=0, bool numbered=False):
        self.schema = schema
        self.keys = tuple(keys)
        self.n_partitions = checked_partitions(n_partitions)
        self.pool = default_pool() if pool is None else pool
        if numbered and [schema.field(key).type for key in self.keys] != [pa.int32()]:
            raise ValueError(f"numbers of partitions are one int32 column, not {self.keys}")
        self.numbered = numbered
        capsule = schema.__arrow_c_schema__()
        self.core = new BatchPartitioner(
            schema_of(capsule)[0], key_indices(schema, self.keys), self.n_partitions, seed,
            numbered)

    def __dealloc__(self):
        del self.core

    def partition(self, batch not None):
        """Reorder one batch by partition; rows of one partition keep their order.

        Parameters
        ----------
        batch
            A `pyarrow.RecordBatch` of the partitioner's schema. From outside the process it must
            have passed ``validate(full=True)``.
        Returns
        -------
        batch, offsets
            The reordered batch (the input itself when all its rows fall to one partition), and
            int64 of shape (n_partitions + 1,).
        Raises
        ------
        ValueError
            If the batch has another schema, or holds 2**32 rows or more; if rows are numbered,
            when a number is null or out of range.
        OverflowError
            If lists of the batch hold 2**32 elements or more.
        """
        if batch.schema is not self.schema and not batch.schema.equals(self.schema):
            raise ValueError(
                f"a batch of another schema: wanted {self.schema.names} as {self.schema.types}, "
                f"got {batch.schema.names} as {batch.schema.types}")
        if self.numbered and batch.column(self.keys[0]).null_count:
            raise ValueError("a row has no number of a partition")
        schema_capsule, array_capsule = batch.__arrow_c_array__()
        cdef ArrowArray* source = array_of(array_capsule)
        if source.length >> 32:
            raise ValueError(f"a batch may hold 2**32 - 1 rows at most, got {source.length}")
        offsets = np.empty(self.n_partitions + 1, dtype=np.int64)
        cdef int64_t[::1] view = offsets
        cdef ArrowArray out
        cdef bool moved
        with nogil:
            moved = self.core.run(
                source[0], current_cpu(), dereference(self.pool.allocator), &view[0], out)
        if not moved:
            return batch, offsets
        return pa.record_batch(export_array(schema_capsule, &out)), offsets

    def partition_table(self, table not None):
        """Reorder a `pyarrow.Table` chunk by chunk; returns a list of (batch, offsets)."""
        return [self.partition(batch) for batch in table.to_batches()]
