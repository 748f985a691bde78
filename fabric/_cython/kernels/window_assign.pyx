"""Windows of times: where each begins and ends, and whether a row comes too late for it.

One job: arithmetic on times, a row at a time. O(rows + windows), GIL released throughout. A window
whose bounds leave int64 is cut at the first or last time that a row can have, so that nothing wraps
round.
"""

import numpy as np

cimport cython
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

cdef int64_t FIRST = INT64_MIN + 2
cdef int64_t LAST = INT64_MAX - 1
cdef int64_t FAR = 1 << 61


cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    """The sum of a time and a length that is not negative."""
    return LAST if a > LAST - b else a + b


cdef inline int64_t minus(int64_t a, int64_t b) noexcept nogil:
    return FIRST if a < FIRST + b else a - b


@cython.cdivision(True)
cdef inline int64_t past(int64_t time, int64_t size, int64_t offset) noexcept nogil:
    """How far `time` lies behind the last multiple of `size` from `offset`, which is in [0, size).
    """
    cdef int64_t rest = time % size  # the sign is that of `time`
    rest += size if rest < 0 else 0
    return rest - offset if rest >= offset else rest - offset + size


cdef void tumbling(const int64_t* times, int64_t n_rows, int64_t size, int64_t offset,
                   int64_t* starts, int64_t* ends) noexcept nogil:
    """Neighbours are mostly in one window, and dividing takes longer than comparing."""
    cdef int64_t i, start = 1, end = 0
    for i in range(n_rows):
        if times[i] < start or times[i] >= end:
            start = minus(times[i], past(times[i], size, offset))
            end = plus(times[i], size - past(times[i], size, offset))
        starts[i], ends[i] = start, end


