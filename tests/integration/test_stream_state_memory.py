"""Windows with more groups than memory, by the API: the answers of DuckDB, and what is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, Session, col, count, streams
from fabric.control import control_pb2 as pb
from fabric.errors import ConfigError
from tests.support.files import files_in
from tests.support.wait import wait_until

N_ROWS, N_KEYS = 200_000, 20_000
START = datetime(2024, 5, 1, tzinfo=UTC)
ROOM = 400_000
"""Bytes; the groups of one window of ten seconds take more than ten times as many."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with fabric.connect() as session:
        session.checkpoints(
            interval_s=0.1, state="arrow", state_memory=ROOM, folder=tmp_path / "checkpoints"
        )
        yield session


def rows(session: Session, n_rows: int = N_ROWS, rows_per_s: int = 0) -> DataFrame:
    return streams.generator(
        session=session, n_rows=n_rows, rows_per_s=rows_per_s, n_splits=2, n_keys=N_KEYS, seed=5,
        start=START, disorder="1 second",
    )  # fmt: skip


def windows(session: Session, size: str, slide: str = "", **more: int) -> DataFrame:
    timed = rows(session, **more).with_watermark("ts", "1 second")
    window = fabric.sliding(size, slide) if slide else fabric.tumbling(size)
    return timed.group_by("key").window(window).agg(
        count().alias("n"), col("row").sum().alias("rows"), col("value").max().alias("most"),
    )  # fmt: skip


def counts(status: pb.JobStatus, node: str = "") -> dict[str, int]:
    """Of all nodes, or of one."""
    found: dict[str, int] = {}
    for each in (one for stage in status.stages for one in stage.counts):
        if node in ("", each.node_path):
            found[each.name] = found.get(each.name, 0) + each.n
    return found


@pytest.mark.parametrize(("size", "slide"), [("50 seconds", ""), ("60 seconds", "20 seconds")])
def test_windows_below_memory_are_those_of_duckdb(session: Session, size: str, slide: str) -> None:
    job = windows(session, size, slide).submit(parallelism=2)
    found = job.collect()
    told = counts(job.status)
    assert told["state_evicted_rows"] > 10_000
    assert told["state_read_back_rows"] >= told["state_evicted_rows"]
    assert told["state_written_bytes"] > 0
    assert "state_cold_files" not in told  # as it is with what is 0
    check_windows(session, found, size, slide)


def check_windows(session: Session, found: pa.Table, size: str, slide: str = "") -> None:
    size_us, slide_us = (int(text.split()[0]) * 1_000_000 for text in (size, slide or size))
    with duckdb.connect() as connection:
        connection.register("events", rows(session).to_arrow())
        connection.register("found", found)
        expected = (
            f"SELECT key, s, s + {size_us}, count(*), sum(row), max(value) FROM (SELECT *, "
            f"unnest(range(t - t % {slide_us}, t - {size_us}, -{slide_us})) AS s FROM (SELECT *, "
            "epoch_us(ts) AS t FROM events)) GROUP BY key, s"
        )
        ours = "SELECT key, epoch_us(window_start), epoch_us(window_end), n, rows, most FROM found"
        for one, other in ((ours, expected), (expected, ours)):
            assert not connection.sql(f"({one}) EXCEPT ({other}) LIMIT 3").fetchall()
        assert len(found) == connection.sql(f"SELECT count(*) FROM ({expected})").fetchall()[0][0]


def test_one_step_has_files_in_a_job_that_is_in_memory(session: Session) -> None:
    session.checkpoints(state="memory")
    plain = windows(session, "50 seconds").named("by_key")
    job = plain.configure("by_key", state="arrow", state_memory="64 KB").submit(parallelism=2)
    found = job.collect()
    told = counts(job.status, "by_key")
    assert told["state_evicted_rows"] > 50_000
    assert told == counts(job.status)
    check_windows(session, found, "50 seconds")


@pytest.mark.parametrize("name", ["by_key", "most"])
def test_of_two_steps_only_one_has_files(session: Session, name: str) -> None:
    session.checkpoints(state="memory")
    frame = windows(session, "50 seconds").named("by_key")
    frame = frame.top_n(1, by=col("rows").desc(), keys="key").named("most").changes()
    job = frame.configure(name, state="arrow", state_memory="64 KB").submit(parallelism=2)
    found = job.collect()
    evicted = {
        node: counts(job.status, node).get("state_evicted_rows", 0) for node in ("by_key", "most")
    }
    assert evicted.pop(name) > 10_000
    assert list(evicted.values()) == [0]
    with duckdb.connect() as connection:
        connection.register("events", rows(session).to_arrow())
        connection.register("found", found)
        expected = (
            "SELECT key, max(rows)::BIGINT FROM (SELECT key, sum(row) AS rows FROM events "
            "GROUP BY key, epoch_us(ts) // 50000000) GROUP BY key"
        )
        sign = "CASE WHEN row_kind IN ('+I', '+U') THEN 1 ELSE -1 END"
        ours = f"SELECT key, rows FROM found GROUP BY key, rows HAVING sum({sign}) <> 0"
        for one, other in ((ours, expected), (expected, ours)):
            assert not connection.sql(f"({one}) EXCEPT ({other}) LIMIT 3").fetchall()


