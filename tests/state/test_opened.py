"""Snapshots that keys are looked up in: which files are held, how long, and whose they are."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fabric.checkpoint.manifest import Manifest, TaskSnapshot
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import DataError, InternalError, NotFoundError
from fabric.state import opened as opened_module
from fabric.state.opened import ByGroup, Keys, OpenedSnapshot, as_opened, mapped, opened
from fabric.testing.operators import Kept


class Bytes:
    """The bytes of a file, as something that is made of it."""

    def __init__(self, path: Path) -> None:
        self.data = mapped(path).to_pybytes()

    @property
    def nbytes(self) -> int:
        return len(self.data)


class Checkpoints:
    """Those of one task, in a folder; each has some files of its own and some that never change."""

    def __init__(self, root: Path) -> None:
        self.root, self.storage = root / "checkpoints", FolderStorage(root / "checkpoints")
        self._host = root / "host"
        self._host.mkdir()
        self.storage.prepare("job-1")

    def store(self, number: int, own: dict[str, bytes], fixed: dict[str, bytes]) -> Manifest:
        writer = self.storage.writer("job-1", number, "node", 0, 0)
        for name, data in own.items():
            writer.put(name, data)
        for name, data in fixed.items():
            path = self._host / name
            path.write_bytes(data)
            writer.link(name, path, f"content-{name}")
        task = TaskSnapshot("node", 0, 0, range(4), files=writer.finish())
        manifest = Manifest(
            job="job-1", checkpoint=number, epoch=1, run=0, wall_us=0, tasks=(task,)
        )
        self.storage.commit_manifest(manifest)
        return manifest

    def opened(
        self, manifest: Manifest, folder: Path, before: OpenedSnapshot | None = None
    ) -> OpenedSnapshot:
        (task,) = manifest.tasks
        contents = {file.name: file.content for file in task.files if file.content}
        return opened(self.storage.reader(manifest, task), folder, contents, before)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path)


def data(snapshot: OpenedSnapshot, name: str) -> bytes:
    return snapshot.of_file(name, Bytes).data


def test_what_was_held_stays_when_the_checkpoint_goes(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    manifest = checkpoints.store(1, {"own": b"1", "other": b"2"}, {"fixed": b"3"})
    snapshot = checkpoints.opened(manifest, tmp_path / "held")
    assert (data(snapshot, "own"), data(snapshot, "fixed")) == (b"1", b"3")
    checkpoints.storage.remove("job-1", 1)
    assert (data(snapshot, "own"), data(snapshot, "fixed")) == (b"1", b"3")
    with pytest.raises(NotFoundError, match="is missing in the checkpoint folder"):
        data(snapshot, "other")


def test_files_are_taken_over_by_what_never_changes_alone(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    one = checkpoints.store(1, {"own": b"1"}, {"a": b"a"})
    two = checkpoints.store(2, {"own": b"2"}, {"a": b"a", "b": b"b"})
    first = checkpoints.opened(one, tmp_path / "held")
    made = first.of_file("a", Bytes)
    assert data(first, "own") == b"1"
    second = checkpoints.opened(two, tmp_path / "held", first)
    assert second.of_file("a", Bytes) is made
    assert (data(second, "own"), data(second, "b"), data(first, "own")) == (b"2", b"b", b"1")
    assert (first.nbytes, second.nbytes) == (2, 3)
    n_names = os.stat(next(iter(checkpoints.root.glob("job-1/shared/content-a-*")))).st_nlink
    assert n_names == 5  # in the host's folder, two checkpoints, those they share, and once held


def test_nothing_is_left_when_nobody_reads_any_more(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    held = tmp_path / "held"
    first = checkpoints.opened(checkpoints.store(1, {"own": b"1"}, {"a": b"a"}), held)
    first.folder("more").mkdir()
    assert (data(first, "own"), data(first, "a")) == (b"1", b"a")
    second = checkpoints.opened(checkpoints.store(2, {}, {"a": b"a"}), held, first)
    del first
    gc.collect()
    assert len(list(held.glob("file-*"))) == 1
    assert data(second, "a") == b"a"
    del second
    gc.collect()
    assert list(held.iterdir()) == []


@pytest.mark.parametrize("name", ["own", "fixed"])
def test_damaged_bytes_are_refused(checkpoints: Checkpoints, tmp_path: Path, name: str) -> None:
    manifest = checkpoints.store(1, {"own": b"12"}, {"fixed": b"34"})
    (path,) = checkpoints.root.glob(f"job-1/*1/node.0.0/{name}")
    path.write_bytes(b"xx")
    snapshot = checkpoints.opened(manifest, tmp_path / "held")
    for _ in range(2):
        with pytest.raises(DataError, match=f"{name} is damaged"):
            data(snapshot, name)


def test_parts_have_files_and_facts_of_their_own(tmp_path: Path) -> None:
    kept = Kept()
    for name in ("a.facts.json", "a.b.rows", "facts.json"):
        kept.put(name, name.encode())
    snapshot = opened(kept, tmp_path)
    part = snapshot.part("a")
    assert (part.names(), part.part("b").names()) == (["b.rows", "facts.json"], ["rows"])
    assert bytes(part.read("facts.json")) == b"a.facts.json"
    assert bytes(snapshot.read("facts.json")) == b"facts.json"
    assert data(part.part("b"), "rows") == b"a.b.rows"
    assert [part.once("n", lambda: 1), part.once("n", lambda: 2), snapshot.once("n", lambda: 3)] \
        == [1, 1, 3]  # fmt: skip
    with pytest.raises(InternalError, match="opened for that"):
        as_opened(kept)


def test_the_last_answers_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, found = opened(Kept(), tmp_path), list[int]()

    def answer(n: int, state: str = "s") -> int:
        def find() -> list[pa.RecordBatch]:
            found.append(n)
            return [pa.record_batch({"n": [n]})]

        rows = snapshot.answer((state, n.to_bytes(8, "big")), find)
        return int(rows[0].column(0)[0].as_py())

    assert [answer(1), answer(2), answer(1), answer(2)] == [1, 2, 1, 2]
    assert found == [1, 2]
    assert answer(1, "t") == 1
    assert found == [1, 2, 1]
    monkeypatch.setattr(opened_module, "ANSWERS_BYTES", snapshot.nbytes)
    assert [answer(n) for n in (2, 3, 4)] == [2, 3, 4]  # these three have room
    assert [answer(2), answer(1)] == [2, 1]
    assert found == [1, 2, 1, 3, 4, 1]
    monkeypatch.setattr(opened_module, "ANSWERS_BYTES", 0)
    assert answer(2) == 2
    assert snapshot.nbytes == 0


def test_rows_are_found_by_their_groups() -> None:
    rng = np.random.default_rng(7)
    groups = rng.integers(0, 50, 1_000).astype(np.uint16)
    wanted = np.array([0, 7, 8, 49, 60], np.uint16)
    found = ByGroup(groups).rows(wanted).tolist()
    assert found == [row for group in wanted for row in np.flatnonzero(groups == group)]
    assert ByGroup(groups).rows(wanted[:0]).tolist() == []
    keys = Keys.of(pa.record_batch({"k": ["b", "a", "b"]}))
    assert len(keys.hashes) == 2
    assert set((keys.hashes >> np.uint64(49)).tolist()) == set(keys.groups.tolist())
