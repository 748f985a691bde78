"""Rows in flight that a task goes on with where the plan has their edges no more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from fabric.agent.stream_tasks.inflight import InflightRows, restored_rows
from fabric.checkpoint.manifest import INFLIGHT, Manifest, TaskSnapshot
from fabric.checkpoint.storage import FolderStorage

JOB = "job-1"


def stored(storage: FolderStorage, edge: str, task: int, values: list[int]) -> TaskSnapshot:
    node = f"{edge}{INFLIGHT}"
    writer = storage.writer(JOB, 1, node, task, 0)
    InflightRows({0: [pa.record_batch({"v": values})]}).write(writer)
    return TaskSnapshot(node, task, 0, range(task * 10, task * 10 + 10), writer.finish())


def test_rows_into_the_last_steps_come_first(tmp_path: Path) -> None:
    """What the first step makes of its rows is newer than what waits for the second."""
    storage = FolderStorage(tmp_path / "root")
    storage.prepare(JOB)
    tasks = (
        stored(storage, "counts/exchange", 0, [1]), stored(storage, "counts/exchange", 1, [2]),
        stored(storage, "totals/exchange", 0, [3]),
    )  # fmt: skip
    manifest = Manifest(
        job=JOB, checkpoint=1, epoch=1, run=0, wall_us=1, tasks=tasks, nodes=()
    )  # fmt: skip
    found = restored_rows(
        manifest, lambda task: storage.reader(manifest, task), [], ["scan", "counts", "totals"],
        (0, 1),
    )  # fmt: skip
    assert not found.items
    assert [(step, batch["v"].to_pylist()) for step, batch in found.into] == [
        ("totals", [3]), ("counts", [1]), ("counts", [2]),
    ]  # fmt: skip
