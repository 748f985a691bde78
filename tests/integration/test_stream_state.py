"""State by key on agents that go away while rows flow: results are those of no failure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from fabric import DataFrame, Process, ProcessContext, col, from_epoch, streams
from fabric.config import CheckpointConfig, StateBackend
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from tests.support import running
from tests.support.changes import Settled, settled
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.held import held
from tests.support.wait import wait_until

N_ROWS, N_SPLITS = 30_000, 4
SIGNS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


class Counting(Process):
    """How many rows each key has had, at each fiftieth; and in all at the end."""

    def on_rows(self, ctx: ProcessContext, key: int, rows: pa.RecordBatch) -> Iterator[object]:
        before = ctx.state("n").get() or 0
        ctx.state("n").put(before + rows.num_rows)
        ctx.timers.set(10**15)
        for n in range(before - before % 50 + 50, before + rows.num_rows + 1, 50):
            yield {"key": key, "n": n}

    def on_timer(self, ctx: ProcessContext, key: int, time: int, domain: str) -> dict[str, int]:
        return {"key": key, "n": -ctx.state("n").get()}


def rows(rows_per_s: int) -> DataFrame:
    """The same rows at any rate: their time is made of their number."""
    made = streams.generator(
        n_rows=N_ROWS, n_splits=N_SPLITS, n_keys=97, rows_per_s=rows_per_s, seed=3
    )
    at = from_epoch(col("row"), "ms")
    return made.select("split", "row", "key", "value", at=at).with_watermark("at", "1 second")


def best(frame: DataFrame) -> DataFrame:
    order = [col("value").desc(), col("split"), col("row")]
    return frame.top_n(3, by=order, keys="key", rank="place").changes()


def windowed(frame: DataFrame) -> DataFrame:
    windows = frame.assign_windows("1 second")
    order = [col("value").desc(), col("split"), col("row")]
    return windows.top_n(2, by=order, keys=["key", "window_start", "window_end"])


def last(frame: DataFrame) -> DataFrame:
    return frame.deduplicate("key", keep="last", by="at").select("key", "at").changes()


def counted(frame: DataFrame) -> DataFrame:
    return frame.process(
        Counting(),
        keys="key",
        schema={"key": "int64", "n": "int64"},
        state={"n": streams.value_state("int64")},
        timers="event",
    )


@pytest.fixture
def fabric(tmp_path: Path, state: StateBackend) -> Iterator[EmbeddedFabric]:
    config = CoordinatorConfig(
        checkpoint=CheckpointConfig(folder=str(tmp_path), interval_s=0.2, state=state)
    )
    with embedded_pair(3, slots=8, config=config) as made:
        yield made


def complete(fabric: EmbeddedFabric, job: str) -> int:
    told = fabric.control.list_checkpoints(pb.CheckpointsRequest(job_id=job)).checkpoints
    return max((c.checkpoint for c in told if c.state not in {"under way", "aborted"}), default=0)


def stands(fabric: EmbeddedFabric, job: str) -> Settled:
    """The rows of a job that stand in the end."""
    table = running.result(fabric.control, fabric.transport, job)
    if "row_kind" in table.column_names:
        kinds = pa.array([SIGNS[kind] for kind in table["row_kind"].to_pylist()], pa.int8())
        table = table.drop_columns(["row_kind"]).append_column("__kind", kinds)
    return settled(table.to_batches())


@pytest.mark.parametrize(
    ("ask", "state"),
    [(best, "memory"), (windowed, "memory"), (last, "memory"), (counted, "memory"),
     (counted, "rocksdb")],
)  # fmt: skip
def test_agents_that_leave_change_no_result(
    fabric: EmbeddedFabric, ask: Callable[[DataFrame], DataFrame], state: str, tmp_path: Path
) -> None:
    quiet = fabric.submit(ask(rows(0)).plan.root, parallelism=3)
    fabric.wait(quiet)
    expected = stands(fabric, quiet)
    with held(tmp_path.with_suffix(".held")):
        job = fabric.submit(ask(rows(20_000)).plan.root, parallelism=3)
        for agent in (fabric.agents[1], fabric.agents[2]):
            seen = complete(fabric, job)
            wait_until(lambda seen=seen: complete(fabric, job) >= seen + 2, 60)
            names = [name for *_, found in os.walk(tmp_path) for name in found]  # they come and go
            on_disk = any(name.endswith(".sst") for name in names)
            assert on_disk == (state == "rocksdb"), "states lie where they were asked to"
            agent.close()
    fabric.wait(job)
    assert stands(fabric, job) == expected
