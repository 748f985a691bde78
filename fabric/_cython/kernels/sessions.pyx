"""Session windows: the open sessions of each group, growing and merging as rows come.

One job: which session each row belongs to, which sessions became one, and which are over. What is
summed in a session is the caller's, by slot. A row is O(sessions of its group that are later than
it), mostly one; GIL released throughout.
"""

import numpy as np

cimport cython
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.vector cimport vector


cdef extern from "sessions.hpp" namespace "fabric" nogil:
    cdef cppclass Session:
        int64_t group
        int64_t start
        int64_t end
        cbool open
        cbool given

    cdef cppclass CSessionTable "fabric::SessionTable":
        CSessionTable(int64_t gap, int64_t last, cbool updates) except +
        void assign(const int64_t* groups, const int64_t* times, int64_t n, int64_t* slots,
                    vector[int64_t]& merged, vector[int64_t]& into) except +
        int64_t restore(int64_t group, int64_t start, int64_t end, cbool given) except +
        void close(int64_t limit, vector[int64_t]& slots) except +
        void ended(int64_t limit, vector[int64_t]& slots) except +
        void have_open(const int64_t* groups, int64_t n, uint8_t* out)
        const vector[Session]& sessions()
        int64_t n_open()
        int64_t n_bytes()

cdef int64_t LAST = INT64_MAX - 1
cdef int64_t GROUPS_MAX = 1 << 40


cdef object from_vector(vector[int64_t]& values):
    made = np.empty(values.size(), np.int64)
    cdef int64_t[::1] view = made
    if values.size():
        memcpy(&view[0], values.data(), values.size() * sizeof(int64_t))
    return made


cdef int64_t checked(const int64_t[::1] groups, int64_t n) except -1:
    """Refuse groups that are none, and another number of times than groups."""
    cdef int64_t i, least = 0, most = 0
    if groups.shape[0] != n:
        raise ValueError(f"{groups.shape[0]} groups need as many times, got {n}")
    for i in range(n):
        least, most = min(least, groups[i]), max(most, groups[i])
    if least < 0 or most >= GROUPS_MAX:
        raise ValueError(f"groups must be in [0, 2**40), got {least if least < 0 else most}")
    return n


