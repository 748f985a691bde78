"""Streams with Python functions, whose chains run in processes of their own: the rows stay."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fabric import DataFrame, Process, arrow_udf, col, from_epoch, streams
from fabric.agent.slot.pool import SlotLimits, SlotPool
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.errors import ExpressionError
from fabric.io.readers import generator
from fabric.plan.sources import GeneratorStream
from fabric.values import ByteSize
from tests.support import running
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.held import held
from tests.support.sampled import SOAK
from tests.support.wait import wait_until

START = datetime(2026, 1, 1, tzinfo=UTC)
N_ROWS, N_SPLITS, RATE = 30_000, 4, 20_000


@pytest.fixture(scope="module")
def pool() -> Iterator[SlotPool]:
    made = SlotPool(SlotLimits(batch_s=60))
    yield made
    made.close()


@pytest.fixture
def slots(tmp_path: Path, pool: SlotPool) -> Iterator[EmbeddedFabric]:
    config = CoordinatorConfig(
        checkpoint=CheckpointConfig(
            folder=str(tmp_path / "checkpoints"), interval_s=0.2, state="arrow",
            state_memory=ByteSize(30_000),
        )
    )  # fmt: skip
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
    made = streams.generator(n_rows=N_ROWS, n_splits=N_SPLITS, n_keys=97, seed=3, start=START)
    timed = made.with_watermark("ts", strategy=lambda times, most: most - 2_000_000)
    return timed.group_by("key").window("1 second").agg(n=col("row").sum())


def doubled_windows(frame: DataFrame) -> DataFrame:
    """A function right behind windows, which have more groups than memory where there are slots."""
    twice = arrow_udf(lambda a: pc.multiply(a, 2), returns="int64")
    made = streams.generator(n_rows=N_ROWS, n_splits=N_SPLITS, n_keys=5_000, seed=3, start=START)
    counts = made.with_watermark("ts", "1 second").group_by("key").window("10 seconds").count()
    return counts.with_columns(twice=twice("count"))


ASKS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "rows of a process": lambda frame: summed(frame).filter(col("n") < 0),
    "a side of its own": lambda frame: summed(frame).side_output("last"),
    "dead letters": lambda frame: dead(summed(frame)),
    "functions": lambda frame: doubled(frame).filter(col("key") >= 0).select("key"),
    "event time of its own": windows,
    "windows in a slot": doubled_windows,
}


def dead(frame: DataFrame) -> DataFrame:
    return frame.side_output("errors").select("split", "row", "key", "error", "error_node")


def model() -> tuple[dict[int, int], list[tuple[int, int, int]]]:
    """Sums by key of the rows without fault, and (split, row, key) of the others."""
    source = GeneratorStream(n_rows=N_ROWS, n_splits=N_SPLITS, n_keys=97, seed=3)
    sums: dict[int, int] = {}
    faulty = []
    for split in range(N_SPLITS):
        made = generator.rows(source, split, 0, N_ROWS // N_SPLITS, 0)
        for row, key in zip(made["row"].to_pylist(), made["key"].to_pylist(), strict=True):
            if row % 1000 == 999:
                faulty.append((split, row, key))
            else:
                sums[key] = sums.get(key, 0) + row
    return sums, sorted(faulty)


def table_of(fabric: EmbeddedFabric, job: str) -> list[tuple[object, ...]]:
    table = running.result(fabric.control, fabric.transport, job)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def ran(fabric: EmbeddedFabric, frame: DataFrame, parallelism: int = 3) -> list[tuple[object, ...]]:
    job = fabric.submit(frame.plan.root, parallelism=parallelism)
    fabric.wait(job)
    return table_of(fabric, job)


def complete(fabric: EmbeddedFabric, job: str) -> int:
    told = fabric.control.list_checkpoints(pb.CheckpointsRequest(job_id=job)).checkpoints
    return max((c.checkpoint for c in told if c.state not in {"under way", "aborted"}), default=0)


@pytest.mark.parametrize("name", ASKS)
def test_rows_are_those_of_threads(
    slots: EmbeddedFabric, threads: EmbeddedFabric, name: str
) -> None:
    frame = ASKS[name](rows())
    assert ran(slots, frame) == ran(threads, frame)


def test_each_task_has_a_process_of_its_own(slots: EmbeddedFabric, pool: SlotPool) -> None:
    pid = arrow_udf(lambda a: pa.array([os.getpid()] * len(a)), returns="int64")
    found = {pid for (pid,) in ran(slots, rows().select(pid=pid("row")))}
    assert len(found) == 3
    assert found <= set(pool.pids) - {os.getpid()}


def test_faulty_rows_alone_are_dead_letters(slots: EmbeddedFabric) -> None:
    sums, faulty = model()
    job = slots.submit(summed(rows()).filter(col("n") < 0).plan.root, parallelism=3)
    status = slots.wait(job)
    counts = [each for stage in status.stages for each in stage.counts if each.n]
    assert [(each.node_path, each.name, each.n) for each in counts] == [
        ("keyed_process_1", "failed_rows", len(faulty))
    ]
    assert {key: total for key, _, total in table_of(slots, job)} == sums
    letters = ran(slots, dead(summed(rows())))
    assert [letter[:3] for letter in letters] == faulty
    raised = {(text.partition(" (line ")[0], node) for *_, text, node in letters}
    assert raised == {
        (f"the function Summing raised ValueError: row {row}", "keyed_process_1")
        for _, row, _ in faulty
    }


@pytest.mark.parametrize("ask", ["rows of a process", "dead letters"] if SOAK else ["dead letters"])
def test_agents_that_leave_change_no_result(
    slots: EmbeddedFabric, ask: str, tmp_path: Path
) -> None:
    """State, timers and letters come back from what slot processes stored."""
    with held(tmp_path / "held"):
        job = slots.submit(ASKS[ask](rows(RATE)).plan.root, parallelism=3)
        for agent in (slots.agents[1], slots.agents[2]):
            seen = complete(slots, job)
            wait_until(lambda seen=seen: complete(slots, job) >= seen + 2, 60)
            agent.close()
    slots.wait(job)
    sums, faulty = model()
    found = table_of(slots, job)
    if ask == "dead letters":
        assert [letter[:3] for letter in found] == faulty
    else:
        assert {key: total for key, _, total in found} == sums


def test_a_process_that_crashes_once_is_another_attempt(
    slots: EmbeddedFabric, tmp_path: Path
) -> None:
    """The stream goes on from its checkpoint: nothing is lost, nothing comes twice."""
    crashed = tmp_path / "crashed"

    def crash(row: int) -> None:
        if row == N_ROWS // N_SPLITS // 2 and not crashed.exists():
            crashed.touch()
            ctypes.string_at(0)

    frame = summed(rows(RATE), counting(crash)).filter(col("n") < 0)
    job = slots.submit(frame.plan.root, parallelism=3)
    slots.wait(job)
    assert crashed.exists()
    assert {key: total for key, _, total in table_of(slots, job)} == model()[0]
    kinds = [e.kind for e in slots.control.list_events(pb.EventsRequest(job_id=job)).events]
    assert kinds.count("job restored") == 2


def test_a_failure_says_which_rows_it_was_among(slots: EmbeddedFabric) -> None:
    def check(values: pa.Array) -> pa.Array:
        if 5000 in values.to_pylist():
            raise ValueError("5000 is no use")
        return values

    checked = arrow_udf(check, returns="int64")
    frame = rows().select("split", row=checked("row"))
    with pytest.raises(ExpressionError) as raised:
        ran(slots, frame, parallelism=2)
    words = ["raised ValueError: 5000 is no use", "rows of split '", '"kind":"generator"']
    assert [word for word in words if word not in str(raised.value)] == []
    assert raised.value.where.node
