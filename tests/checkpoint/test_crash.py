"""Whoever crashes at any step of storing a checkpoint: the one before is whole, this one or none.

The file layer forgets everything that was not synced, name by name; see `SimulatedFiles`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fabric.checkpoint.manifest import FINAL, Manifest, TaskSnapshot
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import StorageError
from tests.support.sim.folder import Crashed, SimulatedFiles

JOB = "job-1"
ROOT, HOST = Path("/root"), Path("/host")
SSTS = {1: ("a", "b"), 2: ("b", "c"), 3: ("c", "d"), 4: ("c", "d")}
"""The immutable files of each checkpoint."""


class Forgetful(SimulatedFiles):
    """A file layer whose syncs of some kind do nothing."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def sync(self, path: Path) -> None:
        is_folder = (
            path.name in ("", "root", "shared")
            or path.suffix == ".0"
            or path.name.startswith(("0", JOB))
        )
        if (self._what == "folders") != is_folder:
            super().sync(path)


def begin(files: SimulatedFiles) -> tuple[FolderStorage, list[Manifest]]:
    """Two checkpoints that are there."""
    files.make_folder(HOST)
    for name in "abcd":
        files.write(HOST / name, name.encode() * 20)
        files.sync(HOST / name)
    for folder in (HOST, HOST.parent):
        files.sync(folder)
    storage = FolderStorage(ROOT, files)
    storage.prepare(JOB)
    return storage, [store(storage, 1), store(storage, 2)]


def store(storage: FolderStorage, checkpoint: int) -> Manifest:
    """A whole checkpoint, as two tasks and a coordinator make it."""
    tasks = []
    for task in (0, 1):
        writer = storage.writer(JOB, checkpoint, "window", task, 0)
        for name in SSTS[checkpoint]:
            writer.link(name, HOST / name, f"{task}-{name}")
        writer.put("state", b"%d of %d" % (checkpoint, task))
        groups = range(task, task + 1)
        tasks.append(TaskSnapshot("window", task, 0, groups, writer.finish()))
    manifest = Manifest(
        job=JOB, checkpoint=checkpoint, epoch=1, run=0, wall_us=0, tasks=tuple(tasks)
    )
    storage.commit_manifest(manifest)
    return manifest


def n_steps(of_third: bool) -> int:
    """How many steps it takes to store the third checkpoint, or to remove the first."""
    files = SimulatedFiles()
    storage, _ = begin(files)
    before = files.n_steps
    if of_third:
        store(storage, 3)
    else:
        storage.retain(JOB, [2], 3)
    return files.n_steps - before


def check_whole(files: SimulatedFiles, known: list[Manifest]) -> list[int]:
    """Every checkpoint that is there is whole, with its files; which ones those are."""
    storage = FolderStorage(ROOT, files)
    found = storage.checkpoints(JOB)
    for checkpoint in found:
        manifest = storage.load(JOB, checkpoint)
        assert checkpoint > len(known) or manifest == known[checkpoint - 1]
        storage.verify(manifest)
    return found


@pytest.mark.parametrize("step", range(n_steps(of_third=True)))
def test_a_crash_while_a_checkpoint_is_stored(step: int) -> None:
    for seed in range(20):
        files = SimulatedFiles()
        storage, known = begin(files)
        files.crash_at = files.n_steps + step
        with pytest.raises(Crashed):
            store(storage, 3)
        files.crash(Random(seed))
        assert check_whole(files, known) in ([1, 2], [1, 2, 3])
        # a coordinator that starts again removes what was begun, and goes on
        storage = FolderStorage(ROOT, files)
        storage.retain(JOB, [1, 2], 4)
        assert check_whole(files, known) == [1, 2]
        store(storage, 4)
        assert check_whole(files, known) == [1, 2, 4]


@pytest.mark.parametrize("step", range(n_steps(of_third=False)))
def test_a_crash_while_a_checkpoint_is_removed(step: int) -> None:
    for seed in range(20):
        files = SimulatedFiles()
        storage, known = begin(files)
        files.crash_at = files.n_steps + step
        with pytest.raises(Crashed):
            storage.retain(JOB, [2], 3)
        files.crash(Random(seed))
        assert check_whole(files, known) in ([2], [1, 2])
        FolderStorage(ROOT, files).retain(JOB, [2], 3)
        assert check_whole(files, known) == [2]


def test_the_last_word_of_a_task_survives_a_crash() -> None:
    """Its files lie where no manifest is ever written."""
    for seed in range(50):
        files = SimulatedFiles()
        storage, known = begin(files)
        writer = storage.writer(JOB, FINAL, "result", 0, 0)
        writer.put("rows", b"abc")
        task = TaskSnapshot("result", 0, 0, range(1), writer.finish())
        files.crash(Random(seed))
        manifest = Manifest(job=JOB, checkpoint=3, epoch=1, run=0, wall_us=0, tasks=(task,))
        FolderStorage(ROOT, files).commit_manifest(manifest)
        files.crash(Random(seed))
        assert check_whole(files, [*known, manifest]) == [1, 2, 3]


def test_what_was_committed_survives_a_crash() -> None:
    for seed in range(100):
        files = SimulatedFiles()
        storage, known = begin(files)
        known.append(store(storage, 3))
        files.crash(Random(seed))
        assert check_whole(files, known) == [1, 2, 3]


@pytest.mark.parametrize("what", ["files", "folders"])
def test_a_sync_that_is_left_out_is_found(what: str) -> None:
    """The simulated disk is as bad as it should be."""
    n_broken = 0
    for seed in range(100):
        files = Forgetful(what)
        storage, _ = begin(files)
        files.crash(Random(seed))
        try:
            found = storage.checkpoints(JOB)
            for checkpoint in found:
                storage.verify(storage.load(JOB, checkpoint))
            n_broken += found != [1, 2]
        except Exception:
            n_broken += 1
    assert n_broken > 50


@pytest.mark.parametrize("step", range(n_steps(of_third=True)))
def test_a_disk_that_is_full_from_any_step_on(step: int) -> None:
    files = SimulatedFiles()
    storage, known = begin(files)
    files.full_at = files.n_steps + step
    refused = ""
    try:
        store(storage, 3)
    except StorageError as error:
        refused = error.message
    assert check_whole(files, known) == ([1, 2] if refused else [1, 2, 3])
    assert "is full" in refused or not refused
    files.full_at = None
    storage.retain(JOB, [1, 2], 4)
    store(storage, 4)
    assert check_whole(files, known) == [1, 2, 4]
