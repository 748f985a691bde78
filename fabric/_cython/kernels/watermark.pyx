"""Watermarks: how far event time had come before each row, and the least of many channels.

One job: the two loops under event time. `row_watermarks` goes over the rows of one split, in order,
and knows nothing of batches: two calls with what is carried between them give what one call gives.
`MinTracker` keeps the minimum over channels in a tree of minima: an update is O(log channels), the
minimum one read.
"""

import numpy as np

cimport cython
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t
from libcpp.vector cimport vector


cdef enum:
    GOOD = 0
    MISSING = 1
    FUTURE = 2

cdef int64_t BEGINNING = INT64_MIN
cdef int64_t IDLE = INT64_MIN + 1
cdef int64_t END_OF_TIME = INT64_MAX

cdef enum:
    ACTIVE = 0
    RESTING = 1
    ENDED = 2


cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    """The sum, or the nearest time of a row."""
    if b > 0 and a > END_OF_TIME - 1 - b:
        return END_OF_TIME - 1
    if b < 0 and a < IDLE + 1 - b:
        return IDLE + 1
    return a + b


cdef int64_t mark_rows(const int64_t* times, const uint8_t* valid, int64_t n_rows,
                       int64_t greatest, int64_t bound, int64_t future, int64_t ceiling,
                       int64_t* watermarks, uint8_t* kinds, int64_t* n_bad) noexcept nogil:
    """Fill `watermarks` and `kinds`; returns the greatest time after the last row."""
    cdef int64_t i, time, bad = 0
    cdef int64_t brought = BEGINNING if greatest == BEGINNING else plus(greatest, -bound)
    for i in range(n_rows):
        watermarks[i] = brought
        time = times[i]
        if (valid != NULL and not valid[i]) or time <= IDLE or time == END_OF_TIME:
            kinds[i] = MISSING
            bad += 1
            continue
        kinds[i] = GOOD
        if greatest == BEGINNING:
            if time > ceiling:
                kinds[i] = FUTURE
                bad += 1
                continue
        elif time <= greatest:
            continue
        elif future >= 0 and time > plus(greatest, future):
            kinds[i] = FUTURE
            bad += 1
            time = plus(greatest, future)
        greatest = time
        brought = plus(greatest, -bound)
    n_bad[0] = bad
    return greatest


def row_watermarks(const int64_t[::1] times not None, const uint8_t[::1] valid,
                   int64_t greatest, int64_t bound_us, int64_t future_us, int64_t ceiling_us):
    """Each row's own watermark: the greatest time of the rows before it, less the bound.

    Parameters
    ----------
    times
        int64, shape (rows,): microseconds, the rows of one split in order.
    valid
        uint8, shape (rows,), 0 where the row has no time; None when all have.
    greatest
        What the call before returned; BEGINNING (-2**63) before the first row.
    bound_us
        How far rows may be behind, not negative.
    future_us
        How far ahead of the greatest time a row may be, and the most that one row may push it;
        negative: any.
    ceiling_us
        The greatest time that a first row may have, which has no earlier one to be compared with.
    Returns
    -------
    watermarks, kinds, greatest, n_bad
        int64 (rows,), BEGINNING where no row was before; uint8 (rows,): 0 a good row, 1 one without
        usable time, 2 one too far ahead; what the next call gets; how many kinds are not 0.
    Raises
    ------
    ValueError
        If `valid` has another length, or `bound_us` is negative.
    Examples
    --------
    >>> import numpy as np
    >>> first = row_watermarks(np.array([100, 90, 120]), None, -2**63, 5, -1, 2**63 - 1)
    >>> first[0].tolist(), first[2]
    ([-9223372036854775808, 95, 95], 120)
    """
    cdef int64_t n_rows = times.shape[0], n_bad = 0
    if valid is not None and valid.shape[0] != n_rows:
        raise ValueError(f"{n_rows} times need as many valid, got {valid.shape[0]}")
    if bound_us < 0:
        raise ValueError(f"bound_us must not be negative, got {bound_us}")
    watermarks, kinds = np.empty(n_rows, np.int64), np.empty(n_rows, np.uint8)
    cdef int64_t[::1] watermarks_view = watermarks
    cdef uint8_t[::1] kinds_view = kinds
    cdef const uint8_t* mask = NULL
    if n_rows > 0:
        if valid is not None:
            mask = &valid[0]
        with nogil:
            greatest = mark_rows(&times[0], mask, n_rows, greatest, bound_us, future_us,
                                 ceiling_us, &watermarks_view[0], &kinds_view[0], &n_bad)
    return watermarks, kinds, greatest, n_bad


