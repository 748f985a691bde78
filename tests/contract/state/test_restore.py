"""Snapshots taken over by others: more tasks, fewer, of another backend, with other types."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fabric.errors import InternalError, StateSchemaError, StorageError
from fabric.operators.snapshots import key_groups
from fabric.state import BackendName, StateSpec, StateStore
from fabric.testing.operators import Kept
from tests.support.states import Shelf

Open = Callable[..., StateStore]
KEYS = pa.schema([("user", pa.int64())])
N = 6_000
USERS = np.random.default_rng(3).permutation(N)


def value(dtype: Any = "int64", **more: Any) -> StateSpec:
    return StateSpec(name="n", kind="value", keys=KEYS, dtype=dtype, **more)


LISTS = StateSpec(name="l", kind="list", keys=KEYS, dtype=pa.string())
MAPS = StateSpec(name="m", kind="map", keys=KEYS, dtype=pa.int64(), key_dtype=pa.string())
ALL = [value(), LISTS, MAPS]


def shelved(store: StateStore, shared: dict[str, bytes] | None = None) -> Shelf:
    shelf = Shelf({} if shared is None else shared)
    store.snapshot().write(shelf)
    return shelf


def fill(store: StateStore, groups: range) -> None:
    """What belongs to these groups, in each state."""
    rows = value().key_codec().encode([pa.array(USERS)])
    of_key = (value().key_codec().hashes(rows) >> np.uint64(49)).astype(int)
    own = USERS[(of_key >= groups.start) & (of_key < groups.stop)]
    keys = [pa.array(own)]
    store.state("n").put_many(keys, pa.array(own * 2))
    for turn in ("first", "second"):
        store.state("l").append_many(keys, pa.array([f"{turn} {n}" for n in own]))
        store.state("m").put_many(keys, pa.array([turn] * len(own)), pa.array(own))


def everything(stores: list[StateStore]) -> tuple[dict[Any, Any], ...]:
    found: tuple[dict[Any, Any], ...] = ({}, {}, {})
    for store in stores:
        scans = store.state("n").scan(), store.state("l").scan(), store.state("m").scan()
        for held, scan in zip(found, scans, strict=True):
            for keys, values in scan:
                for user, own in zip(keys["user"].to_pylist(), values.to_pylist(), strict=True):
                    assert user not in held, "two tasks hold the same key"
                    held[user] = own
    return found


WANTED: tuple[dict[Any, Any], ...] = (
    {int(n): int(n) * 2 for n in USERS},
    {int(n): [f"first {n}", f"second {n}"] for n in USERS},
    {int(n): [("first", int(n)), ("second", int(n))] for n in USERS},
)


def tasks(
    opened: Open, n: int, shelves: list[Shelf], other: BackendName | None = None
) -> list[StateStore]:
    stores = []
    for task in range(n):
        stores.append(opened(ALL, other, key_groups=key_groups(task, n)))
        if shelves:
            stores[-1].restore(shelves, key_groups(task, n))
    return stores


def test_two_tasks_become_three_and_one(opened: Open) -> None:
    stores, shared = tasks(opened, 2, []), dict[str, bytes]()
    for task, store in enumerate(stores):
        fill(store, key_groups(task, 2))
    for n in (3, 1, 5, 2):
        stores = tasks(opened, n, [shelved(store, shared) for store in stores])
        assert everything(stores) == WANTED


def test_what_comes_after_a_rescale_counts(opened: Open) -> None:
    """Elements of a list that came from another task have lower numbers than new ones."""
    (one,) = tasks(opened, 1, [])
    fill(one, range(1 << 15))
    stores = tasks(opened, 3, [shelved(one)])
    for task, store in enumerate(stores):
        fill(store, key_groups(task, 3))
    (one,) = tasks(opened, 1, [shelved(store) for store in stores])
    found = everything([one])
    assert found[1] == {n: own * 2 for n, own in WANTED[1].items()}
    assert (found[0], found[2]) == (WANTED[0], WANTED[2])


def test_one_backend_reads_what_the_other_wrote(opened: Open, backend: BackendName) -> None:
    other: BackendName = "memory" if backend == "rocksdb" else "rocksdb"
    stores = tasks(opened, 2, [])
    for task, store in enumerate(stores):
        fill(store, key_groups(task, 2))
    shelves = [shelved(store) for store in stores]
    stores = tasks(opened, 3, shelves, other)
    assert everything(stores) == WANTED
    assert everything(tasks(opened, 1, [shelved(store) for store in stores])) == WANTED


def test_a_snapshot_holds_nothing_that_came_after(opened: Open) -> None:
    (store,) = tasks(opened, 1, [])
    fill(store, range(1 << 15))
    snapshot, shelf = store.snapshot(), Shelf({})
    writer = threading.Thread(target=snapshot.write, args=(shelf,))
    writer.start()
    keys = [pa.array(USERS)]
    store.state("n").put_many(keys, pa.array(USERS))
    store.state("l").clear_many(keys)
    store.state("m").remove_many(keys, pa.array(["first"] * N))
    writer.join()
    assert everything(tasks(opened, 1, [shelf])) == WANTED


def test_snapshots_wait_side_by_side(opened: Open) -> None:
    (store,) = tasks(opened, 1, [])
    snapshots = []
    for n in range(4):
        store.state("n").put(7, n)
        snapshots.append(store.snapshot())
    del snapshots[1]
    for n, snapshot in zip((0, 2, 3), snapshots, strict=True):
        shelf = Shelf({})
        snapshot.write(shelf)
        (other,) = tasks(opened, 1, [shelf])
        assert other.state("n").get(7) == n


def test_a_snapshot_of_nothing(opened: Open) -> None:
    (store,) = tasks(opened, 1, [])
    (store,) = tasks(opened, 1, [shelved(store)])
    assert everything([store]) == ({}, {}, {})


def test_restoring_comes_first(opened: Open) -> None:
    (store,) = tasks(opened, 1, [])
    shelf = shelved(store)
    (other,) = tasks(opened, 1, [])
    other.state("n").put(1, 1)
    with pytest.raises(InternalError, match="before they are used"):
        other.restore([shelf], range(1 << 15))


# --- other types ---------------------------------------------------------------------------------

OLD = pa.struct({"a": pa.int32(), "b": pa.list_(pa.float32())})
NEW = pa.struct({"new": pa.string(), "b": pa.list_(pa.float64()), "a": pa.int64()})
FIRST, LATER = [{"a": 1, "b": [0.5, None]}, {"a": None, "b": None}, None], [
    {"new": None, "b": [0.5, None], "a": 1}, {"new": None, "b": None, "a": None}, None,
]  # fmt: skip


@pytest.mark.parametrize("ttl_us", [0, 100])
@pytest.mark.parametrize("n", [1, 2])
def test_fields_are_added_and_numbers_widen(opened: Open, ttl_us: int, n: int) -> None:
    store = opened([value(OLD, ttl_us=ttl_us)])
    store.advance(50)
    store.state("n").put_many([pa.array([1, 2, 3])], pa.array(FIRST, OLD))
    shelf = shelved(store)
    found, n_left = {}, 0
    for task in range(n):
        new = opened([value(NEW, ttl_us=ttl_us)])
        new.restore([shelf], key_groups(task, n))
        new.advance(149)
        for keys, values in new.state("n").scan():
            found |= dict(zip(keys["user"].to_pylist(), values.to_pylist(), strict=True))
        new.advance(150)
        n_left += sum(len(keys) for keys, _ in new.state("n").scan())
    assert n_left == (0 if ttl_us else 3)
    assert found == dict(zip([1, 2, 3], LATER, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (value(), value("int32"), r"values was int64, is int32"),
        (value(), value("float64"), r"values was int64, is double"),
        (value("string"), value("int64"), r"values was string, is int64"),
        (value(), value(ttl_us=1), r"a time to live was no, is yes"),
        (
            value(pa.struct({"a": pa.int8()})),
            value(pa.struct({"b": pa.int8()})),
            r"struct<a: int8>, is struct<b: int8>",
        ),
        (
            value(pa.struct({"a": pa.int8()})),
            value(pa.struct([pa.field("a", pa.int8()), pa.field("b", pa.int8(), nullable=False)])),
            r"not null",
        ),
        (
            value(),
            StateSpec(name="n", kind="value", keys=pa.schema({"user": "int32"}), dtype="int64"),
            r"keys was user int64, is user int32",
        ),
        (
            value(),
            StateSpec(name="n", kind="list", keys=KEYS, dtype="int64"),
            r"kind was value, is list",
        ),
        (
            StateSpec(name="n", kind="reducing", keys=KEYS, dtype="int64", function="sum"),
            StateSpec(name="n", kind="reducing", keys=KEYS, dtype="int64", function="max"),
            r"fold was sum, is max",
        ),
        (value(), StateSpec(name="other", kind="value", keys=KEYS, dtype="int64"),
         r"holds state 'n' .*which is not declared any more"),
    ],
)  # fmt: skip
def test_all_else_is_refused(opened: Open, old: StateSpec, new: StateSpec, message: str) -> None:
    shelf = shelved(opened([old]))
    with pytest.raises(StateSchemaError, match=message):
        opened([new]).restore([shelf], range(1 << 15))


def test_states_are_dropped_and_added(opened: Open) -> None:
    store = opened(ALL)
    fill(store, range(1 << 15))
    more = StateSpec(name="more", kind="value", keys=KEYS, dtype="string")
    new = opened([more, value()], dropped=["l", "m"])
    new.restore([shelved(store)], range(1 << 15))
    assert new.state("more").get(1) is None
    new.state("more").put(1, "x")
    shelf = shelved(new)
    again = opened([value(), more, LISTS])
    again.restore([shelf], range(1 << 15))
    assert again.state("more").get(1) == "x"
    assert again.state("n").get(8) == 16
    assert again.state("l").get(8) == []  # dropped is dropped


# --- what is damaged -----------------------------------------------------------------------------


def test_something_else_is_refused(opened: Open) -> None:
    other = Kept({"rows.arrow": pa.py_buffer(b"x")})
    with pytest.raises(StorageError, match=r"without state\.json .*holds rows\.arrow"):
        opened(ALL).restore([other], range(1 << 15))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "is not a state of Fabric"),
        (b"[", "is damaged"),
        (b"\xff", "is damaged"),
        (b'{"format": "fabric state", "version": 2}', "version 2, this Fabric reads version 1"),
        (b'{"format": "fabric state", "version": 1}', "is damaged"),
    ],
)
def test_a_damaged_header_is_refused(opened: Open, data: bytes, message: str) -> None:
    with pytest.raises(StorageError, match=message):
        opened(ALL).restore([Kept({"state.json": pa.py_buffer(data)})], range(1 << 15))


def test_damaged_files_are_refused(opened: Open) -> None:
    store = opened(ALL)
    fill(store, range(1 << 15))
    whole = shelved(store)
    for name in whole.names():
        data = bytes(whole.read(name))
        if name.endswith((".json", ".log")) or "options" in name:
            continue
        cut = Kept(dict(whole.files) | {name: pa.py_buffer(data[: len(data) // 2])})
        with pytest.raises(StorageError, match="damaged"):
            opened(ALL).restore([cut], range(1 << 15))
