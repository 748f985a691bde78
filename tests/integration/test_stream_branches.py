"""Branches of one stream with event time of their own, in generated plans, beside DuckDB.

The source is read once whatever a plan makes of it, and the windows of each branch close by the
watermark of that branch: the rows are more out of order than some of these allow for, so with
another one's watermark other rows would be late.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from fabric import (
    DataFrame,
    arrow_udf,
    col,
    connect,
    count,
    lit,
    read_parquet,
    sliding,
    streams,
    tumbling,
    when,
)
from fabric.agent.slot.pool import SlotLimits, SlotPool
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.io.readers import generator
from fabric.plan.nodes import Sink, Union
from fabric.plan.sources import GeneratorStream
from fabric.plan.targets import StreamFileTarget
from tests.support import running
from tests.support.compare import unlike
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.held import held
from tests.support.sampled import sampled
from tests.support.wait import wait_until

START = datetime(2024, 5, 1, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000
N_ROWS, N_KEYS, DISORDER_MS = 600, 7, 60
EVENTS = "SELECT * FROM events"


@dataclass(frozen=True)
class Rows:
    """The same rows as a stream and as a query."""

    stream: DataFrame
    query: str


Step = Callable[[Rows], Rows]


def source(n_splits: int, rows_per_s: int = 0) -> GeneratorStream:
    return GeneratorStream(
        rows_per_s, N_ROWS, N_KEYS, n_splits, 5, START_US, DISORDER_MS * 1_000
    )  # fmt: skip


def stream(made: GeneratorStream) -> DataFrame:
    return streams.generator(
        n_rows=made.n_rows, n_splits=made.n_splits, n_keys=made.n_keys, seed=made.seed,
        start=START, disorder=f"{DISORDER_MS} ms", rows_per_s=made.rows_per_s,
    )  # fmt: skip


def expected(made: GeneratorStream, query: str) -> pa.Table:
    """What DuckDB says of the rows of the generator's formula."""
    n = made.n_splits
    sizes = [generator.n_rows_of(made.n_rows, i, n) for i in range(n)]
    parts = [generator.rows(made, i, 0, size, START_US) for i, size in enumerate(sizes)]
    table = pa.concat_tables(parts)
    with duckdb.connect() as connection:
        times = table["ts"].cast(pa.int64())
        connection.register("events", table.drop_columns("ts").append_column("us", times))
        return connection.sql(query).to_arrow_table()


# ---- steps over single rows, and what ends a branch
def as_it_is(rows: Rows) -> Rows:
    return rows


def fewer(rows: Rows) -> Rows:
    kept = rows.stream.filter(col("key") % 3 != 1)
    return Rows(kept, f"SELECT * FROM ({rows.query}) WHERE key % 3 <> 1")


def by_a_function(rows: Rows) -> Rows:
    half = arrow_udf(lambda row: pc.divide(row, 2), returns="int64")
    kept = rows.stream.filter(half(col("row")) % 2 == 0)
    return Rows(kept, f"SELECT * FROM ({rows.query}) WHERE (row // 2) % 2 = 0")


def plain(rows: Rows) -> Rows:
    found = rows.stream.select("split", "row", "key", at="ts")
    return Rows(found, f"SELECT split, row, key, us AS time FROM ({rows.query})")


def timed_query(query: str, bound_us: int) -> str:
    """Rows with how far event time had come in their split before them."""
    known = (
        "max(us) OVER (PARTITION BY split ORDER BY row "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )
    return f"SELECT *, coalesce({known} - {bound_us}, 0) AS known FROM ({query})"


def timed(rows: Rows, random: random.Random) -> Rows:
    bound = random.choice([0, 10, 30, 90])
    drift = random.choice([None, "40 ms"])
    stream = rows.stream.with_watermark("ts", f"{bound} ms", drift=drift)
    return Rows(stream, timed_query(rows.query, bound * 1_000))


def windowed(query: str, size: int, slide: int) -> str:
    starts = f"unnest(range(us - us % {slide}, us - {size}, -{slide}))"
    return f"SELECT *, s + {size} > known AS fits FROM (SELECT *, {starts} AS s FROM ({query}))"


def in_windows(rows: Rows, random: random.Random) -> Iterator[Rows]:
    size, slide = random.choice([(20, 20), (50, 50), (50, 20), (100, 100)])
    window = tumbling(f"{size} ms") if size == slide else sliding(f"{size} ms", f"{slide} ms")
    late = size == slide and random.random() < 0.5
    grouped = rows.stream.group_by("key").window(window, late="side" if late else "drop")
    windows = grouped.agg(n=count(), rows=col("row").sum())
    query = windowed(rows.query, size * 1_000, slide * 1_000)
    yield Rows(
        windows.select(split=col("n"), row=col("rows"), key=col("key"), at=col("window_start")),
        f"SELECT count(*), sum(row)::int64, key, s FROM ({query}) WHERE fits GROUP BY key, s",
    )
    if late:
        aside = Rows(windows.side_output("late"), f"SELECT * FROM ({query}) WHERE NOT fits")
        yield plain(aside)


