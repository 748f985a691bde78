"""How stores of Tonbo end, and what is there then: closed, forked, killed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from fabric_tonbo import Store, StoreError

from tests.support.sampled import SOAK
from tests.support.tonbo_store import SCHEMA, found, key, put_each, rows
from tests.support.wait import wait_until


def writers() -> list[str]:
    """Threads of this process that may write for a store."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended since
            names.append((task / "comm").read_text().strip())
    return [name for name in names if name == "tonbo"]


def test_nobody_writes_once_a_store_is_closed(tmp_path: Path) -> None:
    """What the log's writer and a flush are at is done; what was left undone half the time was."""
    for n in range(10):
        folder = tmp_path / str(n)
        store = Store.open(folder, SCHEMA, "key", sync=False, seal_batches=2)
        assert writers()
        put_each(store, range(9))
        store.close()
        assert writers() == []
        names = [path.name for path in folder.rglob("*") if path.is_file()]
        assert [name for name in names if name.startswith((".tmp-", "lease-"))] == []
        assert [name for name in names if name.endswith(".lock")] == []
        state = json.loads((folder / "wal" / "state.json").read_text())
        assert state["last_frame_seq"] == 2 * 9  # two for each put


def test_closing_amid_a_flush_leaves_no_thread(tmp_path: Path) -> None:
    for n in range(10):
        store = Store.open(tmp_path / str(n), SCHEMA, "key", sync=False, seal_batches=1)
        put_each(store, range(3))
        store.close(note=False)
        assert writers() == []
        shutil.rmtree(tmp_path / str(n))


def put_until_closed(store: Store, begin: int) -> int:
    """The first number that was not put, of those from `begin` on."""
    for number in itertools.count(begin):
        try:
            store.put(rows([number]))
        except ValueError:  # it is closed; all other faults of a store are StoreErrors
            break
    return number


def test_closing_waits_for_puts(tmp_path: Path) -> None:
    """Each is there or refused; and who else closes it waits for whoever does so first."""
    with ThreadPoolExecutor() as pool:
        for n in range(3):
            store = Store.open(tmp_path / str(n), SCHEMA, "key", sync=False, seal_batches=4)
            putting = {begin: pool.submit(put_until_closed, store, begin) for begin in (0, 400_000)}
            wait_until(partial(store.get, key(400_000)))
            for closing in [pool.submit(store.close) for _ in range(2)]:
                closing.result()
                assert writers() == []
            store = Store.open(tmp_path / str(n), SCHEMA, "key", sync=False)
            wanted = [each for begin, put in putting.items() for each in range(begin, put.result())]
            assert found(store) == wanted
            store.close(note=False)


def test_closing_ends_scans_that_are_not_read(tmp_path: Path) -> None:
    store = Store.open(tmp_path, SCHEMA, "key", sync=False)
    for begin in range(0, 200_000, 50_000):
        store.put(rows(range(begin, begin + 50_000)))
    reader = store.scan()
    assert len(reader.read_next_batch()) == 16_384
    store.close()
    with pytest.raises(pa.ArrowInvalid, match="the store was closed while it was read"):
        reader.read_all()
    del reader
    Store.open(tmp_path, SCHEMA, "key").close()


FORKING = """
import os, sys, pyarrow as pa, fabric_tonbo
store = fabric_tonbo.Store.open(sys.argv[1], pa.schema([("key", pa.binary())]), "key")
if os.fork() == 0:
    try:
        store.scan()
    except fabric_tonbo.StoreError as error:
        print(error, flush=True)
    store.close()
    del store
    os._exit(0)
assert os.wait()[1] == 0
store.put(pa.record_batch({"key": pa.array([b"1"], pa.binary())}))
assert store.scan().read_all().num_rows == 1
"""


def test_a_fork_is_told_to_open_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "this is a fork of it; open another one here" in done.stdout


# ---- what a killed process left: each guard with the fault that it is for


