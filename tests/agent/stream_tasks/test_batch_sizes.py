"""How many rows a source hands out: what its task is through with in a tenth of a second."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.agent.stream_tasks.edges import Meeting
from fabric.agent.stream_tasks.sources import ROWS_MAX, ROWS_MIN, TARGET_S, BatchSize, Read, Sources
from fabric.io.readers.protocol import Polled
from fabric.io.readers.reader import StreamReader

N_TURNS = 20


@given(row_s=st.floats(1e-9, 1e-2))
def test_it_settles_on_what_takes_a_tenth_of_a_second(row_s: float) -> None:
    size = BatchSize()
    for _ in range(N_TURNS):
        size.took(size.rows, size.rows * row_s)
    wanted = min(max(TARGET_S / row_s, ROWS_MIN), ROWS_MAX)
    assert 0.9 * wanted <= size.rows <= wanted


@given(batch_s=st.floats(0, 10), row_s=st.floats(0, 1e-4), noise=st.integers(0, 10))
def test_batches_that_cost_much_whatever_they_hold_stay_large(
    batch_s: float, row_s: float, noise: int
) -> None:
    """Smaller ones are worth it where they come back sooner, not where each row costs more."""
    size, chance = BatchSize(), random.Random(noise)
    n_rows = seconds = 0.0
    for _ in range(200):
        took = (batch_s + row_s * size.rows) * chance.uniform(1 - noise / 20, 1 + noise / 20)
        n_rows, seconds = n_rows + size.rows, seconds + took
        size.took(size.rows, took)
    least = batch_s / ROWS_MAX + row_s
    assert seconds / n_rows <= 4 * least or seconds / 200 <= TARGET_S


@given(st.lists(st.tuples(st.integers(1, ROWS_MAX), st.floats(0, 100)), max_size=30))
def test_it_stays_within_its_bounds_and_at_most_doubles(turns: list[tuple[int, float]]) -> None:
    size = BatchSize()
    for n_rows, seconds in turns:
        before = size.rows
        size.took(n_rows, seconds)
        assert ROWS_MIN <= size.rows <= min(ROWS_MAX, 2 * before)


def test_few_rows_in_little_time_change_nothing() -> None:
    size = BatchSize()
    size.took(10, 0.001)  # a paced source: a walk costs more than its rows
    assert size.rows == ROWS_MAX


class Made:
    """A reader that has as many rows as it is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def poll(self, rows_max: int, wait_s: float, gather_s: float = 0.0) -> Polled:
        self.asked.append(rows_max)
        return Polled("all", pa.record_batch({"n": pa.nulls(rows_max, pa.int64())}))


def test_readers_are_asked_for_fewer_rows_once_a_batch_took_long() -> None:
    made = Made()
    sources = Sources(cast(Mapping[int, tuple[str, StreamReader]], {0: ("0.0", made)}))
    for seconds in (1.0, 0.01, 0.05):
        [read] = sources.poll(0.0)
        assert isinstance(read, Read)
        sources.took(read, seconds)
        sources.took(0, 1e9)  # an edge that ended says nothing
    assert made.asked == [65_536, 6_553, 13_106]


@given(n=st.integers(1, 4), n_polls=st.integers(0, 3), wakes=st.booleans())
def test_drained_sources_end_where_they_are(n: int, n_polls: int, wakes: bool) -> None:
    readers = {edge: (f"scan_{edge}", Made()) for edge in range(n)}
    made = cast(Mapping[int, tuple[str, StreamReader]], readers)
    sources = Sources(made, drained=not n_polls)
    for _ in range(n_polls):
        assert all(isinstance(read, Read) for read in sources.poll(0.0))
    asked = [list(reader.asked) for _, reader in readers.values()]
    if n_polls:
        sources.drain()
    if wakes:
        sources.drain()
    open_after = [(edge, sources.open) for edge in sources.poll(0.0)]
    assert sorted(edge for edge, _ in open_after) == list(range(n)), "each edge ends once"
    assert [is_open for _, is_open in open_after] == [True] * (n - 1) + [False]
    assert list(sources.poll(0.0)) == []
    assert [reader.asked for _, reader in readers.values()] == asked, "nothing more is read"


STEPS = st.floats(1e-3, 30)
NOWS = st.floats(0, 1e6)


def meeting(step_s: float) -> Meeting:
    return Meeting(gather_s=step_s / 7, step_s=step_s, behind_s=step_s / 7)


@given(now_s=NOWS, step_s=STEPS)
def test_first_rows_wait_for_those_of_others_no_longer_than_they_may(
    now_s: float, step_s: float
) -> None:
    wait_s = meeting(step_s).first_s(now_s)
    assert 0 <= wait_s <= step_s / 7
    if wait_s:
        n_steps = (now_s + wait_s) / step_s - 1 / 7
        assert abs(n_steps - round(n_steps)) * step_s < 1e-6


@given(now_s=NOWS, step_s=STEPS, after=st.floats(0, 1))
def test_rows_behind_those_that_were_taken_wait_from_then_on(
    now_s: float, step_s: float, after: float
) -> None:
    task = meeting(step_s)
    assert task.next_s(now_s) == 0
    task.took(now_s)
    came_s = now_s + after * step_s / 7
    wait_s = task.next_s(came_s)
    assert wait_s <= step_s / 7 * (1 + 1e-6) + 1e-9
    assert task.next_s(came_s + wait_s + 1e-6) == 0


def test_rows_of_all_producers_that_dealt_out_together_are_taken_together() -> None:
    task = Meeting(gather_s=0.0025, step_s=0.0175, behind_s=0.0025)
    for step in range(100):
        dealt_s = step * 0.0175
        for late_s in (0.0004, 0.001, 0.002):
            came_s = dealt_s + late_s
            assert task.next_s(came_s) == 0
            assert came_s + task.first_s(came_s) == pytest.approx(dealt_s + 0.0025)
        task.took(dealt_s + 0.0026)


def test_without_a_share_nothing_waits() -> None:
    task = Meeting(gather_s=0.0, step_s=0.0005, behind_s=0.0)
    task.took(1.0)
    assert task.next_s(1.0) == task.first_s(1.00001) == 0.0


def test_a_walk_without_rows_says_nothing_of_what_rows_take() -> None:
    """A watermark may fire many windows."""
    size = BatchSize()
    size.took(0, 5.0)
    assert size.rows == ROWS_MAX
