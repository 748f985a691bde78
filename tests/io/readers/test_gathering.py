"""What trickles into a source is handed out together, at steps of a clock that a test moves."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fabric.io.readers.protocol import IDLE, Cursor, Later, Polled
from fabric.io.readers.reader import GATHER_MAX_S, STEP_S, Pace, StreamReader
from fabric.plan.sources import Split
from fabric.testing.clock import ManualClock

STEP = 2.0**-6


class Trickle(Cursor):
    """A split that somebody else fills."""

    def __init__(self) -> None:
        self.there, self.n_reads = 0, 0

    def read(self, rows_max: int) -> pa.RecordBatch | Later:
        self.n_reads += 1
        n_rows = min(self.there, rows_max)
        self.there -= n_rows
        return pa.record_batch({"n": pa.nulls(n_rows)}) if n_rows else Later(0.002)

    def position(self) -> dict[str, Any]:
        return {}

    def seek(self, position: dict[str, Any]) -> None:
        """From the beginning only."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(monotonic_s=1_000 * STEP)


@pytest.fixture
def trickle() -> Trickle:
    return Trickle()


@pytest.fixture
def reader(clock: ManualClock, trickle: Trickle) -> StreamReader:
    made = StreamReader("trickle", lambda split: trickle, clock)
    made.open([Split("all")])
    return made


def polled(reader: StreamReader, gather_s: float = STEP, rows_max: int = 100) -> int:
    found = reader.poll(rows_max, 0.0, gather_s)
    if found is IDLE:
        return 0
    assert isinstance(found, Polled)
    return found.batch.num_rows


def test_what_trickles_in_is_handed_out_at_the_next_step(
    clock: ManualClock, trickle: Trickle, reader: StreamReader
) -> None:
    trickle.there = 1
    assert (polled(reader), polled(reader)) == (1, 0)  # after a pause at once
    found = []
    for _ in range(16):
        trickle.there += 1
        clock.advance(STEP / 8)
        found.append(polled(reader) + polled(reader))  # also finds that no more is there
    assert found == ([0] * 7 + [8]) * 2


def test_where_nothing_may_be_kept_every_row_comes_by_itself(
    clock: ManualClock, trickle: Trickle, reader: StreamReader
) -> None:
    for _ in range(8):
        trickle.there += 1
        clock.advance(STEP / 8)
        assert (polled(reader, 0.0), polled(reader, 0.0)) == (1, 0)


def test_full_batches_are_never_waited_for(trickle: Trickle, reader: StreamReader) -> None:
    trickle.there = 1_000
    assert [polled(reader) for _ in range(11)] == [100] * 10 + [0]  # the clock stands still


def test_buffers_of_others_are_emptied_in_time_whatever_the_latency(
    clock: ManualClock, trickle: Trickle, reader: StreamReader
) -> None:
    trickle.there = 1
    assert (polled(reader, 10.0), polled(reader, 10.0)) == (1, 0)
    trickle.there = 1
    clock.advance(GATHER_MAX_S)
    assert polled(reader, 10.0) == 1


def test_a_split_that_is_to_wait_is_not_looked_at(
    clock: ManualClock, trickle: Trickle, reader: StreamReader
) -> None:
    trickle.there = 1
    assert (polled(reader), polled(reader)) == (1, 0)
    n_reads = trickle.n_reads
    for _ in range(7):
        clock.advance(STEP / 8)
        assert polled(reader) == 0
    assert trickle.n_reads == n_reads
    clock.advance(STEP / 8)
    polled(reader)
    assert trickle.n_reads == n_reads + 1


@pytest.mark.parametrize("gather_s", [0.0, STEP_S, 2.0**-6, 2.0**-3])
def test_a_pace_deals_out_at_steps_of_the_clock_and_keeps_its_rate(gather_s: float) -> None:
    clock = ManualClock(monotonic_s=100.0 + 2.0**-9)
    pace, step_s, row = Pace(1_000, 0, 1, clock), max(STEP_S, gather_s), 0
    began_s, dealt_s = clock.monotonic_s(), []
    for _ in range(4_000):
        due = pace.due(row, gather_s)
        if due > row:
            dealt_s.append(clock.monotonic_s())
            row = due
        clock.advance(2.0**-12)
    passed_s = clock.monotonic_s() - began_s
    assert 1_000 * (passed_s - step_s) - 2 <= row <= 1_000 * passed_s + 1
    assert len(dealt_s) <= passed_s / step_s + 2
    if gather_s >= 2.0**-6:
        assert all(at_s % step_s == 0 for at_s in dealt_s)
