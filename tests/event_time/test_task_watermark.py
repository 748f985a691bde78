"""A task's watermark: the minimum, idle channels, nothing going back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.event_time.watermarks import TaskWatermark

TIMES = st.one_of(st.integers(0, 50), st.just(IDLE), st.just(END_OF_TIME))
STEPS = st.lists(st.tuples(st.integers(0, 3), TIMES), max_size=40)


@given(st.integers(0, 4), STEPS)
def test_beside_a_model(n: int, steps: list[tuple[int, int]]) -> None:
    task, known, reached = TaskWatermark(range(n)), [BEGINNING] * n, BEGINNING
    idle = set[int]()
    for channel, time in steps:
        if channel < n:
            task.update(channel, time)
            if time == IDLE and known[channel] != END_OF_TIME:
                idle.add(channel)
            elif time != IDLE:
                idle.discard(channel)
                known[channel] = max(known[channel], time)
        awake = [t for i, t in enumerate(known) if i not in idle and t != END_OF_TIME]
        if awake:
            reached = max(reached, min(awake))
        ended = n > 0 and set(known) == {END_OF_TIME}
        expected = END_OF_TIME if ended else reached if awake else IDLE
        reached = max(reached, expected)
        assert task.current == expected


def test_a_channel_that_comes_back_behind_is_told_but_not_back() -> None:
    task = TaskWatermark("ab")
    task.update("a", 100)
    task.update("b", IDLE)
    assert task.current == 100
    task.update("a", IDLE)
    assert task.current == IDLE
    task.update("b", 5)
    assert task.current == 100


def test_a_task_without_channels_is_idle_and_one_that_joins_holds() -> None:
    task = TaskWatermark()
    assert task.current == IDLE
    task.add("late")
    task.add("late")
    assert task.current == BEGINNING
    task.update("late", 7)
    assert task.current == 7
