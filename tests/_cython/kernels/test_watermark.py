"""row_watermarks beside a fold in Python, in batches of any sizes; MinTracker beside min()."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.watermark import MinTracker, row_watermarks

BEGINNING, IDLE, END = -(2**63), -(2**63) + 1, 2**63 - 1
FIRST, LAST = IDLE + 1, END - 1
TIMES = st.one_of(
    st.integers(-50, 50), st.none(), st.sampled_from([BEGINNING, IDLE, END, FIRST, LAST, 10**15])
)


def clamped(time: int) -> int:
    return min(max(time, FIRST), LAST)


def fold(
    times: list[int | None], bound: int, future: int | None, ceiling: int
) -> tuple[list[int], list[int]]:
    """Design 4.12, word for word, a row at a time."""
    greatest: int | None = None
    watermarks, kinds = [], []
    for time in times:
        watermarks.append(BEGINNING if greatest is None else clamped(greatest - bound))
        if time is None or not IDLE < time < END:
            kinds.append(1)
        elif greatest is None:
            kinds.append(2 if time > ceiling else 0)
            greatest = time if time <= ceiling else None
        elif future is not None and time > clamped(greatest + future):
            kinds.append(2)
            greatest = clamped(greatest + future)
        else:
            kinds.append(0)
            greatest = max(greatest, time)
    return watermarks, kinds


@given(
    st.lists(TIMES, max_size=40), st.lists(st.integers(1, 7), max_size=40),
    st.sampled_from([0, 5, 2**62]), st.sampled_from([None, 0, 10, 2**62]),
    st.sampled_from([20, END]),
)  # fmt: skip
def test_rows_carry_what_a_fold_gives_whatever_the_batches(
    times: list[int | None], sizes: list[int], bound: int, future: int | None, ceiling: int
) -> None:
    watermarks, kinds, greatest, at = [], [], BEGINNING, 0
    for size in [*sizes, len(times)]:
        batch = times[at : at + size]
        at += size
        values = np.array([0 if t is None else t for t in batch], np.int64)
        valid = np.array([t is not None for t in batch], np.uint8)
        jump = -1 if future is None else future
        mask = valid if None in batch else None
        some, kind, greatest, n_bad = row_watermarks(values, mask, greatest, bound, jump, ceiling)
        assert n_bad == np.count_nonzero(kind)
        watermarks += some.tolist()
        kinds += kind.tolist()
    assert (watermarks, kinds) == fold(times, bound, future, ceiling)


def test_golden_rows() -> None:
    """A bound of 5; row 3 is 88 ahead of the 112 before it, and may push by 20 only."""
    times = np.array([100, 90, 112, 200, 113, 133])
    watermarks, kinds, greatest, n_bad = row_watermarks(times, None, BEGINNING, 5, 20, END)
    assert watermarks.tolist() == [BEGINNING, 95, 95, 107, 127, 127]
    assert kinds.tolist() == [0, 0, 0, 2, 0, 0]
    assert (greatest, n_bad) == (133, 1)


def test_a_first_row_ahead_of_the_clock_pushes_nothing() -> None:
    times = np.array([10**15, 7, 8])
    watermarks, kinds, greatest, _ = row_watermarks(times, None, BEGINNING, 0, 1000, 500)
    assert watermarks.tolist() == [BEGINNING, BEGINNING, 7]
    assert (kinds.tolist(), greatest) == ([2, 0, 0], 8)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="3 times need as many valid, got 2"):
        row_watermarks(np.zeros(3, np.int64), np.ones(2, np.uint8), 0, 0, 0, 0)
    with pytest.raises(ValueError, match="bound_us must not be negative, got -1"):
        row_watermarks(np.zeros(3, np.int64), None, 0, -1, 0, 0)


def least(known: list[int], idle: set[int]) -> int:
    awake = [time for i, time in enumerate(known) if i not in idle and time != END]
    if awake:
        return min(awake)
    return END if known and set(known) == {END} else IDLE


STEPS = st.lists(
    st.one_of(
        st.just("add"),
        st.tuples(st.integers(0, 9), st.one_of(st.integers(-20, 20), st.sampled_from([IDLE, END]))),
    ),
    max_size=60,
)


@given(st.integers(0, 5), STEPS)
def test_minimum_of_channels_that_come_go_and_rest(
    n: int, steps: list[str | tuple[int, int]]
) -> None:
    tracker, known, idle = MinTracker(n), [BEGINNING] * n, set[int]()
    for step in steps:
        before = least(known, idle)
        if isinstance(step, str):
            assert tracker.add() == len(known)
            known.append(BEGINNING)
        elif step[0] < len(known):
            channel, time = step
            if known[channel] == END:
                pass
            elif time == IDLE:
                idle.add(channel)
            else:
                idle.discard(channel)
                known[channel] = max(known[channel], time)
            assert tracker.update(channel, time) == (before != least(known, idle))
        assert tracker.minimum() == least(known, idle)
        assert tracker.n_channels == len(known)
    assert tracker.times().tolist() == [IDLE if i in idle else t for i, t in enumerate(known)]


def test_an_ended_channel_does_not_let_all_fire_while_another_rests() -> None:
    tracker = MinTracker(2)
    tracker.update(0, END)
    tracker.update(1, IDLE)
    assert tracker.minimum() == IDLE
    tracker.update(1, END)
    assert tracker.minimum() == END


def test_no_channel_is_idle_not_at_the_beginning() -> None:
    assert MinTracker(0).minimum() == IDLE
    assert MinTracker(1).minimum() == BEGINNING


def test_a_channel_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        MinTracker(-1)
    for channel in (-1, 2):
        with pytest.raises(IndexError, match=f"no channel {channel} of 2"):
            MinTracker(2).update(channel, 0)
