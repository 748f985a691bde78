"""A pool of recycled output buffers.

One job: keep buffers that kernels filled and consumers released, and hand them out again. A batch
made from a pool gives its buffers back when its last array is released, from any thread. Whoever
stops needing it calls `trim`; what is kept never exceeds `kept_bytes_max`.
"""

cimport cython


@cython.final
cdef class BufferPool:
    """Recycled buffers under a byte budget.

    Parameters
    ----------
    kept_bytes_max
        Most bytes kept for reuse; buffers in use do not count.
    Raises
    ------
    ValueError
        If `kept_bytes_max` is negative.
    Examples
    --------
    >>> pool = BufferPool(1 << 20)
    >>> pool.kept_bytes, pool.used_bytes
    (0, 0)
    """

    def __cinit__(self, int64_t kept_bytes_max=256 << 20):
        if kept_bytes_max < 0:
            raise ValueError(f"kept_bytes_max must not be negative, got {kept_bytes_max}")
        self.kept_bytes_max = kept_bytes_max
        self.pool = new Pool(kept_bytes_max)
        self.allocator = self.pool

    def __dealloc__(self):
        if self.pool != NULL:
            self.pool.drop()

    @property
    def kept_bytes(self):
        """Bytes waiting to be used again."""
        return self.pool.statistics().kept_bytes

    @property
    def used_bytes(self):
        """Bytes in arrays that are not released yet."""
        return self.pool.statistics().used_bytes

    @property
    def n_reused(self):
        """Buffers handed out that were used before."""
        return self.pool.statistics().n_reused

    @property
    def n_allocated(self):
        """Buffers that had to come from the system."""
        return self.pool.statistics().n_allocated

    def trim(self):
        """Give everything kept back to the system."""
        with nogil:
            self.pool.trim()


cdef BufferPool shared = BufferPool()


def default_pool():
    """The pool of this process, used where none is given."""
    return shared
