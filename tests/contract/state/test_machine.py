"""Any history of accesses, snapshots, crashes, rescaling: stores agree with plain dictionaries."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from fabric.operators.snapshots import key_groups
from fabric.state import Aggregate, BackendName, StateSpec, StateStore, open_states
from fabric.state.backend import Snapshot
from tests.support.states import Shelf, StateModel

KEYS = pa.schema([("user", pa.int64()), ("site", pa.string())])
ALL = [(user, site) for user in (1, None, -7) for site in ("a", "ab", None)]
MEAN = Aggregate(
    create=lambda: {"n": 0, "total": 0},
    add=lambda old, new: {"n": old["n"] + 1, "total": old["total"] + new},
    result=lambda held: held["total"] / held["n"],
    result_dtype=pa.float64(),
)
HELD = pa.struct({"n": pa.int64(), "total": pa.int64()})
SPECS = {
    spec.name: spec
    for spec in (
        StateSpec(name="plain", kind="value", keys=KEYS, dtype=pa.string()),
        StateSpec(name="aged", kind="value", keys=KEYS, dtype=pa.int64(), ttl_us=20),
        StateSpec(name="read", kind="value", keys=KEYS, dtype=pa.int64(), ttl_us=20, ttl_on="read"),
        StateSpec(name="list", kind="list", keys=KEYS, dtype=pa.string()),
        StateSpec(name="aged list", kind="list", keys=KEYS, dtype=pa.int64(), ttl_us=30),
        StateSpec(name="map", kind="map", keys=KEYS, dtype=pa.int64(), key_dtype=pa.string()),
        StateSpec(
            name="read map", kind="map", keys=KEYS, dtype=pa.int64(), key_dtype=pa.string(),
            ttl_us=25, ttl_on="read",
        ),
        StateSpec(name="sum", kind="reducing", keys=KEYS, dtype=pa.int64(), function="sum"),
        StateSpec(name="mean", kind="aggregating", keys=KEYS, dtype=HELD, function=MEAN),
    )
}  # fmt: skip
CODEC = SPECS["plain"].key_codec()
KEY = st.sampled_from(ALL)
SOME = st.lists(KEY, min_size=1, max_size=6)
TEXT = st.sampled_from(["", "x", "some longer text that grows"])
NUMBER = st.integers(-5, 5)
Models = dict[str, StateModel]


def columns(keys: list[Any]) -> list[pa.Array]:
    return [pa.array([key[i] for key in keys], KEYS.field(i).type) for i in range(2)]


class Histories(RuleBasedStateMachine):
    backend: BackendName

    @initialize(n=st.integers(1, 3))
    def begin(self, n: int) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="fabric-test-"))
        self.n_stores, self.now_us = 0, 0
        self.models: Models = {name: StateModel(spec) for name, spec in SPECS.items()}
        self.shared: dict[str, bytes] = {}
        self.pending: tuple[list[Snapshot], list[range], Models] | None = None
        self.complete: tuple[list[Shelf], Models] | None = None
        self.stores: list[StateStore] = []
        self.start(n, [])

    def start(self, n: int, snapshots: list[Shelf]) -> None:
        self.stores = []
        for task in range(n):
            self.n_stores += 1
            folder = self.home / str(self.n_stores)
            groups = key_groups(task, n)
            store = open_states(self.backend, list(SPECS.values()), folder, key_groups=groups)
            if snapshots:
                store.restore(snapshots, groups)
            store.advance(self.now_us)
            self.stores.append(store)

    def task(self, key: object) -> int:
        rows = pa.array([CODEC.encode_one(key)], pa.large_binary())
        return (int(CODEC.hashes(rows)[0]) >> 49) * len(self.stores) >> 15

    def of(self, key: object) -> StateStore:
        return self.stores[self.task(key)]

    def by_task(self, keys: list[Any], *beside: list[Any]) -> list[tuple[Any, ...]]:
        """Rows of each task: the store, the key columns, what lies beside them."""
        found = []
        for task, store in enumerate(self.stores):
            rows = [i for i, key in enumerate(keys) if self.task(key) == task]
            found.append(
                (store, columns([keys[i] for i in rows]), *([c[i] for i in rows] for c in beside))
            )
        return found

    # --- accesses -------------------------------------------------------------------------------

    @rule(key=KEY, value=TEXT)
    def put(self, key: Any, value: str) -> None:
        self.of(key).state("plain").put(key, value)
        self.models["plain"].put(key, value, now_us=self.now_us)

    @rule(name=st.sampled_from(["aged", "read"]), keys=SOME, first=NUMBER)
    def put_many(self, name: str, keys: list[Any], first: int) -> None:
        values = list(range(first, first + len(keys)))
        for store, own, given in self.by_task(keys, values):
            store.state(name).put_many(own, pa.array(given, pa.int64()))
        for key, value in zip(keys, values, strict=True):
            self.models[name].put(key, value, now_us=self.now_us)

    @rule(name=st.sampled_from(["plain", "aged", "read", "sum", "mean"]), keys=SOME)
    def remove(self, name: str, keys: list[Any]) -> None:
        (first, *rest) = keys
        self.of(first).state(name).remove(first)
        for store, own in self.by_task(rest):
            store.state(name).remove_many(own)
        for key in keys:
            self.models[name].remove(key)

    @rule(key=KEY)
    def read(self, key: Any) -> None:
        model = self.models["read"]
        assert self.of(key).state("read").get(key) == model.get(key, now_us=self.now_us)
        model.renew(key, now_us=self.now_us)

    @rule(keys=SOME)
    def read_many(self, keys: list[Any]) -> None:
        model = self.models["read"]
        for store, own, given in self.by_task(keys, keys):
            found = store.state("read").get_many(own).to_pylist()
            assert found == [model.get(key, now_us=self.now_us) for key in given]
        for key in keys:
            model.renew(key, now_us=self.now_us)

    @rule(key=KEY, value=TEXT)
    def append(self, key: Any, value: str) -> None:
        self.of(key).state("list").append(key, value)
        self.models["list"].append(key, value, now_us=self.now_us)

    @rule(keys=SOME, first=NUMBER)
    def append_many(self, keys: list[Any], first: int) -> None:
        values = list(range(first, first + len(keys)))
        for store, own, given in self.by_task(keys, values):
            store.state("aged list").append_many(own, pa.array(given, pa.int64()))
        for key, value in zip(keys, values, strict=True):
            self.models["aged list"].append(key, value, now_us=self.now_us)

    @rule(key=KEY, values=st.lists(TEXT, max_size=3))
    def replace(self, key: Any, values: list[str]) -> None:
        self.of(key).state("list").put(key, values)
        self.models["list"].clear(key)
        for value in values:
            self.models["list"].append(key, value, now_us=self.now_us)

    @rule(name=st.sampled_from(["list", "aged list", "map", "read map"]), keys=SOME)
    def clear(self, name: str, keys: list[Any]) -> None:
        (first, *rest) = keys
        self.of(first).state(name).clear(first)
        for store, own in self.by_task(rest):
            store.state(name).clear_many(own)
        for key in keys:
            self.models[name].clear(key)

    @rule(name=st.sampled_from(["map", "read map"]), keys=SOME, sub=TEXT, first=NUMBER)
    def put_entries(self, name: str, keys: list[Any], sub: str, first: int) -> None:
        subs = [sub[i:] for i in range(len(keys))]
        values = list(range(first, first + len(keys)))
        for store, own, subs_given, given in self.by_task(keys, subs, values):
            store.state(name).put_many(
                own, pa.array(subs_given, pa.string()), pa.array(given, pa.int64())
            )
        for key, own_sub, value in zip(keys, subs, values, strict=True):
            self.models[name].put(key, value, now_us=self.now_us, sub=own_sub)

    @rule(key=KEY, sub=TEXT, value=NUMBER)
    def put_entry(self, key: Any, sub: str, value: int) -> None:
        self.of(key).state("map").put(key, sub, value)
        self.models["map"].put(key, value, now_us=self.now_us, sub=sub)

    @rule(keys=SOME, sub=TEXT)
    def remove_entries(self, keys: list[Any], sub: str) -> None:
        (first, *rest) = keys
        self.of(first).state("map").remove(first, sub)
        for store, own, given in self.by_task(rest, [sub] * len(rest)):
            store.state("map").remove_many(own, pa.array(given, pa.string()))
        for key in keys:
            self.models["map"].remove(key, sub)

    @rule(key=KEY, sub=TEXT)
    def read_entry(self, key: Any, sub: str) -> None:
        model = self.models["read map"]
        wanted = model.get(key, now_us=self.now_us, sub=sub)
        assert self.of(key).state("read map").get(key, sub) == wanted
        if wanted is not None:
            model.put(key, wanted, now_us=self.now_us, sub=sub)

    @rule(keys=st.lists(KEY, min_size=1, max_size=3, unique=True))
    def read_maps(self, keys: list[Any]) -> None:
        model = self.models["read map"]
        for store, own, given in self.by_task(keys, keys):
            found = [dict(held) for held in store.state("read map").items_many(own).to_pylist()]
            assert found == [model.entries(key, now_us=self.now_us) for key in given]
        for key in keys:
            model.renew(key, now_us=self.now_us)

    @rule(name=st.sampled_from(["sum", "mean"]), keys=SOME, first=NUMBER, one=st.booleans())
    def add(self, name: str, keys: list[Any], first: int, one: bool) -> None:
        values = list(range(first, first + len(keys)))
        model = self.models[name]
        for key, value in zip(keys, values, strict=True):
            old = model.get(key, now_us=self.now_us)
            if one:
                self.of(key).state(name).add(key, value)
            if name == "sum":
                new = value if old is None else old + value
            else:
                new = MEAN.add(MEAN.create() if old is None else old, value)
            model.put(key, new, now_us=self.now_us)
        for store, own, given in self.by_task(keys, values) if not one else []:
            store.state(name).add_many(own, pa.array(given, pa.int64()))

    # --- time -----------------------------------------------------------------------------------

    @rule(us=st.integers(1, 12))
    def advance(self, us: int) -> None:
        self.now_us += us
        for store in self.stores:
            store.advance(self.now_us)

    @rule(times=st.sampled_from([1, 8]))
    def sweep(self, times: int) -> None:
        for store in self.stores * times:
            store.sweep(self.now_us)

    # --- snapshots, crashes, more or fewer tasks ------------------------------------------------

    @rule()
    def snapshot(self) -> None:
        self.pending = None
        models = {name: model.copied() for name, model in self.models.items()}
        n = len(self.stores)
        groups = [key_groups(task, n) for task in range(n)]
        self.pending = [store.snapshot() for store in self.stores], groups, models

    @precondition(lambda self: self.pending is not None)
    @rule()
    def write(self) -> None:
        assert self.pending is not None
        snapshots, _, models = self.pending
        shelves = [Shelf(self.shared) for _ in snapshots]
        for snapshot, shelf in zip(snapshots, shelves, strict=True):
            snapshot.write(shelf)
        self.pending, self.complete = None, (shelves, models)

    @rule(n=st.integers(1, 3), other=st.integers(0, 3))
    def crash(self, n: int, other: int) -> None:
        """The processes are gone; the last complete checkpoint comes back, elsewhere."""
        self.pending = None
        shelves, models = self.complete or ([], {name: StateModel(s) for name, s in SPECS.items()})
        if other == 0:
            self.backend = "memory" if self.backend == "rocksdb" else "rocksdb"
        self.models = {name: model.copied() for name, model in models.items()}
        self.start(n, shelves)

    # --- what must hold -------------------------------------------------------------------------

    @invariant()
    def all_agree(self) -> None:
        for store, own, keys in self.by_task(ALL, ALL):
            for name in ("plain", "aged", "sum", "mean"):
                model = self.models[name]
                wanted = [model.get(key, now_us=self.now_us) for key in keys]
                if name == "mean":
                    wanted = [held["total"] / held["n"] if held else None for held in wanted]
                assert store.state(name).get_many(own).to_pylist() == wanted, name
                assert [store.state(name).get(key) for key in keys] == wanted, name
            for name in ("list", "aged list"):
                wanted = [self.models[name].elements(key, now_us=self.now_us) for key in keys]
                assert store.state(name).get_many(own).to_pylist() == wanted, name
                assert [store.state(name).get(key) for key in keys] == wanted, name
            model = self.models["map"]
            wanted = [model.entries(key, now_us=self.now_us) for key in keys]
            assert [dict(held) for held in store.state("map").items_many(own).to_pylist()] == wanted
            assert [store.state("map").items(key) for key in keys] == wanted
            for sub in ("", "x"):
                found = store.state("map").get_many(own, pa.array([sub] * len(keys), pa.string()))
                assert found.to_pylist() == [held.get(sub) for held in wanted]

    @invariant()
    def scans_agree(self) -> None:
        found = {}
        for store in self.stores:
            for keys, values in store.state("plain").scan():
                for row, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
                    found[row["user"], row["site"]] = value
        held = self.models["plain"].held
        assert found == {key: own[None][0] for key, own in held.items() if None in own}

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.home)


SETTINGS = settings(
    max_examples=300 if os.environ.get("FABRIC_SOAK") else 20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class InMemory(Histories):
    backend: BackendName = "memory"


class InRocksDB(Histories):
    backend: BackendName = "rocksdb"


TestMemory = InMemory.TestCase
TestMemory.settings = SETTINGS
TestRocksDB = InRocksDB.TestCase
TestRocksDB.settings = SETTINGS
