"""TimerQueue beside a sorted set in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.timers import TimerQueue

END = 2**63 - 1
PAIRS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=40)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "remove"]), PAIRS),
        st.tuples(st.just("due"), st.integers(0, 20)),
    ),
    max_size=20,
)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))


@given(STEPS)
def test_beside_a_set(steps: list[tuple[str, list[tuple[int, int]] | int]]) -> None:
    queue, known = TimerQueue(), set[tuple[int, int]]()
    for what, given_ in steps:
        before = len(known)
        if isinstance(given_, int):
            fired = sorted(pair for pair in known if pair[0] <= given_)
            known -= set(fired)
            assert list(zip(*(a.tolist() for a in queue.due(given_)), strict=True)) == fired
        elif what == "add":
            known |= set(given_)
            assert queue.add(*columns(given_)) == len(known) - before
        else:
            known -= set(given_)
            assert queue.remove(*columns(given_)) == before - len(known)
        assert len(queue) == len(known)
        exported = queue.export()
        assert list(zip(*(a.tolist() for a in exported), strict=True)) == sorted(known)
    again = TimerQueue()
    again.add(*queue.export())
    assert [a.tolist() for a in again.due(END)] == [a.tolist() for a in queue.due(END)]


def test_many_that_are_removed_leave_nothing_behind() -> None:
    queue, times = TimerQueue(), np.arange(100_000)
    queue.add(times, times % 7)
    grown = queue.nbytes
    for _ in range(5):
        assert queue.remove(times[1:], times[1:] % 7) == 99_999
        assert queue.add(times[1:], times[1:] % 7) == 99_999
    assert queue.nbytes <= 2 * grown
    fired, keys = queue.due(END)
    assert (fired == times).all()
    assert (keys == times % 7).all()


def test_times_at_the_ends_and_keys_of_any_value() -> None:
    queue = TimerQueue()
    queue.add(np.array([END, -(2**63), 0]), np.array([-1, 2**62, 0]))
    assert [a.tolist() for a in queue.due(0)] == [[-(2**63), 0], [2**62, 0]]
    assert [a.tolist() for a in queue.due(END)] == [[END], [-1]]


def test_lengths_must_fit() -> None:
    for method in (TimerQueue().add, TimerQueue().remove):
        with pytest.raises(ValueError, match="2 times need as many keys, got 1"):
            method(np.zeros(2, np.int64), np.zeros(1, np.int64))
