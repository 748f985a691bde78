"""Windows by spec: spans beside assignments, lateness, when they close."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import DataError, InternalError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.event_time.windows import (
    Assigned,
    Framed,
    assign,
    behind,
    closed,
    expanded,
    is_early,
    shown_after_rows,
    spans,
    starts,
    step,
    waits_us,
)
from fabric.plan.event_windows import Count, Cumulative, Global, Session, Sliding, Trigger, Tumbling

OFFSETS = st.integers(-40, 40)


def late(assigned: Assigned, watermarks: np.ndarray, lateness: int) -> np.ndarray:
    """Which entries come too late: in whole numbers of Python, which know no greatest time."""
    pairs = zip(assigned.ends.tolist(), watermarks[assigned.rows].tolist(), strict=True)
    return np.array([end + lateness <= watermark for end, watermark in pairs], np.bool_)


@st.composite
def framed(draw: st.DrawFn) -> Framed:
    a, b, offset = draw(st.integers(1, 20)), draw(st.integers(1, 20)), draw(OFFSETS)
    return draw(
        st.sampled_from(
            [Tumbling(a, offset), Sliding(max(a, b), min(a, b), offset),
             Cumulative(a * b, a, offset)]
        )
    )  # fmt: skip


ROWS = st.lists(st.tuples(st.integers(-30, 30), st.integers(-60, 60)), max_size=30)


@given(framed(), ROWS, st.integers(0, 20), st.sampled_from([BEGINNING, -50, 60, END_OF_TIME]))
def test_spans_are_the_windows_that_a_row_is_not_late_for(
    window: Framed, rows: list[tuple[int, int]], lateness: int, reached: int
) -> None:
    times = np.array([time for time, _ in rows], np.int64)
    carried = np.array([watermark for _, watermark in rows], np.int64)
    found = spans(window, times, carried, reached, lateness)
    assigned = assign(window, times)
    is_late = assigned.ends <= closed(np.maximum(carried, reached)[assigned.rows], lateness)
    if reached == END_OF_TIME:
        is_late[:] = True
    expected = list(
        zip(*(a[~is_late].tolist() for a in (assigned.rows, assigned.ends)), strict=True)
    )
    places, ends = expanded(found.first, found.last, step(window))
    assert sorted(zip(places.tolist(), ends.tolist(), strict=True)) == sorted(expected)
    assert found.n_late == len(rows) - len({row for row, _ in expected})
    assert (found.n_late == 0) == bool((found.first <= found.last).all())
    assert starts(window, assigned.ends).tolist() == assigned.starts.tolist()
    again = spans(window, times, None, reached, lateness)
    none_carried = spans(window, times, np.full(len(times), BEGINNING), reached, lateness)
    assert again.first.tolist() == none_carried.first.tolist()


def test_a_time_too_far_away_says_so() -> None:
    with pytest.raises(DataError, match=r"a row has the time -4611686018427387904 µs since 1970"):
        spans(Tumbling(10), np.array([5, -(2**62)]), None, BEGINNING, 0)


def test_sessions_of_single_rows_and_what_has_no_windows_in_time() -> None:
    found = assign(Session(10), np.array([5, END_OF_TIME - 3]))
    assert found.ends.tolist() == [15, END_OF_TIME - 1]
    for window in (Count(3), Global()):
        with pytest.raises(InternalError, match="by their time"):
            assign(window, np.array([5]))


def test_what_is_closed_and_what_leaves_an_operator() -> None:
    watermarks = np.array([BEGINNING, IDLE, 100, END_OF_TIME])
    assert closed(watermarks, 30).tolist() == [BEGINNING, BEGINNING, 70, END_OF_TIME]
    assert closed(watermarks, 0).tolist() == watermarks.tolist()
    leaving = [behind(int(time), 30) for time in watermarks]
    assert leaving == [BEGINNING, IDLE, 70, END_OF_TIME]
    assert behind(IDLE + 5, 30) == BEGINNING


@given(st.lists(st.integers(0, 60), min_size=1, max_size=20), st.integers(0, 5), st.data())
def test_no_row_on_time_touches_a_session_that_is_closed(
    times: list[int], lateness: int, data: st.DataObject
) -> None:
    """Why a session waits a gap longer: whoever is on time finds the session it belongs to."""
    window, bound = Session(10), data.draw(st.integers(0, 20))
    greatest, ends = BEGINNING, list[int]()
    for time in times:
        watermark = BEGINNING if greatest == BEGINNING else greatest - bound
        alone = assign(window, np.array([time])).ends
        on_time = bool((alone > closed(np.int64(watermark), lateness)).all())
        limit = int(closed(np.int64(watermark), waits_us(window, lateness)))
        gone = [end for end in ends if end <= limit]
        assert not (on_time and any(time <= end for end in gone))
        if on_time:
            ends.append(time + 10)
        greatest = max(greatest, time)


def test_triggers_decide() -> None:
    unshown, ends = np.array([0, 1, 5]), np.array([10, 20, 30])
    for trigger, expected in (
        (Trigger(), [False, False, False]),
        (Trigger(count=5), [False, False, True]),
        (Trigger(late="each"), [False, True, False]),
        (Trigger(count=1, late="each"), [False, True, True]),
    ):
        assert shown_after_rows(trigger, unshown, ends, reached=20).tolist() == expected
    assert shown_after_rows(Trigger(late="each"), unshown, None, reached=20).tolist() == [False] * 3
    assert is_early(Trigger(early_us=100), BEGINNING, 5)
    assert not is_early(Trigger(early_us=100), 105, 199)
