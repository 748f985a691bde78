"""The byte budget of an agent: how much its edges may hold together, in decoded bytes.

One job: thin faces over `budget.hpp`. The store counts what it holds, whatever the budget says;
pipelined edges wait for room. Waiting releases the GIL, does not spin, and ends when the share is
closed.
"""

cimport cython
from libc.stdint cimport int64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport make_shared, make_unique


cdef extern from "store/budget.hpp":
    pass


@cython.final
cdef class Budget:
    """Bytes that all edges of an agent may hold.

    Parameters
    ----------
    bytes_max
        A positive number of bytes.
    Raises
    ------
    ValueError
        If `bytes_max` is not positive.
    Examples
    --------
    >>> budget = Budget(100)
    >>> share, other = Share(budget), Share(budget)
    >>> share.take(90), other.try_reserve(50), other.try_reserve(1)
    (None, True, False)
    >>> share.close(), budget.used_bytes
    (90, 50)
    """

    def __cinit__(self, int64_t bytes_max):
        if bytes_max <= 0:
            raise ValueError(f"bytes_max must be positive, got {bytes_max}")
        self.core = make_shared[CBudget](bytes_max)

    @property
    def bytes_max(self):
        """The whole budget."""
        return self.core.get().bytes_max()

    @property
    def used_bytes(self):
        """Bytes that are held now; more than `bytes_max` when some came that could not wait."""
        return self.core.get().used_bytes()

    @property
    def n_waiting(self):
        """How many wait for room."""
        return self.core.get().n_waiting()


@cython.final
cdef class Share:
    """What one holder has of a budget; goes back when it is closed or forgotten."""

    def __cinit__(self, Budget budget not None):
        self.core = make_unique[CShare](budget.core)

    @property
    def held_bytes(self):
        """Bytes held now."""
        return self.core.get().held_bytes()

    def reserve(self, int64_t n_bytes):
        """Wait for room, in turn; at once when nothing is held. False when closed meanwhile."""
        cdef CShare* share = self.core.get()
        cdef cbool granted
        with nogil:
            granted = share.reserve(n_bytes)
        return <bint> granted

    def try_reserve(self, int64_t n_bytes):
        """Take room if there is some and nobody waits for it, or if nothing is held."""
        return <bint> self.core.get().try_reserve(n_bytes)

    def take(self, int64_t n_bytes):
        """Count bytes that are there already."""
        self.core.get().take(n_bytes)

    def give_back(self, int64_t n_bytes):
        """Count bytes that are gone."""
        self.core.get().give_back(n_bytes)

    def close(self):
        """Give all back and wake who waits on this share; returns what it held."""
        return self.core.get().close()