def newest(rows: Rows, random: random.Random) -> Iterator[Rows]:
    size = random.choice([20, 50])
    windows = rows.stream.assign_windows(f"{size} ms")
    keys = ["key", "window_start", "window_end"]
    top = windows.top_n(1, by=[col("row").desc(), col("split")], keys=keys)
    query = windowed(rows.query, size * 1_000, size * 1_000)
    place = "row_number() OVER (PARTITION BY key, s ORDER BY row DESC, split)"
    yield Rows(
        top.select("split", "row", "key", at=col("window_start")),
        f"SELECT split, row, key, s FROM ({query}) WHERE fits QUALIFY {place} = 1",
    )


def branch(rows: Rows, random: random.Random) -> Iterator[Rows]:
    """One branch, or what two steps make of it."""
    ending = random.choice([None, in_windows, in_windows, newest])
    if ending is None:
        yield plain(rows)
        return
    with_time = timed(rows, random)
    yield from ending(with_time, random)
    if random.random() < 0.3:
        yield from in_windows(with_time, random)


def generated(seed: int) -> tuple[GeneratorStream, list[Rows], int]:
    """A source, what is made of it, and in how many tasks; never but one branch without time."""
    chosen = random.Random(seed)
    made = source(chosen.choice([1, 2, 3, 4]))
    whole = Rows(stream(made), EVENTS)
    steps = [as_it_is, fewer, by_a_function]
    shared = chosen.choice(steps)(whole)
    found = [*in_windows(timed(shared, chosen), chosen)]
    for _ in range(chosen.choice([1, 1, 2, 3])):
        below = chosen.choice([whole, shared, chosen.choice(steps)(shared)])
        found += branch(below, chosen)
    chosen.shuffle(found)
    return made, found, chosen.choice([1, 2, 2, 3])


def numbered(branches: list[Rows]) -> list[Rows]:
    return [
        Rows(
            each.stream.select(
                branch=lit(n), split=col("split").cast("int64"), row="row", key="key",
                at=col("at").cast("timestamp[us, UTC]"),
            ),
            f"SELECT {n}, split::int64, row, key, time FROM ({each.query}) "
            "AS each(split, row, key, time)",
        )
        for n, each in enumerate(branches)
    ]  # fmt: skip


# ---- tests
@pytest.fixture(scope="module")
def pool() -> Iterator[SlotPool]:
    made = SlotPool(SlotLimits(batch_s=60))
    yield made
    made.close()


@pytest.fixture(scope="module")
def agents(pool: SlotPool) -> Iterator[EmbeddedFabric]:
    with embedded_pair(2, slots=8, pool=pool) as made:
        yield made


def compared(found: pa.Table, made: GeneratorStream, branches: list[Rows]) -> str:
    query = " UNION ALL ".join(each.query for each in branches)
    wanted = expected(made, query).rename_columns(found.schema.names)
    times = found["at"].cast(pa.int64())
    found = found.set_column(found.schema.names.index("at"), "at", times)
    return unlike(found, wanted.cast(found.schema))


@pytest.mark.parametrize("seed", sampled(range(120), 4, salt="branches"))
def test_generated_branches(seed: int, agents: EmbeddedFabric, tmp_path: Path) -> None:
    made, some, n_tasks = generated(seed)
    branches = numbered(some)
    if seed % 3 == 0:  # all of them as one result
        first, *others = (each.stream for each in branches)
        root = first.union(*others).plan.root if others else first.plan.root
        found = agents.collect(root, parallelism=n_tasks)
    else:  # each written by itself
        sinks = [
            Sink(each.stream.plan.root, StreamFileTarget("parquet", str(tmp_path / str(n))))
            for n, each in enumerate(branches)
        ]
        agents.wait(agents.submit(Union(tuple(sinks)), parallelism=n_tasks))
        schema = branches[0].stream.schema
        folders = [tmp_path / str(n) for n in range(len(sinks))]
        found = pa.concat_tables(ds.dataset(f, schema, "parquet").to_table() for f in folders)
    assert compared(found, made, branches) == ""


@pytest.mark.parametrize("n_tasks", [1, 2])
def test_one_job_writes_windows_and_rows(n_tasks: int, tmp_path: Path) -> None:
    with connect(parallelism=n_tasks) as session:
        rows = streams.generator(n_rows=N_ROWS, n_splits=2, start=START, session=session)
        windows = rows.with_watermark("ts").group_by("key").window("1 second").agg(n=count())
        job = windows.write_stream(tmp_path / "n", also={tmp_path / "rows": rows.select("row")})
        job.wait(60)
    written = {name: ds.dataset(tmp_path / name, format="parquet") for name in ("n", "rows")}
    assert pc.sum(written["n"].to_table()["n"]).as_py() == N_ROWS
    assert written["rows"].count_rows() == N_ROWS


