"""Rates and speeds against a clock that a test moves; times and refusals of generators."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fabric.errors import ConfigError, DataError, NotFoundError, PlanError
from fabric.io.readers import enumerate_stream, open_reader, stream_schema
from fabric.io.readers.protocol import END, IDLE, Polled
from fabric.io.sources import memory
from fabric.plan.sources import (
    DatasetSource,
    FileSource,
    FlightStream,
    GeneratorStream,
    NexmarkStream,
    ReplayStream,
)
from fabric.testing.clock import ManualClock

SECOND_US = 1_000_000


def opened(source, clock, positions=None):
    reader = open_reader(source, stream_schema(source), clock)
    reader.open(enumerate_stream(source))
    reader.seek(positions or {})
    return reader


def drained(reader):
    n_rows = 0
    while (found := reader.poll(1_000, 0.0)) not in (IDLE, END):
        n_rows += found.batch.num_rows if isinstance(found, Polled) else 0
    return n_rows


@pytest.mark.parametrize(
    "source",
    [GeneratorStream(rows_per_s=100), NexmarkStream("event", events_per_s=100)],
    ids=["generator", "nexmark"],
)
def test_a_rate_counts_over_all_splits_and_goes_on_after_a_restart(source):
    clock = ManualClock()
    reader = opened(source, clock)
    n_first = drained(reader)
    assert n_first <= 1
    clock.advance(2.0)
    assert n_first + drained(reader) == 201
    positions = reader.positions()
    clock.advance(3_600.0)  # away for an hour: no burst
    again = opened(source, clock, positions)
    n_again = drained(again)
    assert n_again <= source.n_splits
    clock.advance(1.0)
    assert n_again + drained(again) == pytest.approx(100, abs=source.n_splits)


def test_a_table_of_nexmark_has_its_share_of_the_rate():
    clock = ManualClock()
    reader = opened(NexmarkStream("bid", events_per_s=1_000), clock)
    n_first = drained(reader)
    clock.advance(1.0)
    assert n_first + drained(reader) == pytest.approx(920, abs=4)


def test_event_times_of_a_generator_are_those_when_rows_are_due():
    clock = ManualClock(wall_s=5_000.0)
    source = GeneratorStream(rows_per_s=4, n_rows=8, n_splits=2)
    reader, times = opened(source, clock), []
    for _ in range(3):
        while (found := reader.poll(9, 0.0)) not in (IDLE, END):
            if isinstance(found, Polled):
                times += found.batch["ts"].cast(pa.int64()).to_pylist()
        clock.advance(1.0)
    assert sorted(times) == [5_000 * SECOND_US + i * SECOND_US // 4 for i in range(8)]
    again = opened(source, clock, opened(source, clock).positions())  # the start is remembered
    assert again.positions()["0-of-2"] != reader.positions()["0-of-2"]


def test_disorder_is_bounded_and_real():
    source = GeneratorStream(n_rows=2_000, n_splits=1, start_us=10**12, disorder_us=5_000)
    reader = opened(source, ManualClock())
    times = pa.concat_arrays(
        [found.batch["ts"].cast(pa.int64()) for found in iter(lambda: reader.poll(500, 0.0), END)
         if isinstance(found, Polled)]
    )  # fmt: skip
    late = pc.subtract(pa.array(range(10**12, 10**12 + 2_000_000, 1_000)), times)
    assert 0 <= pc.min(late).as_py() < 100
    assert 4_900 < pc.max(late).as_py() <= 5_000


def test_keys_are_spread_evenly():
    reader = opened(GeneratorStream(n_rows=20_000, n_keys=10, n_splits=1), ManualClock())
    counts = [0] * 10
    while isinstance(found := reader.poll(5_000, 0.0), Polled):
        for key, n in zip(*found.batch["key"].value_counts().flatten(), strict=True):
            counts[key.as_py()] += n.as_py()
    assert all(1_800 < n < 2_200 for n in counts)


def timed_table():
    return pa.table(
        {
            "at": pa.array([s * SECOND_US for s in (30, 0, 10, 20)], pa.timestamp("us")),
            "who": ["a", "a", "b", "b"],
        }
    )


def test_a_speed_replays_side_by_side_from_the_first_of_all_splits():
    clock, memory_source = ManualClock(), memory.register(timed_table())
    reader = opened(ReplayStream(memory_source, "at", split_by="who", speed=10.0), clock)
    seen = []
    for _ in range(4):
        while isinstance(found := reader.poll(9, 0.0), Polled):
            seen.append((found.split, found.batch.num_rows))
        clock.advance(1.0)
    assert seen == [("=a", 1), ("=b", 1), ("=b", 1), ("=a", 1)]


def test_a_task_with_one_of_the_splits_keeps_to_the_common_start():
    clock, memory_source = ManualClock(), memory.register(timed_table())
    source = ReplayStream(memory_source, "at", split_by="who", speed=10.0)
    reader = open_reader(source, stream_schema(source), clock)
    reader.open([split for split in enumerate_stream(source) if split.uri == "=b"])
    assert reader.poll(9, 0.0) is IDLE
    clock.advance(1.0)
    assert reader.poll(9, 0.0).batch.num_rows == 1


def test_a_restored_replay_goes_on_at_once():
    clock, memory_source = ManualClock(), memory.register(timed_table())
    source = ReplayStream(memory_source, "at", speed=1.0)
    reader = opened(source, clock)
    assert drained(reader) == 1
    clock.advance(1_000.0)
    again = opened(source, clock, reader.positions())
    assert drained(again) == 1


def test_a_file_out_of_order_is_named(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": [1, 2, 2, 5, 4]}), path)
    source = ReplayStream(FileSource("parquet", (str(path),)), "n", by_file=True)
    with pytest.raises(DataError, match=r"t.parquet is not in order: row 4 "):
        drained(opened(source, ManualClock()))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (GeneratorStream(rows_per_s=-1), "rows_per_s"),
        (GeneratorStream(n_splits=0), "n_splits"),
        (GeneratorStream(n_keys=0), "n_keys"),
        (NexmarkStream("bids"), "no table 'bids'"),
        (NexmarkStream(event_rate=0), "event_rate"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(source, message):
    with pytest.raises(ConfigError, match=message):
        enumerate_stream(source)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"order_by": "when"}, NotFoundError, "no column 'when'"),
        ({"split_by": "whom"}, NotFoundError, "no column 'whom'"),
        ({"speed": -1.0}, ConfigError, "speed"),
        ({"order_by": "who", "speed": 1.0}, ConfigError, "needs a timestamp"),
        ({"by_file": True}, ConfigError, "by_file"),
    ],
)
def test_replays_that_can_not_be_are_refused(change, error, message):
    memory_source = memory.register(timed_table())
    with pytest.raises(error, match=message):
        enumerate_stream(ReplayStream(**{"source": memory_source, "order_by": "at", **change}))


def test_streams_that_can_not_tell_their_columns():
    with pytest.raises(PlanError, match="schema="):
        stream_schema(FlightStream("clicks"))
    assert DatasetSource("x")  # a dataset's are the coordinator's to tell


def test_a_table_without_rows_is_an_ended_stream():
    memory_source = memory.register(timed_table().slice(0, 0))
    for split_by in ("", "who"):
        source = ReplayStream(memory_source, "at", split_by=split_by)
        assert drained(opened(source, ManualClock())) == 0
