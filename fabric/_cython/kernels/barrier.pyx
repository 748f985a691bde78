"""Barriers: through which channels each checkpoint's has come.

One job: count arrivals, each channel once a checkpoint. What an arrival means (hold, pass on,
snapshot) is decided in `fabric.checkpoint`. One byte a channel and checkpoint in flight; to
register is O(1) and allocates nothing.
"""

import numpy as np

cimport cython
from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

cdef int64_t IGNORED = -1


@cython.final
cdef class BarrierTracker:
    """Arrivals of the barriers of checkpoints in flight, over a fixed number of channels.

    A channel that has ended counts as arrived for every checkpoint. When a checkpoint is complete,
    older ones in flight never can be of use again: they go with it.

    Parameters
    ----------
    n_channels
        How many channels a barrier must come through.
    Raises
    ------
    ValueError
        If `n_channels` is negative.
    Examples
    --------
    >>> tracker = BarrierTracker(2)
    >>> tracker.create(1), tracker.register(1, 0), tracker.register(1, 0), tracker.coordinate()
    (2, 1, 1, 0)
    >>> tracker.register(1, 1), tracker.coordinate(), tracker.register(1, 1)
    (0, 1, -1)
    """

    cdef vector[int64_t] checkpoints
    cdef vector[int64_t] n_missing
    cdef vector[vector[uint8_t]] seen
    cdef vector[uint8_t] ended
    cdef int64_t n_ended
    cdef int64_t last

    def __init__(self, int64_t n_channels):
        if n_channels < 0:
            raise ValueError(f"n_channels must not be negative, got {n_channels}")
        self.ended.assign(n_channels, 0)
        self.checkpoints.clear()
        self.n_missing.clear()
        self.seen.clear()
        self.n_ended = self.last = 0

    cdef int64_t place(self, int64_t checkpoint) noexcept nogil:
        """Where a checkpoint in flight stands, or -1; few are at once, oldest first."""
        cdef int64_t i
        for i in range(<int64_t>self.checkpoints.size()):
            if self.checkpoints[i] == checkpoint:
                return i
        return -1

    cdef void forget(self, int64_t upto) noexcept nogil:
        """Drop the first `upto` checkpoints in flight."""
        self.checkpoints.erase(self.checkpoints.begin(), self.checkpoints.begin() + upto)
        self.n_missing.erase(self.n_missing.begin(), self.n_missing.begin() + upto)
        self.seen.erase(self.seen.begin(), self.seen.begin() + upto)

    cdef int64_t arrived(self, int64_t place, int64_t channel) noexcept nogil:
        """Count a channel in, once; returns how many are missing."""
        if not self.seen[place][channel]:
            self.seen[place][channel] = 1
            self.n_missing[place] -= 1
        return self.n_missing[place]

    @property
    def n_channels(self):
        """How many channels there are, the ended ones too."""
        return <int64_t>self.ended.size()

    @property
    def newest(self):
        """The newest checkpoint that was created; 0 before the first."""
        return self.last

    def in_flight(self):
        """The checkpoints that are neither complete nor aborted, oldest first."""
        return list(self.checkpoints)

    def create(self, int64_t checkpoint):
        """Begin to count for a checkpoint newer than all before; how many channels are missing.

        Raises
        ------
        ValueError
            If a newer one, or this one, was created before.
        """
        if checkpoint <= self.last:
            raise ValueError(f"checkpoint {checkpoint} is not newer than {self.last}")
        self.last = checkpoint
        self.checkpoints.push_back(checkpoint)
        self.seen.push_back(self.ended)
        self.n_missing.push_back(<int64_t>self.ended.size() - self.n_ended)
        return self.n_missing.back()

    def register(self, int64_t checkpoint, int64_t channel):
        """A barrier has come through a channel; returns how many channels are still missing.

        -1 when the checkpoint is not in flight: complete, aborted, or never created. The same
        barrier twice counts once.

        Raises
        ------
        IndexError
            If there is no such channel.
        """
        if not 0 <= channel < <int64_t>self.ended.size():
            raise IndexError(f"there is no channel {channel} of {self.ended.size()}")
        cdef int64_t place = self.place(checkpoint)
        return IGNORED if place < 0 else self.arrived(place, channel)

    def end(self, int64_t channel):
        """A channel has ended: it counts as arrived for all checkpoints, now and later.

        Raises
        ------
        IndexError
            If there is no such channel.
        """
        if not 0 <= channel < <int64_t>self.ended.size():
            raise IndexError(f"there is no channel {channel} of {self.ended.size()}")
        cdef int64_t place
        if not self.ended[channel]:
            self.ended[channel] = 1
            self.n_ended += 1
            for place in range(<int64_t>self.checkpoints.size()):
                self.arrived(place, channel)

    def missing(self, int64_t checkpoint):
        """The channels that a checkpoint in flight still waits for; none for any other.

        Returns
        -------
        channels
            int64, rising.
        """
        cdef int64_t place = self.place(checkpoint)
        if place < 0:
            return np.empty(0, np.int64)
        return np.flatnonzero(np.array(self.seen[place], np.uint8) == 0)

    def coordinate(self):
        """The newest checkpoint that has come through all channels, once; 0 when there is none.

        It and all older ones are no longer in flight.
        """
        cdef int64_t place = <int64_t>self.checkpoints.size() - 1, checkpoint
        while place >= 0:
            if self.n_missing[place] == 0:
                checkpoint = self.checkpoints[place]
                self.forget(place + 1)
                return checkpoint
            place -= 1
        return 0

    def abort(self, int64_t checkpoint):
        """Count no longer for a checkpoint; whether it was in flight."""
        cdef int64_t place = self.place(checkpoint)
        if place < 0:
            return False
        self.checkpoints.erase(self.checkpoints.begin() + place)
        self.n_missing.erase(self.n_missing.begin() + place)
        self.seen.erase(self.seen.begin() + place)
        return True
