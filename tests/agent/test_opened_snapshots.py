"""Which snapshots an agent keeps open, for whom, and how long."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fabric.agent import opened_snapshots
from fabric.agent.opened_snapshots import IDLE_S, OpenedSnapshots
from fabric.checkpoint.manifest import FileRecord, Manifest, TaskSnapshot
from fabric.state.opened import OpenedSnapshot
from fabric.testing.operators import Kept


class Made:
    def __init__(self, path: Path) -> None:
        self.data, self.nbytes = path.read_bytes(), 10


class Stored:
    """A storage whose files say of which checkpoint they are; one never changes."""

    def __init__(self) -> None:
        self.n_readers = 0

    def reader(self, manifest: Manifest, task: TaskSnapshot) -> Kept:
        self.n_readers += 1
        kept = Kept()
        kept.put("own", str(manifest.checkpoint).encode())
        kept.put("fixed", b"fixed")
        return kept


def manifest_of(checkpoint: int, job: str = "job-1", n_tasks: int = 1) -> Manifest:
    files = (FileRecord("fixed", 5, 0, "content"), FileRecord("own", 1, 0))
    tasks = tuple(TaskSnapshot("node", task, 0, range(4), files) for task in range(n_tasks))
    return Manifest(job=job, checkpoint=checkpoint, epoch=1, run=0, wall_us=0, tasks=tasks)


def of(snapshots: OpenedSnapshots, stored: Any, manifest: Manifest, task: int = 0) -> Any:
    return snapshots.of(stored, manifest, manifest.tasks[task])


def own(snapshot: OpenedSnapshot) -> bytes:
    return snapshot.of_file("own", Made).data


def test_a_checkpoint_is_opened_once_and_no_other_one_is_read(tmp_path: Path) -> None:
    snapshots, stored = OpenedSnapshots(tmp_path), Stored()
    one, two = manifest_of(1), manifest_of(2)
    first = of(snapshots, stored, one)
    assert of(snapshots, stored, one) is first
    assert stored.n_readers == 1
    fixed = first.of_file("fixed", Made)
    second = of(snapshots, stored, two)
    assert (own(first), own(second)) == (b"1", b"2")
    assert second.of_file("fixed", Made) is fixed
    assert own(of(snapshots, stored, one)) == b"1"  # somebody heard of it before
    again = manifest_of(2)  # as after a manifest that was read anew
    assert own(of(snapshots, stored, again)) == b"2"
    assert stored.n_readers == 4
    assert own(of(snapshots, stored, manifest_of(9, "job-2"))) == b"9"


def test_what_nobody_reads_goes(tmp_path: Path) -> None:
    snapshots, stored = OpenedSnapshots(tmp_path), Stored()
    assert own(of(snapshots, stored, manifest_of(1))) == b"1"
    assert own(of(snapshots, stored, manifest_of(2))) == b"2"
    gc.collect()
    assert len(list(tmp_path.glob("file-*"))) == 1
    snapshots.tidy(time.monotonic() + IDLE_S - 10)
    gc.collect()
    assert len(list(tmp_path.glob("file-*"))) == 1
    snapshots.tidy(time.monotonic() + IDLE_S + 10)
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_timer_looks_after_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []

    def timer(_: float, work: Any, args: list[Any]) -> Any:
        begun.append(lambda: work(*args))
        return SimpleNamespace(start=lambda: None)

    monkeypatch.setattr(opened_snapshots.threading, "Timer", timer)
    snapshots, stored = OpenedSnapshots(tmp_path), Stored()
    of(snapshots, stored, manifest_of(1))
    of(snapshots, stored, manifest_of(1))
    assert len(begun) == 1
    begun[0]()  # somebody has read just now
    assert len(begun) == 2
    monkeypatch.setattr(opened_snapshots, "IDLE_S", -1.0)
    begun[1]()
    assert len(begun) == 2
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bound", ["OPENED_MAX", "BYTES_MAX"])
def test_the_oldest_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(opened_snapshots, bound, 2 if bound == "OPENED_MAX" else 19)
    snapshots, stored, manifest = OpenedSnapshots(tmp_path), Stored(), manifest_of(1, n_tasks=5)
    for task in range(5):
        assert own(of(snapshots, stored, manifest, task)) == b"1"
    gc.collect()
    assert len(list(tmp_path.glob("file-*"))) == 2
    n_before = stored.n_readers
    of(snapshots, stored, manifest, 4)
    assert stored.n_readers == n_before
    of(snapshots, stored, manifest, 0)
    assert stored.n_readers == n_before + 1
