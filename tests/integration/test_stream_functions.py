"""Streams with Python functions, whose chains run in processes of their own: nothing else differs."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fabric import DataFrame, Process, arrow_udf, col, from_epoch, streams
from fabric.agent.slot.pool import SlotLimits, SlotPool
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.testing import running
from fabric.testing.embedded import EmbeddedFabric, embedded_pair
from fabric.testing.wait import wait_until

N_ROWS, N_SPLITS, RATE = 30_000, 4, 6000


@pytest.fixture(scope="module")
def pool() -> Iterator[SlotPool]:
    made = SlotPool(SlotLimits(batch_s=60))
    yield made
    made.close()


@pytest.fixture
def slots(tmp_path: Path, pool: SlotPool) -> Iterator[EmbeddedFabric]:
    config = CoordinatorConfig(
        checkpoints=str(tmp_path / "checkpoints"), checkpoint=CheckpointConfig(interval_s=0.2)
    )
    with embedded_pair(3, slots=8, config=config, pool=pool) as made:
        yield made


@pytest.fixture(scope="module")
def threads() -> Iterator[EmbeddedFabric]:
    with embedded_pair(3, slots=8) as made:
        yield made


def rows(rows_per_s: int = 0) -> DataFrame:
    """The same rows at any rate: their time is made of their number."""
    made = streams.generator(
        n_rows=N_ROWS, n_splits=N_SPLITS, n_keys=97, rows_per_s=rows_per_s, seed=3
    )
    at = from_epoch(col("row") - col("row") % 7 * 100, "ms")
    return made.select("split", "row", "key", at=at).with_watermark("at", "1 second")


def counting(at_row: Callable[[int], None] = lambda row: None) -> Process:
    """Sums by key at each tenth row, the rest at the end; every 1000th row of a key is a fault."""

    class Summing(Process):
        def on_rows(self, ctx: Any, key: int, rows: pa.RecordBatch) -> Iterator[dict[str, int]]:
            state, n = ctx.state("sum"), ctx.state("n")
            for row in rows["row"].to_pylist():
                at_row(row)
                state.put((state.get() or 0) + row)
                n.put((n.get() or 0) + 1)
                if row % 1000 == 999:
                    raise ValueError(f"row {row}")
                if not n.get() % 10:
                    yield {"key": key, "n": n.get(), "sum": state.get()}
            ctx.timers.set(10**15)

        def on_timer(self, ctx: Any, key: int, time: int, domain: str) -> dict[str, int]:
            ctx.side("last", {"key": key, "sum": ctx.state("sum").get()})
            return {"key": key, "n": -1, "sum": ctx.state("sum").get()}

    return Summing()


def summed(frame: DataFrame, process: Process | None = None) -> DataFrame:
    return frame.process(
        process or counting(),
        keys="key",
        schema={"key": "int64", "n": "int64", "sum": "int64"},
        state={"sum": streams.value_state("int64"), "n": streams.value_state("int64")},
        timers="event",
        sides={"last": {"key": "int64", "sum": "int64"}},
        on_error="side",
    )


def doubled(frame: DataFrame) -> DataFrame:
    """A function in a stage that reads sources, and one behind an exchange."""
    twice = arrow_udf(lambda a: pc.multiply(a, 2), returns="int64")
    return summed(frame.with_columns(row=twice("row"), replace=True)).select("key", s=twice("sum"))


def windows(frame: DataFrame) -> DataFrame:
    """Event time by a function of the user's."""
    made = frame.select("row", "key", at=col("at"))
    strategy = made.with_watermark("at", strategy=lambda times, most: most - 2_000_000)
    return strategy.group_by("key").window("10 seconds").agg(n=col("row").sum())


ASKS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "rows of a process": lambda frame: summed(frame).filter(col("n") < 0),
    "a side of its own": lambda frame: summed(frame).side_output("last"),
    "functions": lambda frame: doubled(frame).filter(col("key") >= 0),
}


def table_of(fabric: EmbeddedFabric, job: str) -> list[tuple[object, ...]]:
    table = running.result(fabric.control, fabric.transport, job)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def ran(fabric: EmbeddedFabric, frame: DataFrame, parallelism: int = 3) -> list[tuple[object, ...]]:
    job = fabric.submit(frame.plan.root, parallelism=parallelism)
    fabric.wait(job)
    return table_of(fabric, job)
