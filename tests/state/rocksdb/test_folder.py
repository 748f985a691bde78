"""A folder is new; all else is refused, and left as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fabric.coordinator.metadata.rocksdb import RocksStore
from fabric.errors import StorageError
from fabric.state import StateSpec, StateStore, open_states
from tests.support.states import Shelf

KEYS = pa.schema([("user", pa.int64())])
SPEC = StateSpec(name="n", kind="value", keys=KEYS, dtype="int64")
LIST = StateSpec(name="l", kind="list", keys=KEYS, dtype="int64")
N = 20_000
USERS = [pa.array(np.arange(N))]


def opened(folder: Path, *specs: StateSpec) -> StateStore:
    return open_states("rocksdb", specs or (SPEC, LIST), folder)


def filled(folder: Path) -> Path:
    store = opened(folder)
    fill(store)
    store.close()
    return folder


def fill(store: StateStore) -> None:
    store.state("n").put_many(USERS, USERS[0])
    store.state("l").append(1, 7)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but RocksDB's own log of what it did, and its lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(("LOG", "LOCK"))
    }


def refused(folder: Path, message: str) -> None:
    before = contents(folder)
    with pytest.raises(StorageError, match=message):
        opened(folder)
    assert contents(folder) == before


def test_a_closed_folder_is_refused(tmp_path: Path) -> None:
    refused(filled(tmp_path / "a"), "^[^:]*a has the state of another attempt of this task")


def test_what_a_crash_left_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path / "a")
    store.state("n").put(1, 1)
    shutil.copytree(tmp_path / "a", tmp_path / "left")
    refused(tmp_path / "left", "left has the state of another attempt of this task")
    refused(tmp_path / "a", "a has the state of another attempt of this task")
    store.close()


def test_what_is_not_ours_is_refused(tmp_path: Path) -> None:
    metadata = tmp_path / "metadata"
    RocksStore(metadata).close()
    refused(metadata, "is not empty, it holds .*CURRENT")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "notes.txt").write_text("mine")
    refused(tmp_path / "texts", r"is not empty, it holds notes\.txt: use a new folder")


def test_snapshots_share_what_did_not_change(tmp_path: Path) -> None:
    """One percent of the keys change: one small file more is copied."""
    store, shared = opened(tmp_path / "a"), dict[str, bytes]()
    copied = []
    for turn in range(3):
        store.state("n").put_many(
            [USERS[0][:: 100 if turn else 1]], USERS[0][:: 100 if turn else 1]
        )
        shelf = Shelf(shared)
        store.snapshot().write(shelf)
        copied.append(shelf.n_copied)
    assert copied == [1, 1, 1]
    assert [path.name for path in (tmp_path / "a").iterdir() if "snapshot" in path.name] == []
    again = Shelf(shared)
    store.snapshot().write(again)
    assert again.n_copied == 0
    other = opened(tmp_path / "b")
    other.restore([again], range(1 << 15))
    third = Shelf(shared)
    other.snapshot().write(third)
    assert third.n_copied == 0  # what was taken over is known under the same name
    for each in (store, other):
        each.close()


def test_two_that_go_on_from_one_snapshot_share_no_new_file(tmp_path: Path) -> None:
    """Both number their files from the same one on."""
    shared = dict[str, bytes]()  # a name that got other bytes is an error of the shelf
    store, before = opened(tmp_path / "a"), Shelf(shared)
    fill(store)
    store.snapshot().write(before)
    store.close()
    stores = [opened(tmp_path / "b"), opened(tmp_path / "c")]
    for other in stores:
        other.restore([before], range(1 << 15))
    for number, each in enumerate(stores):
        each.state("n").put(1, number)
        shelf = Shelf(shared)
        each.snapshot().write(shelf)
        assert shelf.n_copied == 1
        each.close()


def test_a_snapshot_that_nobody_writes_is_removed(tmp_path: Path) -> None:
    store = opened(tmp_path / "a")
    snapshot = store.snapshot()
    assert (tmp_path / "a" / "snapshot-1").exists()
    del snapshot
    assert not (tmp_path / "a" / "snapshot-1").exists()
    store.close()


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Full(Shelf):
        def link(self, name: str, path: Path, content: str) -> None:
            raise OSError(28, "No space left on device")

    store = opened(tmp_path / "a")
    store.state("n").put(1, 1)
    with pytest.raises(StorageError, match="can't be written: No space left on device"):
        store.snapshot().write(Full({}))
    assert not list((tmp_path / "a").glob("snapshot-*"))
    shelf = Shelf({})
    store.snapshot().write(shelf)
    assert "state.json" in shelf.names()
    store.close()
