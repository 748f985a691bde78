"""Whoever crashes at any step of storing a checkpoint: the one before is whole, this one or none.

The file layer forgets everything that was not synced, name by name; see `SimulatedFiles`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from fabric.checkpoint.manifest import FINAL, Manifest, NodeRecord, TaskSnapshot
from fabric.checkpoint.savepoint import Savepoint
from fabric.checkpoint.savepoints import Savepoints
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


KEPT, ELSEWHERE = "kept", Path("/else")


def before(files: SimulatedFiles) -> list[Manifest]:
    """Two checkpoints, and a savepoint of each; the first checkpoint is removed."""
    storage, known = begin(files)
    files.make_folder(ELSEWHERE)
    files.sync(ELSEWHERE.parent)
    for manifest in known:
        Savepoints(ROOT, files).write(savepoint(manifest, f"of {manifest.checkpoint}"))
    storage.retain(JOB, [2], 3)
    return known


def savepoint(manifest: Manifest, name: str) -> Savepoint:
    return Savepoint(
        name=name, stream="", job_name="", plan="", key_groups=1 << 15, release="0.1.0",
        created_us=manifest.checkpoint, manifest=manifest,
    )  # fmt: skip


def write(files: SimulatedFiles, known: list[Manifest]) -> None:
    Savepoints(ROOT, files).write(savepoint(known[1], KEPT))


def write_elsewhere(files: SimulatedFiles, known: list[Manifest]) -> None:
    Savepoints(ROOT, files).write(savepoint(known[1], KEPT), str(ELSEWHERE / KEPT))


def export(files: SimulatedFiles, known: list[Manifest]) -> None:
    Savepoints(ROOT, files).export("of 1", ELSEWHERE / KEPT)


def delete(files: SimulatedFiles, known: list[Manifest]) -> None:
    Savepoints(ROOT, files).delete("of 1")


def adopt(files: SimulatedFiles, known: list[Manifest]) -> None:
    savepoints = Savepoints(ROOT, files)
    savepoints.adopt(
        savepoints.load("of 2"), {"window": "new"}, job=JOB, checkpoint=9,
        nodes=(NodeRecord("new", "k", "t"),), wall_us=1,
    )  # fmt: skip


STEPS = {"write": write, "elsewhere": write_elsewhere, "export": export, "delete": delete,
         "adopt": adopt}  # fmt: skip
Step = Callable[[SimulatedFiles, list[Manifest]], None]


def steps_of_savepoints() -> list[tuple[str, int]]:
    """Each step of all that is done with savepoints."""
    found = []
    for name, do in STEPS.items():
        files = SimulatedFiles()
        known = before(files)
        first = files.n_steps
        do(files, known)
        found += [(name, step) for step in range(files.n_steps - first)]
    return found


def check_savepoints(files: SimulatedFiles, known: list[Manifest]) -> set[str]:
    """All checkpoints and savepoints that are there are whole; which ones those are."""
    savepoints, storage = Savepoints(ROOT, files), FolderStorage(ROOT, files)
    found = savepoints.list()
    assert all(isinstance(one, Savepoint) for one in found)
    names = {one.name for one in found}
    if KEPT in files.names(ELSEWHERE) and "SAVEPOINT" in files.names(ELSEWHERE / KEPT):
        names.add(str(ELSEWHERE / KEPT))
    for name in names:
        savepoints.verify(name)
        manifest = savepoints.load(name).manifest
        assert manifest == known[manifest.checkpoint - 1]
    numbers = storage.checkpoints(JOB)
    for number in numbers:
        storage.verify(storage.load(JOB, number))
    return {*names, *map(str, numbers)}


@pytest.mark.parametrize(("name", "step"), steps_of_savepoints())
def test_a_crash_at_any_step_with_savepoints(name: str, step: int) -> None:
    """What was there stays, what is being made is there or not, and can be made again."""
    done = {
        "write": {KEPT}, "elsewhere": {str(ELSEWHERE / KEPT)}, "export": {str(ELSEWHERE / KEPT)},
        "delete": {"of 1"}, "adopt": {"9"},
    }[name]  # fmt: skip
    always = {"of 1", "of 2", "2"} - done
    for seed in range(4):
        files = SimulatedFiles()
        known = before(files)
        files.crash_at = files.n_steps + step
        with pytest.raises(Crashed):
            STEPS[name](files, known)
        files.crash(Random(seed))
        found = check_savepoints(files, known)
        assert found in (always, always | done)
        if name != "delete" or "of 1" in found:
            STEPS[name](files, known)
        assert check_savepoints(files, known) == (
            always if name == "delete" else always | done
        )  # fmt: skip
        files.crash(Random(seed))
        assert check_savepoints(files, known) == (always if name == "delete" else always | done)


@pytest.mark.parametrize(("name", "step"), steps_of_savepoints())
def test_a_disk_that_is_full_at_any_step_with_savepoints(name: str, step: int) -> None:
    files = SimulatedFiles()
    known = before(files)
    files.full_at = files.n_steps + step
    refused = ""
    try:
        STEPS[name](files, known)
    except StorageError as error:
        refused = error.message
    assert "is full" in refused or not refused
    files.full_at = None
    check_savepoints(files, known)
    n_files = files.n_files()
    if refused:
        STEPS[name](files, known)
        assert files.n_files() > n_files
        check_savepoints(files, known)


@pytest.mark.parametrize("what", ["files", "folders"])
def test_a_sync_that_is_left_out_of_a_savepoint_is_found(what: str) -> None:
    n_broken = 0
    for seed in range(60):
        files = Forgetful(what)
        try:
            known = before(files)
            files.crash(Random(seed))
            n_broken += not check_savepoints(files, known) >= {"of 1", "of 2"}
        except (Exception, AssertionError):
            n_broken += 1
    assert n_broken > 30
