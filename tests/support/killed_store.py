"""A column store whose process is killed again and again, and what its checkpoints have then.

One job: ``python -m tests.support.killed_store ENGINE FOLDER N``. Each round forks a writer, which
goes on from the last complete checkpoint with puts, removals and checkpoints, and kills it at some
moment with SIGKILL. The last complete checkpoint must then have exactly the rows that the writer
noted before it completed it. Prints how many checkpoints there were, and how many kills came while
one was written.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from fabric.checkpoint.manifest import Manifest, TaskSnapshot
from fabric.checkpoint.storage import FolderStorage
from fabric.state.column_stores import ALL_HASHES, ColumnStore, Order, open_column_store, runs

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
JOB, NODE, N_KEYS = "job-1", "sum", 500
Rows = dict[int, list[int]]
"""The numbers that were put, by hash."""


class Writer:
    """Changes a store, and checkpoints it, until it is killed."""

    def __init__(self, engine: str, home: Path, order: Order, seed: int) -> None:
        self._home, self._random, self._n = home, random.Random(seed), seed * 1_000_000
        self._attempt = seed
        self._storage = FolderStorage(home / "checkpoints")
        self._store = open_column_store(engine, SCHEMA, home / "stores" / str(seed), order=order)
        self._checkpoint = restored(self._storage, self._store)
        self._rows = noted(home, self._checkpoint)

    def run(self) -> None:
        """Never returns."""
        while True:
            for _ in range(self._random.randrange(1, 6)):
                self._change()
            self._checkpoint += 1
            self._store_checkpoint()

    def _change(self) -> None:
        keys = self._random.choices(range(N_KEYS), k=self._random.randrange(1, 60))
        hashes = np.array(keys, np.uint64) << np.uint64(54)
        if self._random.random() < 0.4:
            self._store.take(hashes)
            for key in keys:
                self._rows.pop(key << 54, None)
            return
        numbers = list(range(self._n, self._n + len(keys)))
        self._n += len(keys)
        rows = pa.record_batch([pa.array(numbers), pa.array(map(str, numbers))], schema=SCHEMA)
        self._store.put(0, hashes, np.array(numbers), rows)
        for hash, number in zip(hashes.tolist(), numbers, strict=True):
            self._rows.setdefault(hash, []).append(number)

    def _store_checkpoint(self) -> None:
        number = self._checkpoint
        note = self._home / f"rows-{number}"
        note.with_suffix(".new").write_text(json.dumps(sorted(self._rows.items())))
        note.with_suffix(".new").rename(note)
        writer = self._storage.writer(JOB, number, NODE, 0, self._attempt)
        self._store.snapshot().write(writer)
        task = TaskSnapshot(NODE, 0, self._attempt, range(128), writer.finish())
        self._storage.commit_manifest(
            Manifest(job=JOB, checkpoint=number, epoch=1, run=0, wall_us=0, tasks=(task,))
        )
        self._storage.retain(JOB, [number - 1, number], number)


def restored(storage: FolderStorage, store: ColumnStore) -> int:
    """Fill a store from the last complete checkpoint; its number, 0: there is none."""
    last = max(storage.checkpoints(JOB), default=0)
    if last:
        manifest = storage.load(JOB, last)
        storage.verify(manifest)
        store.restore([storage.reader(manifest, manifest.tasks[0])], ALL_HASHES)
    return last


def noted(home: Path, checkpoint: int) -> Rows:
    """What a checkpoint must have."""
    return dict(json.loads((home / f"rows-{checkpoint}").read_text())) if checkpoint else {}


def found(store: ColumnStore) -> Rows:
    """What a store has."""
    rows: Rows = {}
    for hashes, times, columns in store.scan():
        numbers = columns.column("n").to_pylist()
        assert columns.column("text").to_pylist() == list(map(str, numbers))
        assert times.tolist() == numbers
        for hash, number in zip(hashes.tolist(), numbers, strict=True):
            rows.setdefault(hash, []).append(number)
    return {hash: sorted(numbers) for hash, numbers in rows.items()}


def main(engine: str, home: Path, n_rounds: int) -> None:
    """All rounds; an AssertionError where a checkpoint is not what it should be."""
    FolderStorage(home / "checkpoints").prepare(JOB)
    chance, n_checkpoints, n_amid, last = random.Random(1), 0, 0, 0
    for seed in range(1, n_rounds + 1):
        order: Order = "hash" if seed <= n_rounds // 2 else "time"
        if seed == n_rounds // 2 + 1:  # stores of the other order can't go on from these
            shutil.rmtree(home / "checkpoints" / JOB)
            FolderStorage(home / "checkpoints").prepare(JOB)
            last = 0
        if (pid := os.fork()) == 0:
            runs.TIER.update({"hash": 2, "time": 2})  # so that merges are met, too
            Writer(engine, home, order, seed).run()
        storage, wanted = FolderStorage(home / "checkpoints"), last + chance.randrange(3)
        while max(storage.checkpoints(JOB), default=0) < wanted:
            assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the writer has ended"
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(pid, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        shutil.rmtree(home / "stores", ignore_errors=True)
        store = open_column_store("memory", SCHEMA, order=order)
        checkpoint = restored(storage, store)
        n_amid += (home / f"rows-{checkpoint + 1}").exists()
        assert found(store) == noted(home, checkpoint), f"checkpoint {checkpoint}, round {seed}"
        assert checkpoint >= last, f"{checkpoint} after {last}"
        n_checkpoints, last = n_checkpoints + checkpoint - last, checkpoint
    print(n_checkpoints, n_amid)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