@pytest.mark.parametrize("guarded", [True, False])
def test_lock_files_of_a_killed_process(guarded: bool, tmp_path: Path) -> None:
    store = Store.open(tmp_path, SCHEMA, "key")
    store.put(rows(range(3)))
    store.close()
    (tmp_path / "wal" / "state.json.lock").touch()
    (tmp_path / "sst" / ".tmp-1").touch()
    store = Store.open(tmp_path, SCHEMA, "key", without=[] if guarded else ["stale_files"])
    if guarded:
        assert not (tmp_path / "sst" / ".tmp-1").exists()
        store.put(rows(range(3, 6)))
        assert found(store) == list(range(6))
    else:
        with pytest.raises(StoreError, match=rf"{tmp_path} can't be written: .*wal writer"):
            put_each(store, range(3, 30))
    store.close(note=False)


@pytest.mark.parametrize("guarded", [True, False])
def test_leases_of_a_killed_process(guarded: bool, tmp_path: Path) -> None:
    """One that was amid a write of the manifest; Tonbo waits for it, for a minute."""
    manifest = tmp_path / "manifest" / "catalog"
    manifest.mkdir(parents=True)
    (manifest / "head.json.lock").touch()
    with pytest.raises(StoreError, match="precondition failed"):
        Store.open(tmp_path, SCHEMA, "key", without=["stale_files"])
    assert any((manifest / "segments").iterdir())  # the head does not know it
    (manifest / "head.json.lock").unlink()
    lease = {"id": "lease-1", "snapshot_txn_id": 0, "active_txn_id": 1, "kind": "write"}
    expires = {"expires_at_ms": int(1_000 * time.time()) + 600_000}
    (manifest / "leases" / "lease-1.json").write_text(json.dumps(lease | expires))
    if guarded:
        Store.open(tmp_path, SCHEMA, "key").close()
        assert not any((manifest / "leases").iterdir())
    else:
        with pytest.raises(StoreError, match="precondition failed"):
            Store.open(tmp_path, SCHEMA, "key", without=["stale_files"])


def test_a_part_of_the_manifest_that_a_killed_process_left(tmp_path: Path) -> None:
    """Tonbo adopts it beside opening the store, and may lose rows then: the guard is tested."""
    version = tmp_path / "manifest" / "version"
    Store.open(tmp_path, SCHEMA, "key").close()
    head = (version / "head.json").read_bytes()
    store = Store.open(tmp_path, SCHEMA, "key", seal_batches=1)
    store.put(rows([0]))
    store.close()
    (version / "head.json").write_bytes(head)  # it was to be written next
    (tmp_path / "closed.json").unlink()
    segments = sorted((version / "segments").iterdir())
    store = Store.open(tmp_path, SCHEMA, "key", seal_batches=1)
    assert sorted((version / "segments").iterdir()) == segments[:-1]
    assert found(store) == [0]
    store.put(rows([1]))
    store.close()
    store = Store.open(tmp_path, SCHEMA, "key")
    assert found(store) == [0, 1]
    store.close(note=False)


def test_opening_goes_on_after_its_manifest_lost_a_race(tmp_path: Path) -> None:
    """As a recovery of Tonbo's own may hold the lock of its head, somebody else does here."""
    lock = tmp_path / "manifest" / "catalog" / "head.json.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with pytest.raises(StoreError, match=f"{tmp_path} can't be opened: precondition failed"):
        Store.open(tmp_path, SCHEMA, "key", without=["stale_files"])
    with ThreadPoolExecutor() as pool:
        opening, n_locked = pool.submit(Store.open, tmp_path, SCHEMA, "key"), 0
        while n_locked < 3 and not opening.done():  # who tries again removes it first
            if not lock.exists():
                lock.touch()
                n_locked += 1
        store = opening.result()
    store.put(rows(range(3)))
    assert found(store) == [0, 1, 2]
    store.close()


def test_a_killed_store_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    """SIGKILL, again and again, at any moment of puts, removals, flushes and opening."""
    n_rounds = 50 if SOAK else 15
    command = [sys.executable, "-m", "tests.support.killed_tonbo", str(tmp_path), str(n_rounds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    n_acknowledged, n_flushed = map(int, done.stdout.split())
    assert n_acknowledged > 4 * n_rounds
    assert n_flushed > n_rounds // 10
    assert os.listdir(tmp_path) == ["store"]
