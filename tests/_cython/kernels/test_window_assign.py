"""Windows beside their definition: all multiples tried, in whole numbers of Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.window_assign import (
    assign_cumulative,
    assign_sliding,
    assign_tumbling,
)

END = 2**63 - 1
FIRST, LAST = -(2**63) + 2, END - 1
TIMES = st.lists(st.one_of(st.integers(-100, 100), st.integers(FIRST, LAST)), max_size=30)
OFFSETS = st.one_of(st.integers(-50, 50), st.sampled_from([FIRST, LAST]))


def clamped(*times: int) -> tuple[int, ...]:
    return tuple(min(max(time, FIRST), LAST) for time in times)


@given(TIMES, st.one_of(st.integers(1, 30), st.just(2**60)), OFFSETS)
def test_tumbling(times: list[int], size: int, offset: int) -> None:
    starts, ends = assign_tumbling(np.array(times, np.int64), size, offset)
    for time, start, end in zip(times, starts.tolist(), ends.tolist(), strict=True):
        true = time - (time - offset) % size
        assert (start, end) == clamped(true, true + size)
        assert start <= time
        assert time < end or time == LAST


@given(TIMES, st.integers(1, 30), st.integers(1, 30), OFFSETS)
def test_sliding(times: list[int], a: int, b: int, offset: int) -> None:
    size, slide = max(a, b), min(a, b)
    expected = []
    for row, time in enumerate(times):
        start = time - (time - offset) % slide
        while start > time - size:
            expected.append((row, *clamped(start, start + size)))
            start -= slide
    found = assign_sliding(np.array(times, np.int64), size, slide, offset)
    assert list(zip(*(a.tolist() for a in found), strict=True)) == expected


@given(TIMES, st.integers(1, 10), st.integers(1, 6), OFFSETS)
def test_cumulative(times: list[int], step: int, n: int, offset: int) -> None:
    size, expected = step * n, []
    for row, time in enumerate(times):
        start = time - (time - offset) % size
        ends = [start + step * (i + 1) for i in range(n)]
        expected += [(row, *clamped(start, end)) for end in ends if end > time]
    found = assign_cumulative(np.array(times, np.int64), size, step, offset)
    assert list(zip(*(a.tolist() for a in found), strict=True)) == expected


def test_golden_windows() -> None:
    """An hour from a quarter past, half-hour slides, in minutes."""
    times = np.array([0, 14, 15, 74, 75])
    assert assign_tumbling(times, 60, 15)[0].tolist() == [-45, -45, 15, 15, 75]
    rows, starts, _ = assign_sliding(times, 60, 30, 0)
    assert rows.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert starts.tolist() == [0, -30, 0, -30, 0, -30, 60, 30, 60, 30]


def test_what_does_not_fit_is_refused() -> None:
    times = np.zeros(2, np.int64)
    for refused, message in (
        (lambda: assign_tumbling(times, 0, 0), "size_us must be positive, got 0"),
        (lambda: assign_sliding(times, 5, 6, 0), "slide_us must be at most size_us 5, got 6"),
        (lambda: assign_cumulative(times, 5, 2, 0), "must be a multiple of step_us 2, got 5"),
    ):
        with pytest.raises(ValueError, match=message):
            refused()