@cython.final
cdef class SessionTable:
    """Open sessions by group: a row at `time` is in ``[time, time + gap_us)`` and what it touches.

    Each session has a slot, a small number that is its own until it is closed, or folded into
    another one, and the next `assign` has begun.

    Parameters
    ----------
    gap_us
        Rows at most this far apart are in one session; positive.
    updates
        Whether `ended` is wanted.
    Raises
    ------
    ValueError
        If `gap_us` is not positive.
    Examples
    --------
    >>> import numpy as np
    >>> table = SessionTable(10)
    >>> [a.tolist() for a in table.assign(np.array([7, 7]), np.array([100, 120]))]
    [[0, 1], [], []]
    >>> [a.tolist() for a in table.assign(np.array([7]), np.array([110]))]
    [[0], [1], [0]]
    >>> [a.tolist() for a in table.close(130)]
    [[0], [7], [100], [130]]
    """

    cdef CSessionTable* table
    cdef readonly int64_t gap_us

    def __cinit__(self, int64_t gap_us, bint updates=False):
        if gap_us < 1:
            raise ValueError(f"gap_us must be positive, got {gap_us}")
        self.gap_us = gap_us
        self.table = new CSessionTable(gap_us, LAST, updates)

    def __dealloc__(self):
        del self.table

    def __len__(self):
        return self.table.n_open()

    @property
    def nbytes(self):
        """Memory held."""
        return self.table.n_bytes()

    def assign(self, const int64_t[::1] groups not None, const int64_t[::1] times not None):
        """The session of each row; sessions that a row joins become one.

        Parameters
        ----------
        groups, times
            int64, shapes (rows,): whose row, and when (microseconds), in any order.
        Returns
        -------
        slots, merged, into
            int64: shape (rows,), the session of each row when it came; shapes (merges,): the slots
            of sessions that went into others. To be folded in this order, after every row of the
            batch was added to its own slot.
        Raises
        ------
        ValueError
            If the lengths differ or a group is out of range.
        """
        cdef int64_t n = checked(groups, times.shape[0])
        cdef vector[int64_t] merged, into
        slots = np.empty(n, np.int64)
        cdef int64_t[::1] view = slots
        if n > 0:
            with nogil:
                self.table.assign(&groups[0], &times[0], n, &view[0], merged, into)
        return slots, from_vector(merged), from_vector(into)

    cdef object columns(self, vector[int64_t]& slots):
        cdef int64_t i, n = <int64_t>slots.size()
        groups, starts, ends = (np.empty(n, np.int64) for _ in range(3))
        cdef int64_t[::1] groups_view = groups
        cdef int64_t[::1] starts_view = starts
        cdef int64_t[::1] ends_view = ends
        cdef const Session* sessions = self.table.sessions().const_data()
        cdef const Session* session
        for i in range(n):
            session = &sessions[slots[i]]
            groups_view[i], starts_view[i], ends_view[i] = session.group, session.start, session.end
        return from_vector(slots), groups, starts, ends

    def bounds(self, const int64_t[::1] slots not None):
        """Where open sessions begin and end now.

        Parameters
        ----------
        slots
            int64, shape (sessions,).
        Returns
        -------
        starts, ends
            int64, shapes (sessions,).
        Raises
        ------
        ValueError
            If a slot has no open session.
        """
        cdef int64_t i, n = slots.shape[0], n_slots = <int64_t>self.table.sessions().size()
        starts, ends = np.empty(n, np.int64), np.empty(n, np.int64)
        cdef int64_t[::1] starts_view = starts
        cdef int64_t[::1] ends_view = ends
        cdef const Session* sessions = self.table.sessions().const_data()
        for i in range(n):
            if not 0 <= slots[i] < n_slots or not sessions[slots[i]].open:
                raise ValueError(f"slot {slots[i]} has no open session")
            starts_view[i], ends_view[i] = sessions[slots[i]].start, sessions[slots[i]].end
        return starts, ends

    def ended(self, int64_t limit):
        """Sessions that end by `limit` and have had rows since they were last given here.

        Returns
        -------
        slots, groups, starts, ends
            int64, shapes (sessions,), by end. They stay open.
        """
        cdef vector[int64_t] slots
        with nogil:
            self.table.ended(limit, slots)
        return self.columns(slots)

    def close(self, int64_t limit):
        """Sessions that end by `limit`; they are open no longer.

        Returns
        -------
        slots, groups, starts, ends
            int64, shapes (sessions,), by end. A slot is used again from the next `assign` on.
        """
        cdef vector[int64_t] slots
        with nogil:
            self.table.close(limit, slots)
        return self.columns(slots)

    def has_open(self, const int64_t[::1] groups not None):
        """Whether each group has an open session: bool, shape (groups,)."""
        cdef int64_t n = checked(groups, groups.shape[0])
        found = np.empty(n, np.bool_)
        cdef uint8_t[::1] view = found.view(np.uint8)
        if n > 0:
            self.table.have_open(&groups[0], n, &view[0])
        return found

    def export(self):
        """All open sessions, as `restore` takes them.

        Returns
        -------
        slots, groups, starts, ends, given
            int64, shapes (sessions,), by slot; bool: whether `ended` gave it as it is now.
        """
        cdef vector[int64_t] slots
        cdef int64_t i
        cdef const Session* sessions = self.table.sessions().const_data()
        for i in range(<int64_t>self.table.sessions().size()):
            if sessions[i].open:
                slots.push_back(i)
        given = np.empty(slots.size(), np.bool_)
        cdef uint8_t[::1] view = given.view(np.uint8)
        for i in range(<int64_t>slots.size()):
            view[i] = sessions[slots[i]].given
        return *self.columns(slots), given

    def restore(self, const int64_t[::1] groups not None, const int64_t[::1] starts not None,
                const int64_t[::1] ends not None, given not None):
        """Open sessions that an export brought; returns their slots, int64, shape (sessions,).

        Raises
        ------
        ValueError
            If the lengths differ, a group is out of range, or a session ends before it starts.
        """
        cdef int64_t i, n = checked(groups, starts.shape[0])
        cdef const uint8_t[::1] known = np.ascontiguousarray(given, np.bool_).view(np.uint8)
        if ends.shape[0] != n or known.shape[0] != n:
            raise ValueError(f"{n} sessions need as many ends and flags")
        slots = np.empty(n, np.int64)
        cdef int64_t[::1] view = slots
        for i in range(n):
            if ends[i] < starts[i]:
                raise ValueError(f"session {i} ends at {ends[i]}, before it starts at {starts[i]}")
            view[i] = self.table.restore(groups[i], starts[i], ends[i], known[i])
        return slots
