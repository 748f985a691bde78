"""One key of a value state at a time, from Python: "memory get", "memory set", "rocksdb get|set".

Keys are int64 in random order: 100,000 of them with an int64 in memory, 200,000 with a text of 100
bytes in RocksDB, on disk before the first call. A call is `ValueState.get` or `put` as a user's
function makes it: key and value to bytes, the look-up, and the value back to Python.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.harness import Case, Engine
from bench.kernels.latency import CALLS, Latency
from fabric.state import BackendName, StateStore
from fabric.state.kinds import ValueState

N_KEYS: dict[BackendName, int] = {"memory": 100_000, "rocksdb": 200_000}
NAMES = {f"{backend} {verb}": (backend, verb) for backend in N_KEYS for verb in ("get", "set")}


def cases(quick: bool) -> list[Case]:
    return [
        Case(name, CALLS, 0, {"backend": backend, "verb": verb})
        for name, (backend, verb) in NAMES.items()
    ]


def engines(case: Case) -> list[Engine]:
    return [Engine(None, "bench.kernels.state:Accesses")]


class Accesses(Latency):
    """Of a store in a folder of its own."""

    def __init__(self, case: Case) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fabric-bench-")
        self._backend: BackendName = case.parameters["backend"]
        backend = self._backend
        n_keys = N_KEYS[backend]
        self._values = [self._value(backend, n) for n in range(n_keys)]
        self._order = np.random.default_rng(1).permutation(n_keys).tolist()
        self._store, state = filled(backend, Path(self._folder.name), self._values)
        self._state = state
        self._last: object = None
        verb = {"get": self._get, "set": self._put}[case.parameters["verb"]]
        super().__init__(verb(), self._sum)

    @staticmethod
    def _value(backend: BackendName, n: int) -> object:
        return n * 3 if backend == "memory" else f"{n:0100d}"

    def _get(self) -> Callable[[int], None]:
        get, order, n_keys = self._state.get, self._order, len(self._order)

        def one(i: int) -> None:
            self._last = get(order[i % n_keys])

        return one

    def _put(self) -> Callable[[int], None]:
        put, order, n_keys = self._state.put, self._order, len(self._order)
        given = [
            self._value(self._backend, key) for key in order
        ]  # where they lie is no matter here

        def one(i: int) -> None:
            put(order[i % n_keys], given[i % n_keys])

        return one

    def _sum(self) -> str:
        assert self._last is None or self._last in self._values
        keys = pa.array(np.arange(len(self._values)))
        assert self._state.get_many([keys]).to_pylist() == self._values
        return "agrees"

    def close(self) -> None:
        super().close()
        self._store.close()
        self._folder.cleanup()


def filled(
    backend: BackendName, folder: Path, values: list[object]
) -> tuple[StateStore, ValueState]:
    """A store with these values; RocksDB has them on disk."""
    from fabric.state import StateSpec, open_states

    column = pa.array(values)
    keys = pa.schema([("key", pa.int64())])
    spec = StateSpec(name="value", kind="value", keys=keys, dtype=column.type)
    store = open_states(backend, [spec], folder / "state")
    store.state("value").put_many([pa.array(np.arange(len(values)))], column)
    store.snapshot()  # which writes what is in memory
    return store, store.state("value")
