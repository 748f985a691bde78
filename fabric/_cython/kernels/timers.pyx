"""Timers by (time, key): set once however often asked for, handed out in order when due.

One job: the queue of one domain (event or processing time); which key an id stands for is the
caller's. Adding is O(log timers), being due too, removing O(1). 33 to 50 bytes a timer.
"""

import numpy as np

cimport cython
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector


cdef extern from "timers.hpp" namespace "fabric" nogil:
    cdef cppclass Timer:
        int64_t time
        int64_t key

    cdef cppclass CTimerQueue "fabric::TimerQueue":
        int64_t add(const int64_t* times, const int64_t* keys, int64_t n) except +
        int64_t remove(const int64_t* times, const int64_t* keys, int64_t n) except +
        void due(int64_t time, vector[int64_t]& times, vector[int64_t]& keys) except +
        vector[Timer] sorted() except +
        int64_t size()
        int64_t n_bytes()


cdef object from_vector(vector[int64_t]& values):
    made = np.empty(values.size(), np.int64)
    cdef int64_t[::1] view = made
    if values.size():
        memcpy(&view[0], values.data(), values.size() * sizeof(int64_t))
    return made


cdef int64_t same_length(const int64_t[::1] times, const int64_t[::1] keys) except -1:
    if times.shape[0] != keys.shape[0]:
        raise ValueError(f"{times.shape[0]} times need as many keys, got {keys.shape[0]}")
    return times.shape[0]


@cython.final
cdef class TimerQueue:
    """Pairs of a time and a key (both int64), each at most once.

    Examples
    --------
    >>> import numpy as np
    >>> queue = TimerQueue()
    >>> queue.add(np.array([30, 10, 30]), np.array([1, 2, 1])), len(queue)
    (2, 2)
    >>> [a.tolist() for a in queue.due(20)], len(queue)
    ([[10], [2]], 1)
    """

    cdef CTimerQueue queue

    def __len__(self):
        return self.queue.size()

    @property
    def nbytes(self):
        """Memory held."""
        return self.queue.n_bytes()

    def add(self, const int64_t[::1] times not None, const int64_t[::1] keys not None):
        """Set timers; returns how many were not set before.

        Parameters
        ----------
        times, keys
            int64, shapes (n,).
        Raises
        ------
        ValueError
            If the lengths differ.
        """
        cdef int64_t n = same_length(times, keys), n_new = 0
        if n > 0:
            with nogil:
                n_new = self.queue.add(&times[0], &keys[0], n)
        return n_new

    def remove(self, const int64_t[::1] times not None, const int64_t[::1] keys not None):
        """Unset timers; returns how many were set.

        Parameters
        ----------
        times, keys
            int64, shapes (n,).
        Raises
        ------
        ValueError
            If the lengths differ.
        """
        cdef int64_t n = same_length(times, keys), n_gone = 0
        if n > 0:
            with nogil:
                n_gone = self.queue.remove(&times[0], &keys[0], n)
        return n_gone

    def due(self, int64_t time):
        """The timers of at most `time`, by time and then by key; they are set no longer.

        Returns
        -------
        times, keys
            int64, shapes (n,).
        """
        cdef vector[int64_t] times, keys
        with nogil:
            self.queue.due(time, times, keys)
        return from_vector(times), from_vector(keys)

    def export(self):
        """All timers by time and then by key; `add` takes them back.

        Returns
        -------
        times, keys
            int64, shapes (n,).
        """
        cdef vector[Timer] timers
        cdef int64_t i
        with nogil:
            timers = self.queue.sorted()
        times, keys = np.empty(timers.size(), np.int64), np.empty(timers.size(), np.int64)
        cdef int64_t[::1] times_view = times
        cdef int64_t[::1] keys_view = keys
        for i in range(<int64_t>timers.size()):
            times_view[i], keys_view[i] = timers[i].time, timers[i].key
        return times, keys