def skewed() -> pa.Table:
    """Few keys have most of the rows, and most keys few."""
    rng = np.random.default_rng(5)
    times = np.arange(N_ROWS) * 1_000 + 1_700_000_000_000_000
    return pa.table({
        "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
        "key": rng.zipf(1.3, N_ROWS) % N_KEYS,
        "row": np.arange(N_ROWS), "value": rng.integers(0, 1_000_000, N_ROWS),
    })  # fmt: skip


ASKS: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "tumbling": (
        lambda rows: rows.group_by("key").window("40 seconds").agg(n=count(), r=col("row").sum())
        .select("key", "n", "r"),
        "SELECT key, count(*), sum(row) FROM events GROUP BY key, epoch_us(ts) // 40000000",
    ),
    "running": (
        lambda rows: rows.group_by("key").agg(n=count(), r=col("row").sum()).changes(),
        "SELECT key, count(*), sum(row) FROM events GROUP BY key",
    ),
    "sessions": (
        lambda rows: rows.group_by("key").window(fabric.session("200 ms"))
        .agg(n=count(), r=col("row").sum()).select("key", "n", "r"),
        "SELECT key, count(*), sum(row) FROM (SELECT *, sum(begins) OVER (PARTITION BY key ORDER "
        "BY ts) AS s FROM (SELECT *, CASE WHEN epoch_us(ts) - lag(epoch_us(ts)) OVER (PARTITION BY "
        "key ORDER BY ts) <= 200000 THEN 0 ELSE 1 END AS begins FROM events)) GROUP BY key, s",
    ),
    "top": (
        lambda rows: rows.top_n(2, by=col("value").desc(), keys="key")
        .select("key", "value", "row").changes(),
        "SELECT key, value, row FROM events QUALIFY row_number() OVER (PARTITION BY key ORDER BY "
        "value DESC, row) <= 2",
    ),
    "first": (
        lambda rows: rows.deduplicate("key").select("key", "value", "row"),
        "SELECT key, arg_min(value, row), min(row) FROM events GROUP BY key",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKS)
def test_skewed_keys_below_memory(session: Session, name: str) -> None:
    ask, query = ASKS[name]
    events = skewed()
    timed = streams.replay(session.read_arrow(events), "ts").with_watermark("ts", "1 second")
    job = ask(timed).submit(parallelism=1)
    found = job.collect()
    told = counts(job.status)
    assert told["state_evicted_rows"] > 1_000
    assert told["state_read_back_rows"] > 1_000
    if "row_kind" not in found.column_names:
        found = found.append_column("row_kind", pa.array(["+I"] * len(found)))
    with duckdb.connect() as connection:
        connection.register("events", events)
        connection.register("found", found)
        sign = "CASE WHEN row_kind IN ('+I', '+U') THEN 1 ELSE -1 END"
        names = ", ".join(name for name in found.column_names if name != "row_kind")
        stands = (
            f"SELECT {names} FROM found GROUP BY {names} HAVING sum({sign}) <> 0"
        )  # fmt: skip
        for one, other in ((stands, query), (query, stands)):
            assert not connection.sql(f"({one}) EXCEPT ({other}) LIMIT 3").fetchall()


def test_a_checkpoint_writes_only_new_files(session: Session, tmp_path: Path) -> None:
    """A window that never ends while the rows flow: what it has is stored once."""
    endless = windows(session, "1 day", n_rows=0, rows_per_s=100_000)
    with endless.write_stream(streams.to_blackhole(), parallelism=1) as job:
        wait_until(lambda: counts(job.status).get("state_cold_rows", 0) > 4_000, 60)
        n_seen = len(whole(job))
        wait_until(lambda: len(whole(job)) >= 2 and len(job.checkpoints()) > n_seen, 60)
        links = [0]
        for path in files_in(tmp_path):
            if "run-" in path.name:
                with suppress(FileNotFoundError):  # its checkpoint was removed meanwhile
                    links.append(path.stat().st_nlink)
        job.cancel()
    assert max(links) >= 3  # of the task's own file, and of two checkpoints


def whole(job: fabric.Job) -> list[pb.CheckpointStatus]:
    return [each for each in job.checkpoints() if each.state in ("complete", "published")]


def test_explain_says_where_state_lies(session: Session) -> None:
    frame = windows(session, "1 second")
    plan = str(frame.explain())
    assert f"up to {ROOM:,} bytes of a task in memory, more in files (arrow)" in plan
    other = frame.top_n(2, by="n", keys="window_end")
    two = str(other.explain())
    assert two.count("state of ") == 2
    own = other.named("top").configure("top", state="tonbo", state_memory="9 MB")
    told = str(own.explain())
    assert f"up to {ROOM:,} bytes of a task in memory, more in files (arrow)" in told
    assert "state of top: up to 9,000,000 bytes of a task in memory, more in files (tonbo)" in told
    session.checkpoints(state="memory")
    assert ": in memory\n" in str(frame.explain())
    assert "state of top: up to 9,000,000 bytes" in str(own.explain())


def test_a_budget_that_is_none_is_refused(session: Session) -> None:
    for wrong in (0, -5, "much", "12 parsecs"):
        with pytest.raises(ConfigError):
            session.checkpoints(state_memory=wrong)
