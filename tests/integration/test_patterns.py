"""Patterns over streams, embedded and on agents of which one dies, beside those over tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, Session, col, count, streams
from fabric.io.readers.generator import rows as made_rows
from fabric.patterns import classifier, first, last, prev
from tests.support.changes import Settled, settled
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

US = pa.timestamp("us", "UTC")
SECOND = 1_000_000
RISE: dict[str, Any] = {
    "pattern": "LOW UP{2,}? TOP",
    "define": {
        "UP": col("v") > prev("v"), "TOP": (col("v") < prev("v")) & (col("v") > col("LOW.v")),
    },
    "measures": {
        "low": col("LOW.v"), "top": prev(col("TOP.v")), "n": count("UP"), "end": last("at"),
        "begin": first("at"),
    },
    "partition_by": "k",
    "within": "20 seconds",
}  # fmt: skip


def ticks(n_rows: int = 600) -> pa.Table:
    """Rows of some keys, in order but for two seconds; some times are the same."""
    rng = Random(1)
    return pa.table({
        "k": pa.array([rng.choice([None, *range(5)]) for _ in range(n_rows)], pa.int64()),
        "at": pa.array([n // 3 * SECOND - rng.randint(0, 2) * SECOND for n in range(n_rows)], US),
        "v": pa.array([rng.randint(0, 9) for _ in range(n_rows)], pa.int64()),
        "row": pa.array(range(n_rows), pa.int64()),
    })  # fmt: skip


TICKS = ticks()


@pytest.fixture(scope="module")
def lone() -> Iterator[Session]:
    with fabric.connect(parallelism=3) as opened:
        yield opened


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalFabric]:
    with local_fabric(2) as running:
        yield running


def found(frame: DataFrame) -> Settled:
    return settled(frame.to_arrow().to_batches())


def both(session: Session) -> tuple[DataFrame, DataFrame]:
    """The rows as a stream in the order of `row`, and as a table."""
    table = session.read_arrow(TICKS)
    return streams.replay(table, "row").with_watermark("at", "3 seconds"), table


@pytest.mark.parametrize("more", [
    {}, {"after": "next_row"}, {"after": "to_last UP"}, {"partition_by": ()},
    {"rows": "all", "measures": {"label": classifier(), "n": count("UP"), "since": first("v")}},
])  # fmt: skip
def test_a_stream_has_the_matches_of_its_table(lone: Session, more: dict[str, Any]) -> None:
    stream, table = both(lone)
    expected = found(table.match(**{**RISE, **more, "order_by": "at"}))
    assert len(expected) > 5
    assert found(stream.match(**{**RISE, **more})) == expected


def test_windows_and_side_outputs_after_matches(lone: Session) -> None:
    stream, table = both(lone)
    matches = stream.match(**RISE, timeout="side", late="side")
    counts = matches.group_by("k").window("30 seconds").agg(n=count())
    expected = table.match(**RISE, order_by="at")
    whole = expected.group_by("k").agg(n=count())
    by_key = counts.to_arrow().group_by("k").aggregate([("n", "sum")])
    sums = {row["k"]: row["n_sum"] for row in by_key.to_pylist()}
    assert sums == {row["k"]: row["n"] for row in whole.to_dicts()}
    timeouts = matches.side_output("timeout").to_arrow()
    assert timeouts.schema.names == matches.columns
    assert matches.side_output("late").to_arrow().num_rows == 0
    behind = stream.with_columns(at2=col("at")).drop("at2").match(**RISE, late="side")
    assert behind.columns == matches.columns


def generated(session: Session, n_rows: int) -> DataFrame:
    return streams.generator(
        n_rows=n_rows, n_keys=20, n_splits=4, disorder="20 ms", rows_per_s=4_000,
        start=datetime(2024, 5, 1, tzinfo=UTC), session=session,
    )  # fmt: skip


RISING: dict[str, Any] = {
    "pattern": "A B+", "partition_by": "key", "within": "200 ms",
    "define": {"B": col("value") > last("value", 1)},
    "measures": {"n": count("B"), "low": col("A.value"), "split": "A.split", "row": "A.row"},
}  # fmt: skip


def answer(source: DataFrame) -> Settled:
    """The matches of the same rows as a table."""
    node: Any = source.plan.root.source
    n = node.n_rows // node.n_splits
    rows = pa.concat_tables(
        pa.table(made_rows(node, split, 0, n, node.start_us)) for split in range(node.n_splits)
    )
    return found(fabric.from_arrow(rows).match(**RISING, order_by="ts"))


def test_an_agent_dies_and_the_tasks_become_more(mortal: LocalFabric, tmp_path: Path) -> None:
    with fabric.connect(f"fabric://{mortal.address}", token=mortal.token) as session:
        session.checkpoints(interval_s=0.3, folder=tmp_path / "checkpoints")
        source = generated(session, 16_000)
        matches = source.with_watermark("ts", "50 ms").match(**RISING)
        with mortal.held():
            job = matches.write_stream(tmp_path / "out", name="rising", parallelism=2)
            wait_until(lambda: any(each.state == "published" for each in job.checkpoints()))
            mortal.kill(1)
            mortal.restart(1)
            job.rescale(3, timeout_s=120)
        job.wait(240.0)
        written = session.read_parquet(tmp_path / "out").to_arrow()
    assert settled(written.to_batches()) == answer(source)
    assert written.num_rows > 100
