"""Any history of puts, removals, snapshots, crashes, rescaling: column stores agree with a list."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fabric.operators.snapshots import key_groups
from fabric.state.backend import Snapshot
from fabric.state.column_stores import (
    ALL_TIMES,
    ColumnStore,
    Order,
    open_column_store,
    run_files,
    runs,
    scans,
    tonbo,
    tonbo_generation,
)
from tests.support.sampled import SOAK
from tests.support.states import Shelf

ENGINES = ("memory", "arrow", "tonbo")
SCHEMA = pa.schema([
    ("n", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.int32())),
])  # fmt: skip
GROUP = 1 << 49
"""So many hashes are of one key group."""
HASHES = [0, 1, 5, GROUP - 1, GROUP, 3 * GROUP, 1 << 63, (1 << 63) + 1, (1 << 64) - 1]
HASH = st.sampled_from(HASHES)
TIME = st.sampled_from([-(1 << 63), -7, 0, 1, 2, 3, 1_000, (1 << 63) - 1])
GENERATION = st.integers(0, 2)
PAIRS = st.lists(st.tuples(HASH, TIME), max_size=12)


@dataclass(frozen=True)
class Row:
    generation: int
    hash: int
    time: int
    n: int

    @property
    def values(self) -> dict[str, Any]:
        """What is stored, made of the number alone."""
        text = None if self.n % 3 == 0 else "ä" * (self.n % 5)
        return {"n": self.n, "text": text, "list": None if self.n % 4 == 0 else [self.n % 7] * 2}


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    hashes, times = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(hashes, np.uint64), np.array(times, np.int64)


class Histories(RuleBasedStateMachine):
    engine: str
    n_steps = 0

    @invariant()
    def counted(self) -> None:
        type(self).n_steps += 1

    @initialize(n=st.integers(1, 3), order=st.sampled_from(["hash", "time"]))
    def begin(self, n: int, order: Order) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="fabric-test-"))
        self.order, self.n_stores, self.n_rows = order, 0, 0
        self.rows: list[Row] = []
        self.shared: dict[str, bytes] = {}
        self.taken: tuple[list[Shelf], list[Row]] = [], []
        self.tasks = [self.opened(self.engine) for _ in range(n)]

    def opened(self, engine: str) -> ColumnStore:
        self.n_stores += 1
        folder = self.home / str(self.n_stores)
        return open_column_store(engine, SCHEMA, folder, order=self.order)

    def task_of(self, hash: int) -> int:
        n = len(self.tasks)
        return next(i for i in range(n) if hash // GROUP in key_groups(i, n))

    def teardown(self) -> None:
        if not hasattr(self, "home"):
            return
        for store in self.tasks:
            store.close()
        self.tasks.clear()
        left = [path for path in self.home.rglob("*") if path.is_file()]
        shutil.rmtree(self.home)
        assert not left

    # ---- changes

    @rule(generation=GENERATION, pairs=PAIRS, replaces=st.booleans())
    def put(self, generation: int, pairs: list[tuple[int, int]], replaces: bool) -> None:
        new = []
        for hash, time in pairs:
            self.n_rows += 1
            new.append(Row(generation, hash, time, self.n_rows))
        for i, store in enumerate(self.tasks):
            mine = [row for row in new if self.task_of(row.hash) == i]
            hashes, times = arrays([(row.hash, row.time) for row in mine])
            rows = pa.RecordBatch.from_pylist([row.values for row in mine], schema=SCHEMA)
            store.put(generation, hashes, times, rows, replaces=replaces)
        if replaces:
            self.forget(generation, pairs)
        self.rows += new

    @rule(generation=GENERATION, pairs=PAIRS)
    def remove(self, generation: int, pairs: list[tuple[int, int]]) -> None:
        for i, store in enumerate(self.tasks):
            store.remove(generation, *arrays([p for p in pairs if self.task_of(p[0]) == i]))
        self.forget(generation, pairs)

    @rule(hashes=st.lists(HASH, unique=True))
    def take(self, hashes: list[int]) -> None:
        for i, store in enumerate(self.tasks):
            mine = [r for r in self.rows if r.hash in hashes and self.task_of(r.hash) == i]
            mine.sort(key=lambda row: (row.generation, *self.place(row), row.n))
            found = store.take(np.array(hashes, np.uint64))
            assert [h for each in found for h in each.hashes.tolist()] == [r.hash for r in mine]
            assert [t for each in found for t in each.times.tolist()] == [r.time for r in mine]
            assert [v for each in found for v in each.rows.to_pylist()] == [r.values for r in mine]
            assert len(found) == len({row.generation for row in mine})
        self.rows = [row for row in self.rows if row.hash not in hashes]

    @rule(generation=GENERATION)
    def drop(self, generation: int) -> None:
        for store in self.tasks:
            store.drop(generation)
        self.rows = [row for row in self.rows if row.generation != generation]

    @rule(before=TIME)
    def expire(self, before: int) -> None:
        for store in self.tasks:
            store.expire(before)
        self.rows = [row for row in self.rows if row.time >= before]

    def forget(self, generation: int, pairs: list[tuple[int, int]]) -> None:
        gone = {(generation, *pair) for pair in pairs}
        self.rows = [r for r in self.rows if (r.generation, r.hash, r.time) not in gone]

    # ---- questions

    @rule(
        generations=st.none() | st.sets(GENERATION),
        times=st.just(ALL_TIMES) | st.tuples(TIME, TIME.map(lambda t: t + 1)),
    )
    def scan(self, generations: Any, times: Any) -> None:
        wanted = [
            row
            for row in self.rows
            if (generations is None or row.generation in generations)
            and times[0] <= row.time < times[1]
        ]
        for i, store in enumerate(self.tasks):
            mine = [row for row in wanted if self.task_of(row.hash) == i]
            mine.sort(key=lambda row: (*self.place(row), row.generation, row.n))
            found = list(store.scan(generations, times=times))
            assert [h for each in found for h in each.hashes.tolist()] == [r.hash for r in mine]
            assert [t for each in found for t in each.times.tolist()] == [r.time for r in mine]
            assert [v for each in found for v in each.rows.to_pylist()] == [r.values for r in mine]
            assert all(each.rows.schema.names == SCHEMA.names for each in found)

    def place(self, row: Row) -> tuple[int, int]:
        return (row.hash, row.time) if self.order == "hash" else (row.time, row.hash)

    @rule()
    def told(self) -> None:
        for i, store in enumerate(self.tasks):
            mine = {row.generation for row in self.rows if self.task_of(row.hash) == i}
            assert mine <= set(store.generations())
            assert store.stored().rows >= sum(self.task_of(row.hash) == i for row in self.rows)

    # ---- checkpoints

    @rule()
    def snapshot(self) -> None:
        pinned = [store.snapshot() for store in self.tasks]
        self.taken = self.written(pinned, list(self.rows)), list(self.rows)

    @rule(pairs=PAIRS)
    def snapshot_amid_changes(self, pairs: list[tuple[int, int]]) -> None:
        """What comes after a barrier is not in it, whenever it is written."""
        pinned, rows = [store.snapshot() for store in self.tasks], list(self.rows)
        self.put(0, pairs, True)
        self.take([hash for hash, _ in pairs[::2]])
        self.drop(1)
        self.taken = self.written(pinned, rows), rows

    def written(self, pinned: list[Snapshot], rows: list[Row]) -> list[Shelf]:
        """A snapshot counts its rows right, or says that it can't."""
        shelves = [Shelf(self.shared) for _ in pinned]
        for i, (snapshot, shelf) in enumerate(zip(pinned, shelves, strict=True)):
            n_rows = snapshot.write(shelf)
            assert n_rows in (None, sum(self.task_of(row.hash) == i for row in rows))
        return shelves

    @precondition(lambda self: self.taken[0])
    @rule(n=st.integers(1, 3), engines=st.lists(st.sampled_from(ENGINES), min_size=3, max_size=3))
    def crash_and_restore(self, n: int, engines: list[str]) -> None:
        for store in self.tasks:
            store.close()
        self.tasks = [self.opened(engine) for engine in engines[:n]]
        for i, store in enumerate(self.tasks):
            own = key_groups(i, n)
            store.restore(self.taken[0], (own.start * GROUP, own.stop * GROUP))
        self.rows = list(self.taken[1])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that some rows are several blocks, portions and merges."""
    monkeypatch.setattr(run_files, "BLOCK_ROWS", {"hash": 4, "time": 4})
    monkeypatch.setattr(scans, "PORTION_ROWS", 6)
    monkeypatch.setattr(runs, "TIER", {"hash": 3, "time": 3})
    monkeypatch.setattr(runs, "MERGE_BYTES", 9_000)  # larger runs stay, or are rewritten
    monkeypatch.setattr(tonbo, "DEAD_ROWS", 3)
    for name in ("PUT_ROWS", "SEAL_BATCHES", "LOOKED_UP"):
        monkeypatch.setattr(tonbo_generation, name, 3)


@pytest.mark.parametrize("engine", ENGINES)
def test_any_history(engine: str) -> None:
    machine = type("Machine", (Histories,), {"engine": engine})
    n_examples = 1_000 if SOAK else 25
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=n_examples,
            derandomize=not SOAK,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert machine.n_steps >= 34 * n_examples  # type: ignore[attr-defined]
