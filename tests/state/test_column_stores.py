"""Column stores: bounded memory, damage, full disks, what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fabric.errors import ConfigError, DataError, StorageError
from fabric.state.column_stores import ALL_HASHES, ColumnStore, Order, open_column_store, runs
from fabric.state.column_stores.run_files import BLOCK_ROWS
from fabric.state.column_stores.scans import PORTION_ROWS
from fabric.testing.operators import Kept
from tests.support.disk import mounted

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def rows(n: int, text: str = "text") -> pa.RecordBatch:
    return pa.record_batch({"n": np.arange(n), "text": pa.array([text] * n)}, schema=SCHEMA)


def hashes(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 64, n, np.uint64)


def numbers(store: ColumnStore) -> list[int]:
    return sorted(n for found in store.scan() for n in found.rows.column("n").to_pylist())


@pytest.fixture(params=["memory", "arrow"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ColumnStore:
    return open_column_store(request.param, SCHEMA, tmp_path / "store")


@pytest.mark.parametrize("order", ["hash", "time"])
def test_a_key_with_a_million_rows_is_scanned_in_portions(order: Order, tmp_path: Path) -> None:
    store = open_column_store("arrow", SCHEMA, tmp_path / "store", order=order)
    n, times = 1_000_000, np.random.default_rng(1).permutation(1_000_000)
    for begin in range(0, n, 200_000):
        part = times[begin : begin + 200_000]
        store.put(0, np.full(len(part), 7, np.uint64), part, rows(len(part)))
    found = list(store.scan(columns=["n"]))
    assert np.array_equal(np.concatenate([each.times for each in found]), np.arange(n))
    assert max(len(each.times) for each in found) <= PORTION_ROWS + 8 * BLOCK_ROWS[order]


def test_looking_keys_up_reads_little(store: ColumnStore) -> None:
    there = hashes(200_000)
    store.put(0, there, np.zeros(len(there), np.int64), rows(len(there)))
    assert store.may_have(there).all()
    assert store.may_have(hashes(100_000, seed=2)).mean() < 0.03
    found = [n for each in store.scan(among=there[:3]) for n in each.rows.column("n").to_pylist()]
    assert sorted(found) == [0, 1, 2]
    (taken,) = store.take(there[1:4])
    assert sorted(taken.rows.column("n").to_pylist()) == [1, 2, 3]
    assert store.stored().rows == len(there) - 3
    assert not store.take(there[1:4])


def test_a_snapshot_stays_whatever_becomes_of_the_store(store: ColumnStore) -> None:
    store.put(0, hashes(10), np.arange(10), rows(10))
    snapshot, shelf = store.snapshot(), Kept()
    store.drop(0)
    store.close()
    snapshot.write(shelf)
    snapshot.discard()
    again = open_column_store("memory", SCHEMA)
    again.restore([shelf], ALL_HASHES)
    assert numbers(again) == list(range(10))


def test_files_go_when_nobody_needs_them(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store = open_column_store("arrow", SCHEMA, folder)
    for n in range(10):
        store.put(0, hashes(5, seed=n), np.arange(5), rows(5))
    assert len(list(folder.iterdir())) == store.stored().pieces < 10
    store.drop(0)
    assert not list(folder.iterdir())
    store.close()
    store.close()
    assert not folder.exists()


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=1m") as disk:
        store = open_column_store("arrow", SCHEMA, disk / "store")
        store.put(0, hashes(10), np.arange(10), rows(10))
        many = hashes(200_000, seed=2)
        with pytest.raises(StorageError, match=r"can't be written: No space left on device"):
            store.put(0, many, np.zeros(len(many), np.int64), rows(len(many)))
        assert numbers(store) == list(range(10))
        store.put(1, hashes(10), np.arange(10), rows(10))
        assert len(list((disk / "store").iterdir())) == store.stored().pieces == 2


def test_damage_is_found_wherever_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store = open_column_store("arrow", SCHEMA, folder)
    store.put(0, hashes(100), np.arange(100), rows(100))
    (path,) = folder.iterdir()
    whole, shelf = path.read_bytes(), Kept()
    store.snapshot().write(shelf)
    for at in range(0, len(whole), 97):
        damaged = bytearray(whole)
        damaged[at] ^= 64
        path.write_bytes(damaged)
        if at < store.stored().bytes:
            with pytest.raises(StorageError, match=f"{path} is damaged: bytes 0 to"):
                numbers(store)
            with pytest.raises(StorageError, match=f"{path} is damaged: bytes 0 to"):
                store.take(hashes(100))
        shelf.files[f"run-{path.name}"] = pa.py_buffer(bytes(damaged))
        with pytest.raises(DataError, match=f"run-{path.name} of a snapshot is damaged"):
            open_column_store("memory", SCHEMA).restore([shelf], ALL_HASHES)
    path.write_bytes(whole[:-1])
    assert numbers(store) == list(range(100))  # the index is in memory
    assert len(store.take(hashes(100)[:1])) == 1
    for size, said in ((0, "is damaged"), (None, "can't be read: No such file")):
        path.unlink() if size is None else path.write_bytes(b"")
        with pytest.raises(StorageError, match=f"{path} {said}"):
            numbers(store)
        with pytest.raises(StorageError, match=f"{path} {said}"):
            store.take(hashes(100))


@pytest.mark.parametrize("order", ["hash", "time"])
def test_large_runs_are_not_merged_but_rewritten_when_few_rows_are_left(
    order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MERGE_BYTES", 100_000)
    store = open_column_store("arrow", SCHEMA, tmp_path / "store", order=order)
    there = [hashes(10_000, seed=n) for n in range(20)]
    for each in there:
        store.put(0, each, np.zeros(len(each), np.int64), rows(len(each)))
    assert store.stored().merges == 0
    assert store.stored().pieces == len(there)
    store.take(there[3][:6_000])
    bytes_before = store.stored().bytes
    store.put(0, hashes(1, seed=99), np.zeros(1, np.int64), rows(1))
    told = store.stored()
    assert (told.merges, told.pieces, told.rows) == (1, len(there) + 1, 194_001)
    assert told.bytes < bytes_before
    left = [n for found in store.scan(among=there[3]) for n in found.rows.column("n").to_pylist()]
    assert sorted(left) == list(range(6_000, 10_000))


def test_what_cannot_be_stored_is_refused(store: ColumnStore) -> None:
    other = pa.record_batch({"n": [1]})
    with pytest.raises(DataError, match=r"columns n: int64, text: string, got n: int64$"):
        store.put(0, hashes(1), np.zeros(1, np.int64), other)
    assert not store.generations()


def test_a_snapshot_of_other_columns_is_refused(store: ColumnStore) -> None:
    store.put(0, hashes(1), np.zeros(1, np.int64), rows(1))
    shelf = Kept()
    store.snapshot().write(shelf)
    other = open_column_store("memory", pa.schema([("n", pa.int64())]))
    with pytest.raises(DataError, match="has the columns n: int64, text: string by hash"):
        other.restore([shelf], ALL_HASHES)


def test_a_store_needs_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    with pytest.raises(StorageError, match="holds other; a store begins in an empty folder"):
        open_column_store("arrow", SCHEMA, tmp_path)
    with pytest.raises(StorageError, match="can't hold state: Not a directory"):
        open_column_store("arrow", SCHEMA, tmp_path / "other" / "store")
    with pytest.raises(ConfigError, match="arrow needs a folder"):
        open_column_store("arrow", SCHEMA)
    with pytest.raises(ConfigError, match="a column store is memory or arrow, not 'tonbo'"):
        open_column_store("tonbo", SCHEMA)


@pytest.mark.parametrize("engine", ["memory", "arrow"])
def test_a_killed_store_has_the_rows_of_its_last_complete_checkpoint(
    engine: str, tmp_path: Path
) -> None:
    """SIGKILL, 50 times, at any moment; a checkpoint that it ends is as if it had never begun."""
    command = [sys.executable, "-m", "tests.support.killed_store", engine, str(tmp_path), "50"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    n_checkpoints, n_amid = map(int, done.stdout.split())
    assert n_checkpoints > 30
    assert n_amid > 5
