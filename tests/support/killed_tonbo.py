"""A Tonbo store whose process is killed again and again, and what it has when it is opened then.

One job: ``python -m tests.support.killed_tonbo FOLDER N``. Each round forks a writer, which opens
the store, puts and removes rows, and acknowledges each step through a pipe; it is killed at some
moment with SIGKILL. The store must then have exactly what the acknowledged steps made, and of the
next step all or nothing. Prints how many steps were acknowledged and how many sorted files there
are in the end.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pyarrow as pa
from fabric_tonbo import Store

SCHEMA = pa.schema([("key", pa.binary()), ("n", pa.int64())])
N_KEYS = 300
Rows = dict[int, int]
"""A number by key."""


def opened(folder: Path, seed: int) -> Store:
    """The store; every other round nothing is synced, for the kernel outlives the process."""
    return Store.open(folder / "store", SCHEMA, "key", sync=seed % 2 == 0, seal_batches=4)


def step(seed: int, number: int) -> tuple[list[int], list[bool]]:
    """Which keys a step of a round changes, and which of them it removes."""
    chance = random.Random(seed * 1_000_000 + number)
    keys = chance.sample(range(N_KEYS), chance.randrange(1, 40))
    removes = chance.random() < 0.5
    return keys, [removes and key % 2 == 0 for key in keys]


def changed(rows: Rows, seed: int, number: int) -> Rows:
    """The rows after a step."""
    after = dict(rows)
    for key, is_gone in zip(*step(seed, number), strict=True):
        after.pop(key, None)
        if not is_gone:
            after[key] = seed * 1_000_000 + number
    return after


def write(folder: Path, seed: int, to: int) -> None:
    """Never returns."""
    store, number = opened(folder, seed), 0
    while True:
        keys, gone = step(seed, number)
        column = pa.array([b"%04d" % key for key in keys], pa.binary())
        numbers = pa.array([seed * 1_000_000 + number] * len(keys))
        store.put(pa.record_batch([column, numbers], schema=SCHEMA), pa.array(gone))
        os.write(to, b".")
        number += 1


def found(store: Store) -> Rows:
    """What is there."""
    table = store.scan().read_all().to_pydict()
    return {int(key): n for key, n in zip(table["key"], table["n"], strict=True)}


def main(folder: Path, n_rounds: int) -> None:
    """All rounds; an AssertionError where the store is not what it should be."""
    chance, rows, n_steps = random.Random(1), Rows(), 0
    for seed in range(n_rounds):
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(reading)
            write(folder, seed, writing)
        os.close(writing)
        n_acknowledged, wanted = 0, chance.randrange(25)
        while n_acknowledged < wanted:
            got = os.read(reading, 1 << 16)
            assert got, f"the writer of round {seed} has ended"
            n_acknowledged += len(got)
        time.sleep(chance.uniform(0.0, 0.03))
        os.kill(pid, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        while got := os.read(reading, 1 << 16):
            n_acknowledged += len(got)
        os.close(reading)
        for number in range(n_acknowledged):
            rows = changed(rows, seed, number)
        store = opened(folder, seed)
        there = found(store)
        store.close(note=False)
        assert there in (rows, changed(rows, seed, n_acknowledged)), f"round {seed}"
        rows, n_steps = there, n_steps + n_acknowledged
    print(n_steps, len(list(folder.rglob("*.parquet"))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
