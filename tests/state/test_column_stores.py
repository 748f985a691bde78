"""Column stores: bounded memory, damage, full disks, what is refused."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.control.control_pb2 import Checkpointing
from fabric.coordinator.config import CoordinatorConfig
from fabric.errors import ConfigError, DataError, StorageError
from fabric.state import column_stores
from fabric.state.column_stores import (
    ALL_HASHES,
    ColumnStore,
    Order,
    open_column_store,
    rows_of_keys,
    run_files,
    runs,
)
from fabric.state.column_stores.run_files import BLOCK_ROWS
from fabric.state.column_stores.run_index import sorted_places
from fabric.state.column_stores.runs import RunStore
from fabric.state.column_stores.scans import PORTION_ROWS
from fabric.state.column_stores.tonbo import TonboStore
from fabric.state.opened import Keys, opened
from fabric.testing.operators import Kept
from tests.support.disk import mounted
from tests.support.sampled import SOAK

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def rows(n: int, text: str = "text") -> pa.RecordBatch:
    return pa.record_batch({"n": np.arange(n), "text": pa.array([text] * n)}, schema=SCHEMA)


def hashes(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 64, n, np.uint64)


def numbers(store: ColumnStore) -> list[int]:
    return sorted(n for found in store.scan() for n in found.rows.column("n").to_pylist())


_WORDS = st.one_of(st.integers(0, 3), st.integers(0, 1 << 20), st.integers(1 << 40, (1 << 64) - 1))


@given(st.lists(st.tuples(_WORDS, _WORDS), max_size=60))
def test_places_are_sorted_as_numpy_does(places: list[tuple[int, int]]) -> None:
    major, minor = np.array(places, np.uint64).reshape(-1, 2).T
    assert sorted_places(major, minor).tolist() == np.lexsort((minor, major)).tolist()


@pytest.fixture(params=["memory", "arrow", "tonbo"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ColumnStore:
    return open_column_store(request.param, SCHEMA, tmp_path / "store")


@pytest.mark.parametrize(
    ("engine", "n", "order"),
    [("arrow", 1_000_000, "hash"), ("arrow", 1_000_000, "time"), ("tonbo", 200_000, "hash")],
)
def test_a_key_with_a_million_rows_is_scanned_in_portions(
    engine: str, n: int, order: Order, tmp_path: Path
) -> None:
    store = open_column_store(engine, SCHEMA, tmp_path / "store", order=order)
    times = np.random.default_rng(1).permutation(n)
    for begin in range(0, n, n // 5):
        part = times[begin : begin + n // 5]
        store.put(0, np.full(len(part), 7, np.uint64), part, rows(len(part)))
    found = list(store.scan())
    assert np.array_equal(np.concatenate([each.times for each in found]), np.arange(n))
    assert max(len(each.times) for each in found) <= PORTION_ROWS + 8 * BLOCK_ROWS[order]


@pytest.mark.parametrize("order", ["hash", "time"])
@pytest.mark.parametrize(
    ("engine", "n"), [("memory", 200_000), ("arrow", 200_000), ("tonbo", 60_000)]
)
def test_rows_of_equal_hash_and_time_are_in_one_batch(
    engine: str, n: int, order: Order, tmp_path: Path
) -> None:
    store = open_column_store(engine, SCHEMA, tmp_path / "store", order=order)
    for generation in (0, 0, 1):
        store.put(generation, hashes(n), np.zeros(n, np.int64), rows(n))
    found = [each.hashes for each in store.scan()]
    assert len(found) > 1
    assert all(one[-1] != other[0] for one, other in pairwise(found))
    assert sorted(np.concatenate(found).tolist()) == sorted(3 * hashes(n).tolist())


def may_have(store: ColumnStore, wanted: np.ndarray) -> np.ndarray:
    """Which hashes the only generation may have, by its filters."""
    if isinstance(store, RunStore):
        return np.logical_or.reduce([run.index.may_have(wanted) for run in store._runs[0]])
    assert isinstance(store, TonboStore)
    return store._generations[0].may_have(wanted)


def test_looking_keys_up_reads_little(store: ColumnStore) -> None:
    there = hashes(200_000)
    store.put(0, there, np.zeros(len(there), np.int64), rows(len(there)))
    assert may_have(store, there).all()
    assert may_have(store, hashes(100_000, seed=2)).mean() < 0.03
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


def test_tonbo_on_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """It needs room to read as well, for a scan is noted in the manifest."""
    with mounted(tmp_path / "disk", "size=4m") as disk:
        (disk / "other").write_bytes(bytes(2_000_000))
        store = open_column_store("tonbo", SCHEMA, disk / "store")
        store.put(0, hashes(10), np.arange(10), rows(10))
        many = hashes(200_000, seed=2)
        with pytest.raises(StorageError, match=r"tonbo-1 can't be written: .*No space left"):
            store.put(0, many, np.zeros(len(many), np.int64), rows(len(many)))
        with pytest.raises(StorageError, match="No space left"):
            store.put(1, hashes(10), np.arange(10), rows(10))
        (disk / "other").unlink()
        assert numbers(store) == list(range(10))
        store.put(1, hashes(10), np.arange(10), rows(10))
        assert store.generations() == [0, 1]
        store.close()


def test_tonbo_takes_all_that_columns_can_be(tmp_path: Path) -> None:
    """Types that Tonbo can't read back are packed in one column."""
    columns = {
        "price": pa.array([None, Decimal("1.25")], pa.decimal128(9, 2)),
        "at": pa.array([1, None], pa.timestamp("us", "UTC")),
        "n": pa.array([1, 2]),
        "lists": pa.array([[{"a": "b"}], None], pa.list_(pa.struct([("a", pa.string())]))),
        "long": pa.array(["x", "ä"], pa.large_string()),
    }
    given = pa.record_batch(columns)
    store = open_column_store("tonbo", given.schema, tmp_path / "store", order="time")
    store.put(0, hashes(2), np.array([5, 4]), given)
    (found,) = store.scan()
    assert found.rows.equals(given.take([1, 0]))
    (found,) = store.scan(times=(5, 6))
    assert found.rows.equals(given.slice(0, 1))
    views = pa.schema([("text", pa.string_view())])
    with pytest.raises(ConfigError, match=r"tonbo can't store the columns .*; the engine arrow"):
        open_column_store("tonbo", views, tmp_path / "other")
    store.close()