def test_rows_aside_of_a_branch(agents: EmbeddedFabric, tmp_path: Path) -> None:
    """Bad rows of one branch, late ones of another: each is where it belongs."""
    made = source(3)
    rows = stream(made)
    unknown = when(col("row") % 7 == 0).then(None).otherwise(col("ts"))
    with_nulls = rows.with_columns(t=unknown.cast("timestamp[us, UTC]"))
    strict = with_nulls.with_watermark("t", "1 second", on_bad="side")
    windows = strict.group_by("key").window("50 ms").agg(n=count())
    late = rows.with_watermark("ts", "0 ms").group_by("key").window("20 ms", late="side")
    counted = late.agg(n=count())
    frames = {
        "windows": windows, "bad": strict.side_output("bad"), "rows": rows, "counted": counted,
        "late": counted.side_output("late"),
    }  # fmt: skip
    sinks = [
        Sink(frame.plan.root, StreamFileTarget("parquet", str(tmp_path / name)))
        for name, frame in frames.items()
    ]
    agents.wait(agents.submit(Union(tuple(sinks)), parallelism=2))
    found = {name: ds.dataset(tmp_path / name, format="parquet").to_table() for name in frames}
    n_bad = sum(row % 7 == 0 for row in found["rows"]["row"].to_pylist())
    assert found["rows"].num_rows == N_ROWS
    assert found["bad"].num_rows == n_bad
    assert pc.sum(found["windows"]["n"]).as_py() == N_ROWS - n_bad
    n_late = found["late"].num_rows
    assert pc.sum(found["counted"]["n"]).as_py() + n_late == N_ROWS
    (ask,) = expected(
        made,
        f"SELECT count(*) FILTER (WHERE NOT fits) AS n FROM "
        f"({windowed(timed_query(EVENTS, 0), 20_000, 20_000)})",
    ).to_pylist()
    assert n_late == ask["n"] > 0


def test_a_table_below_one_watermark(agents: EmbeddedFabric, tmp_path: Path) -> None:
    """It is whole before the first row of any branch."""
    made = source(2)
    rows = stream(made)
    pq.write_table(pa.table({"key": list(range(0, N_KEYS, 2))}), tmp_path / "even.parquet")
    table = read_parquet(tmp_path / "even.parquet")
    known = Rows(rows.join(table, on="key"), f"{EVENTS} WHERE key % 2 = 0")
    chosen = random.Random(3)
    branches = numbered([*in_windows(timed(known, chosen), chosen), plain(Rows(rows, EVENTS))])
    first, *others = (each.stream for each in branches)
    found = agents.collect(first.union(*others).plan.root, parallelism=2)
    assert compared(found, made, branches) == ""


def complete(pair: EmbeddedFabric, job: str) -> int:
    """The newest complete checkpoint."""
    told = pair.control.list_checkpoints(pb.CheckpointsRequest(job_id=job)).checkpoints
    return max((c.checkpoint for c in told if c.state not in ("under way", "aborted")), default=0)


def test_agents_that_leave_change_no_result(pool: SlotPool, tmp_path: Path) -> None:
    """Each branch goes on from the checkpoint where it was, and the source where all were."""
    config = CoordinatorConfig(checkpoint=CheckpointConfig(folder=str(tmp_path), interval_s=0.2))
    made = source(3, rows_per_s=200)
    whole = Rows(stream(made), EVENTS)
    chosen = random.Random(5)
    branches = numbered([
        *in_windows(timed(by_a_function(whole), chosen), chosen),
        *in_windows(timed(whole, chosen), chosen),
        plain(whole),
    ])  # fmt: skip
    first, *others = (each.stream for each in branches)
    with embedded_pair(2, slots=8, config=config, pool=pool) as pair:
        with held(tmp_path.with_suffix(".held")):
            job = pair.submit(first.union(*others).plan.root, parallelism=2)
            wait_until(lambda: complete(pair, job) >= 2)
            pair.agents[1].close()
        pair.wait(job)
        found = running.result(pair.control, pair.transport, job)
    assert compared(found, made, branches) == ""


def test_two_sources_have_event_time_of_their_own(agents: EmbeddedFabric) -> None:
    """In one task, though their splits are called alike and one of them ends long before."""
    n_rows = 300_000
    frames = []
    for n, rows in enumerate((30, n_rows)):
        made = streams.generator(n_rows=rows, n_splits=2, n_keys=N_KEYS, start=START)
        windows = made.with_watermark("ts", "1 second").group_by("key").window("10 seconds")
        frames.append(windows.agg(n=count()).with_columns(source=lit(n)))
    found = agents.collect(frames[0].union(frames[1]).plan.root, parallelism=1)
    sums = found.group_by("source").aggregate([("n", "sum")]).to_pydict()
    assert dict(zip(sums["source"], sums["n_sum"], strict=True)) == {0: 30, 1: n_rows}