@cython.cdivision(True)
cdef int64_t count_sliding(const int64_t* times, int64_t n_rows, int64_t size, int64_t slide,
                           int64_t offset) noexcept nogil:
    cdef int64_t i, n = 0
    if size % slide == 0:
        return n_rows * (size // slide)
    for i in range(n_rows):
        n += (size - past(times[i], slide, offset) + slide - 1) // slide
    return n


cdef void sliding(const int64_t* times, int64_t n_rows, int64_t size, int64_t slide,
                  int64_t offset, int64_t* rows, int64_t* starts, int64_t* ends) noexcept nogil:
    """The windows of a row from the last to begin to the first."""
    cdef int64_t i, back, n = 0
    for i in range(n_rows):
        back = past(times[i], slide, offset)
        while back < size:
            rows[n] = i
            starts[n] = minus(times[i], back)
            ends[n] = plus(times[i], size - back)
            n += 1
            back += slide


@cython.cdivision(True)
cdef int64_t cumulative(const int64_t* times, int64_t n_rows, int64_t size, int64_t step,
                        int64_t offset, int64_t* rows, int64_t* starts,
                        int64_t* ends) noexcept nogil:
    """The windows of a row from the first to end to the last; their number alone without `rows`."""
    cdef int64_t i, back, ahead, n = 0
    for i in range(n_rows):
        back = past(times[i], size, offset)
        if rows == NULL:
            n += (size - back + step - 1) // step
            continue
        ahead = step - back % step
        while ahead <= size - back:
            rows[n] = i
            starts[n] = minus(times[i], back)
            ends[n] = plus(times[i], ahead)
            n += 1
            ahead += step
    return n


cdef int64_t checked(str what, int64_t value) except -1:
    if value < 1:
        raise ValueError(f"{what} must be positive, got {value}")
    return value


def assign_tumbling(const int64_t[::1] times not None, int64_t size_us, int64_t offset_us):
    """The window of each row: ``[start, end)``, starts being multiples of the size from the offset.

    Parameters
    ----------
    times
        int64, shape (rows,), microseconds.
    size_us, offset_us
        The length of the windows, positive; where one of them begins, any time.
    Returns
    -------
    starts, ends
        int64, shapes (rows,).
    Raises
    ------
    ValueError
        If `size_us` is not positive.
    Examples
    --------
    >>> import numpy as np
    >>> [a.tolist() for a in assign_tumbling(np.array([-1, 0, 12]), 10, 0)]
    [[-10, 0, 10], [0, 10, 20]]
    """
    checked("size_us", size_us)
    cdef int64_t n_rows = times.shape[0]
    offset_us = offset_us % size_us
    offset_us += size_us if offset_us < 0 else 0
    starts, ends = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    cdef int64_t[::1] starts_view = starts
    cdef int64_t[::1] ends_view = ends
    if n_rows > 0:
        with nogil:
            tumbling(&times[0], n_rows, size_us, offset_us, &starts_view[0], &ends_view[0])
    return starts, ends


def assign_sliding(const int64_t[::1] times not None, int64_t size_us, int64_t slide_us,
                   int64_t offset_us):
    """The windows of each row, where one of `size_us` begins every `slide_us`.

    Parameters
    ----------
    times
        int64, shape (rows,), microseconds.
    size_us, slide_us, offset_us
        Both positive, the slide at most the size; where one window begins, any time.
    Returns
    -------
    rows, starts, ends
        int64, shapes (windows of all rows,). `rows` says which row an entry is of; it rises, and
        the entries of one row go from the last window to begin to the first.
    Raises
    ------
    ValueError
        If a length is not positive, or the slide longer than the size.
    Examples
    --------
    >>> import numpy as np
    >>> [a.tolist() for a in assign_sliding(np.array([12]), 10, 5, 0)]
    [[0, 0], [10, 5], [20, 15]]
    """
    if checked("slide_us", slide_us) > checked("size_us", size_us):
        raise ValueError(f"slide_us must be at most size_us {size_us}, got {slide_us}")
    cdef int64_t n_rows = times.shape[0], n
    offset_us = offset_us % slide_us
    offset_us += slide_us if offset_us < 0 else 0
    n = count_sliding(&times[0], n_rows, size_us, slide_us, offset_us) if n_rows else 0
    rows, starts, ends = (np.empty(n, np.int64) for _ in range(3))
    cdef int64_t[::1] rows_view = rows
    cdef int64_t[::1] starts_view = starts
    cdef int64_t[::1] ends_view = ends
    if n > 0:
        with nogil:
            sliding(&times[0], n_rows, size_us, slide_us, offset_us, &rows_view[0],
                    &starts_view[0], &ends_view[0])
    return rows, starts, ends


def assign_cumulative(const int64_t[::1] times not None, int64_t size_us, int64_t step_us,
                      int64_t offset_us):
    """The windows of each row, where they begin together every `size_us` and end every `step_us`.

    Parameters
    ----------
    times
        int64, shape (rows,), microseconds.
    size_us, step_us, offset_us
        Both positive, the size a multiple of the step; where windows begin, any time.
    Returns
    -------
    rows, starts, ends
        int64, shapes (windows of all rows,). `rows` says which row an entry is of; it rises, and
        the entries of one row go from the first window to end to the last.
    Raises
    ------
    ValueError
        If a length is not positive, or the size no multiple of the step.
    Examples
    --------
    >>> import numpy as np
    >>> [a.tolist() for a in assign_cumulative(np.array([12]), 30, 10, 0)]
    [[0, 0], [0, 0], [20, 30]]
    """
    if checked("size_us", size_us) % checked("step_us", step_us):
        raise ValueError(f"size_us must be a multiple of step_us {step_us}, got {size_us}")
    cdef int64_t n_rows = times.shape[0], n = 0
    offset_us = offset_us % size_us
    offset_us += size_us if offset_us < 0 else 0
    if n_rows:
        n = cumulative(&times[0], n_rows, size_us, step_us, offset_us, NULL, NULL, NULL)
    rows, starts, ends = (np.empty(n, np.int64) for _ in range(3))
    cdef int64_t[::1] rows_view = rows
    cdef int64_t[::1] starts_view = starts
    cdef int64_t[::1] ends_view = ends
    if n > 0:
        with nogil:
            cumulative(&times[0], n_rows, size_us, step_us, offset_us, &rows_view[0],
                       &starts_view[0], &ends_view[0])
    return rows, starts, ends


@cython.cdivision(True)
cdef int64_t spans(const int64_t* times, const int64_t* watermarks, int64_t reached, int64_t n_rows,
                   int64_t size, int64_t step, int64_t offset, bint cumulated, int64_t lateness,
                   int64_t* firsts, int64_t* lasts) noexcept nogil:
    """Fill the ends of the first and last window of each row; how many rows have none, or -1."""
    cdef int64_t i, time, watermark, complete, first = 0, last = 0, from_ = 1, until = 0
    cdef int64_t n_late = 0
    for i in range(n_rows):
        time = times[i]
        if time < from_ or time >= until:  # neighbours mostly are in the same windows
            if time > FAR or time < -FAR:
                return -1
            from_ = time - past(time, step, offset % step)
            until = from_ + step
            if cumulated:
                first, last = until, time - past(time, size, offset) + size
            else:
                last = from_ + size
                first = last - (size - (time - from_) - 1) // step * step
                if time - from_ < size % step:  # the first one to take them stops within the step
                    until = from_ + size % step
                else:
                    from_ += size % step
        firsts[i], lasts[i] = first, last
        watermark = reached
        if watermarks != NULL:
            watermark = max(reached, watermarks[i])
        if watermark == INT64_MAX:
            complete = watermark
        else:
            complete = INT64_MIN if watermark < INT64_MIN + lateness else watermark - lateness
        if first <= complete:
            if last <= complete:
                firsts[i] = last + step
                n_late += 1
            else:
                firsts[i] = first + ((complete - first) // step + 1) * step
    return n_late


def window_spans(const int64_t[::1] times not None, const int64_t[::1] watermarks, int64_t reached,
                 int64_t size_us, int64_t step_us, int64_t offset_us, bint cumulated,
                 int64_t lateness_us):
    """The windows of each row that are not complete yet, as the ends of the first and the last.

    A row's windows end at ``first, first + step_us, … last``; there are none when first > last: the
    row is late for all of them (window end + lateness <= watermark).

    Parameters
    ----------
    times
        int64, shape (rows,), microseconds.
    watermarks, reached
        int64, shape (rows,): what rows carry (None: nothing), and how far the operator itself has
        come, which counts where it is more.
    size_us, step_us, offset_us
        The length of windows; from the end of one window of a row to its next (of tumbling windows
        the size); where one of them begins.
    cumulated
        Whether windows begin together every `size_us` and end every `step_us`; else all are
        `size_us` long and one begins every `step_us`.
    lateness_us
        How long a window takes rows after its end, not negative.
    Returns
    -------
    firsts, lasts, n_late
        int64, shapes (rows,); how many rows have no window.
    Raises
    ------
    ValueError
        If lengths do not fit each other, or a time is more than 2**61 away from 0.
    Examples
    --------
    >>> import numpy as np
    >>> times, watermarks = np.array([12, 12, 12]), np.array([0, 15, 20])
    >>> firsts, lasts, n_late = window_spans(times, watermarks, -2**63, 10, 5, 0, False, 0)
    >>> firsts.tolist(), lasts.tolist(), n_late
    ([15, 20, 25], [20, 20, 20], 1)
    """
    checked("size_us", size_us)
    cdef int64_t n_rows = times.shape[0], n_late = 0, unit
    if checked("step_us", step_us) > size_us or (cumulated and size_us % step_us):
        raise ValueError(f"step_us must fit in size_us {size_us}, got {step_us}")
    if size_us > FAR or lateness_us < 0:
        raise ValueError(f"no windows are {size_us} long and take rows {lateness_us} later")
    if watermarks is not None and watermarks.shape[0] != n_rows:
        raise ValueError(f"{n_rows} times need as many watermarks, got {watermarks.shape[0]}")
    unit = size_us if cumulated else step_us
    offset_us = offset_us % unit
    offset_us += unit if offset_us < 0 else 0
    firsts, lasts = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    cdef int64_t[::1] firsts_view = firsts
    cdef int64_t[::1] lasts_view = lasts
    cdef const int64_t* carried = NULL
    if n_rows > 0:
        if watermarks is not None:
            carried = &watermarks[0]
        with nogil:
            n_late = spans(&times[0], carried, reached, n_rows, size_us, step_us, offset_us,
                           cumulated, lateness_us, &firsts_view[0], &lasts_view[0])
        if n_late < 0:
            raise ValueError("a time is more than 73,000 years from 1970")
    return firsts, lasts, n_late
