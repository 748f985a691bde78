"""How many rows a source hands out: what its task is through with in a tenth of a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fabric.agent.streams.batching import ROWS_MAX, ROWS_MIN, TARGET_S, BatchSize, next_due_s
from fabric.agent.streams.sources import Read, Sources
from fabric.io.streams.protocol import Polled, StreamReader

N_TURNS = 20


@given(row_s=st.floats(1e-9, 1e-2))
def test_it_settles_on_what_takes_a_tenth_of_a_second(row_s: float) -> None:
    size = BatchSize()
    for _ in range(N_TURNS):
        size.took(size.rows, size.rows * row_s)
    wanted = min(max(TARGET_S / row_s, ROWS_MIN), ROWS_MAX)
    assert 0.9 * wanted <= size.rows <= wanted


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


@given(taken_s=st.floats(0, 1e7), gather_s=st.floats(1e-3, 30))
def test_what_comes_after_a_batch_waits_no_longer_than_it_may(
    taken_s: float, gather_s: float
) -> None:
    due_s = next_due_s(taken_s, gather_s)
    assert taken_s < due_s <= taken_s + gather_s * (1 + 1e-6) + 1e-9


@given(taken_s=st.floats(0, 1e5), gather_s=st.floats(1e-3, 30))
def test_tasks_of_a_host_take_at_the_same_times_behind_their_sources(
    taken_s: float, gather_s: float
) -> None:
    steps = next_due_s(taken_s, gather_s) / gather_s
    assert abs((steps - 0.25) - round(steps - 0.25)) < 1e-3