@cython.final
cdef class MinTracker:
    """The least watermark of many channels, those that are idle or have ended left out.

    A channel's watermark never goes back: a smaller one is ignored. One that was idle comes back
    where it was, or later. The minimum itself may go back when a channel joins or comes back; who
    must not, keeps the greatest it has seen.

    Parameters
    ----------
    n_channels
        How many there are at first; each begins at BEGINNING.
    Raises
    ------
    ValueError
        If `n_channels` is negative.
    Examples
    --------
    >>> tracker = MinTracker(2)
    >>> tracker.update(0, 50), tracker.update(1, 40), tracker.minimum()
    (False, True, 40)
    >>> idle = -2**63 + 1
    >>> tracker.update(1, idle), tracker.minimum()
    (True, 50)
    """

    cdef vector[int64_t] tree
    cdef vector[int64_t] known
    cdef vector[uint8_t] state
    cdef int64_t capacity
    cdef int64_t n_idle
    cdef int64_t n_ended

    def __init__(self, int64_t n_channels=0):
        if n_channels < 0:
            raise ValueError(f"n_channels must not be negative, got {n_channels}")
        self.capacity = 1
        while self.capacity < n_channels:
            self.capacity *= 2
        self.tree.assign(2 * self.capacity, END_OF_TIME)
        self.known.clear()
        self.state.clear()
        self.n_idle = self.n_ended = 0
        for _ in range(n_channels):
            self.add()

    cdef void put(self, int64_t channel, int64_t value) noexcept nogil:
        """Write a leaf and the minima above it, as far up as they change."""
        cdef int64_t at = self.capacity + channel, least
        self.tree[at] = value
        at >>= 1
        while at >= 1:
            least = min(self.tree[2 * at], self.tree[2 * at + 1])
            if self.tree[at] == least:
                break
            self.tree[at] = least
            at >>= 1

    cdef int64_t least(self) noexcept nogil:
        cdef int64_t n = <int64_t>self.known.size()
        if self.n_idle + self.n_ended < n:
            return self.tree[1]
        return END_OF_TIME if n > 0 and self.n_ended == n else IDLE

    cdef int set_channel(self, int64_t channel, int64_t time) except -1 nogil:
        cdef uint8_t state = self.state[channel]
        cdef int64_t before = self.least()
        if state == ENDED:
            return 0
        if time == END_OF_TIME:
            self.n_idle -= state == RESTING
            self.n_ended += 1
            self.state[channel] = ENDED
            self.known[channel] = time
            self.put(channel, END_OF_TIME)
        elif time == IDLE:
            self.n_idle += state != RESTING
            self.state[channel] = RESTING
            self.put(channel, END_OF_TIME)
        else:
            self.n_idle -= state == RESTING
            self.state[channel] = ACTIVE
            self.known[channel] = max(self.known[channel], time)
            self.put(channel, self.known[channel])
        return before != self.least()

    @property
    def n_channels(self):
        """How many channels there are, the idle and ended ones too."""
        return <int64_t>self.known.size()

    def add(self):
        """One more channel, at BEGINNING; returns its number."""
        cdef int64_t channel = <int64_t>self.known.size(), i
        if channel == self.capacity:
            self.tree.assign(4 * self.capacity, END_OF_TIME)
            self.capacity *= 2
            for i in range(channel):
                if self.state[i] == ACTIVE:
                    self.put(i, self.known[i])
        self.known.push_back(BEGINNING)
        self.state.push_back(ACTIVE)
        self.put(channel, BEGINNING)
        return channel

    def update(self, int64_t channel, int64_t time_us):
        """Tell a channel's watermark (or IDLE, or END_OF_TIME); whether the minimum changed.

        Raises
        ------
        IndexError
            If there is no such channel.
        """
        if not 0 <= channel < <int64_t>self.known.size():
            raise IndexError(f"there is no channel {channel} of {self.known.size()}")
        return self.set_channel(channel, time_us) == 1

    def minimum(self):
        """The least time of the channels that are neither idle nor ended.

        END_OF_TIME when all have ended; else IDLE when none is left, also when there are none.
        """
        return self.least()

    def times(self):
        """What each channel said last: int64, shape (channels,); IDLE for an idle one."""
        cdef int64_t i
        times = np.empty(self.known.size(), np.int64)
        cdef int64_t[::1] view = times
        for i in range(<int64_t>self.known.size()):
            view[i] = IDLE if self.state[i] == RESTING else self.known[i]
        return times