def test_tonbo_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_stores, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"run pip install 'flight-fabric\[tonbo\]', or use"):
        open_column_store("tonbo", SCHEMA, tmp_path)
    with pytest.raises(ConfigError, match="needs the package flight-fabric-tonbo"):
        CoordinatorConfig(home=tmp_path).checkpointing(Checkpointing(state="tonbo"))


def test_a_snapshot_of_a_generation_of_which_all_rows_have_gone(store: ColumnStore) -> None:
    store.put(0, hashes(2), np.array([5, 9]), rows(2))
    store.remove(0, hashes(2)[1:], np.array([9]))
    store.expire(7)
    snapshot, shelf = store.snapshot(), Kept()
    snapshot.write(shelf)
    again = open_column_store("memory", SCHEMA)
    again.restore([shelf], ALL_HASHES)
    assert not numbers(again)
    store.close()


@pytest.mark.parametrize("order", ["hash", "time"])
def test_a_snapshot_counts_the_rows_that_a_scan_would_give(order: Order, tmp_path: Path) -> None:
    """Of a run, two blocks that have others as well are read; where more have, nobody counts."""
    store, n = open_column_store("arrow", SCHEMA, tmp_path / "store", order=order), 200_000
    store.put(0, hashes(n), np.arange(n), rows(n))
    store.remove(0, hashes(n)[-10:], np.arange(n)[-10:])
    shelf = Kept()
    assert store.snapshot().write(shelf) == n - 10
    part = open_column_store("memory", SCHEMA, order=order)
    part.restore([shelf], (0, 1 << 62))
    counted = part.snapshot().write(Kept())
    assert counted == (len(numbers(part)) if order == "hash" else None)
    store.expire(n // 3)
    counted = store.snapshot().write(Kept())
    assert counted == (len(numbers(store)) if order == "time" else None)
    store.close()


def test_tonbo_writes_into_a_snapshot_only_what_changed(tmp_path: Path) -> None:
    store = open_column_store("tonbo", SCHEMA, tmp_path / "store")
    for generation in (0, 1):
        store.put(generation, hashes(100), np.arange(100), rows(100))

    def files() -> set[str]:
        shelf = Kept()
        store.snapshot().write(shelf)
        return {name for name in shelf.files if name.startswith("run-")}

    first = files()
    assert files() == first
    store.take(hashes(100)[:1])  # from both
    second = files()
    assert not first & second
    store.put(1, hashes(1), np.arange(1), rows(1))
    assert len(second & files()) == 1
    store.expire(50)
    assert files() == files()
    shelf = Kept()
    store.snapshot().write(shelf)
    again = open_column_store("memory", SCHEMA)
    again.restore([shelf], ALL_HASHES)
    assert numbers(again) == numbers(store)
    other = open_column_store("tonbo", SCHEMA, tmp_path / "other")
    other.restore([shelf], ALL_HASHES)
    assert numbers(other) == numbers(store)
    then = Kept()
    other.snapshot().write(then)
    assert set(then.files) == set(shelf.files)  # what was restored is not written anew
    for each in (store, other):
        each.close()


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
def test_keys_of_a_snapshot_are_found_where_they_are(
    order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    decode = run_files._decoded
    monkeypatch.setattr(
        run_files, "_decoded", lambda block: decoded.append(len(block)) or decode(block)
    )
    store, n = open_column_store("arrow", SCHEMA, tmp_path / "store", order=order), 3 * 65_536
    there = hashes(n)
    for generation, begin in ((5, 0), (6, n // 3), (6, 2 * n // 3)):
        own = slice(begin, begin + n // 3)
        store.put(generation, there[own], np.arange(n)[own] % 7, rows(n).slice(begin, n // 3))
    store.remove(6, there[n - 2 : n], np.arange(n - 2, n) % 7)
    store.expire(1)
    shelf = Kept()
    store.snapshot().write(shelf)
    snapshot = opened(shelf, tmp_path / "opened")

    def of(*numbers: int) -> dict[int, list[int]]:
        decoded.clear()
        wanted = np.unique(np.append(there[list(numbers)], hashes(50, seed=3)))
        keys = Keys(rows(0), wanted, np.zeros(0, np.uint16))
        return {
            generation: sorted(found.rows.column("n").to_pylist())
            for generation, found in rows_of_keys(snapshot, store, keys)
        }

    asked = (1, 2, 7, n // 3 + 1, n - 9, n - 2)  # times 1, 2, 0, 1, 4; the last one was removed
    wanted = {g: [i for i in asked[:5] if i % 7 and (i < n // 3) == (g == 5)] for g in (5, 6)}
    assert of(*asked) == wanted
    assert of(*asked) == wanted
    assert 0 < len(decoded) <= (6 if order == "time" else 4 * 3)
    assert of() == {}
    assert len(decoded) == 0 or order == "hash"


def test_a_damaged_block_is_found_before_keys_are_looked_up(tmp_path: Path) -> None:
    store = open_column_store("arrow", SCHEMA, tmp_path / "store", order="time")
    store.put(0, hashes(100), np.arange(100), rows(100))
    shelf = Kept()
    store.snapshot().write(shelf)
    (name,) = (each for each in shelf.names() if each.startswith("run-"))
    keys = Keys(rows(0), np.sort(hashes(2)), np.zeros(0, np.uint16))
    for at in (40, len(shelf.files[name]) - 5):
        damaged = bytearray(shelf.files[name].to_pybytes())
        damaged[at] ^= 64
        other = Kept({**shelf.files, name: pa.py_buffer(bytes(damaged))})
        snapshot = opened(other, tmp_path / "opened")
        with pytest.raises((StorageError, DataError), match="is damaged"):
            list(rows_of_keys(snapshot, store, keys))


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
    among = set(there[3].tolist())
    left = [
        n
        for found in store.scan()
        for hash, n in zip(found.hashes.tolist(), found.rows.column("n").to_pylist(), strict=True)
        if hash in among
    ]
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
    with pytest.raises(ConfigError, match="a column store is memory, arrow or tonbo, not 'files'"):
        open_column_store("files", SCHEMA)


@pytest.mark.parametrize("engine", ["memory", "arrow", "tonbo"])
def test_a_killed_store_has_the_rows_of_its_last_complete_checkpoint(
    engine: str, tmp_path: Path
) -> None:
    """SIGKILL at any moment; a checkpoint that it ends is as if it had never begun."""
    n_rounds = 50 if SOAK else 20
    module = "tests.support.killed_store"
    command = [sys.executable, "-m", module, engine, str(tmp_path), str(n_rounds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    n_checkpoints, n_amid = map(int, done.stdout.split())
    assert n_checkpoints > 0.6 * n_rounds
    assert n_amid > 0.1 * n_rounds
