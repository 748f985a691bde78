"""The store in memory beside dictionaries, frozen and written to at the same time."""

from __future__ import annotations

import os
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fabric._cython.kernels.rows import RowCodec
from fabric._cython.kernels.value_store import FrozenStore, ValueStore

CODEC = RowCodec(pa.schema([("key", pa.int64())]), True)
ALL_GROUPS = 1 << 15
NUMBER = st.integers(0, 11)
VALUE = st.binary(max_size=40)
Held = dict[tuple[bytes, bytes], bytes]


def row(number: int) -> bytes:
    return CODEC.encode_one(number)


def bytes_of(values: list[bytes]) -> pa.LargeBinaryArray:
    return pa.array(values, pa.large_binary())


def read(frozen: FrozenStore, first: int = 0, end: int = ALL_GROUPS, n_bytes: int = 64) -> Held:
    """All of a view, some bytes at a time; nothing twice."""
    found: Held = {}
    cursor = 0
    while cursor >= 0:
        cursor, *columns = frozen.read(cursor, first, end, n_bytes)
        for key, sub, value in zip(*(column.to_pylist() for column in columns), strict=True):
            assert (key, sub) not in found
            found[key, sub] = value
    return found


class Plain(RuleBasedStateMachine):
    """Without sub-keys."""

    def __init__(self) -> None:
        super().__init__()
        self.store = ValueStore(CODEC)
        self.held: Held = {}
        self.views: list[tuple[FrozenStore, Held]] = []

    @rule(key=NUMBER, value=VALUE)
    def put(self, key: int, value: bytes) -> None:
        self.store.put(row(key), value)
        self.held[row(key), b""] = value

    @rule(rows=st.lists(st.tuples(NUMBER, VALUE), max_size=8))
    def put_many(self, rows: list[tuple[int, bytes]]) -> None:
        keys = [row(key) for key, _ in rows]
        self.store.put_many(bytes_of(keys), bytes_of([value for _, value in rows]))
        for key, (_, value) in zip(keys, rows, strict=True):
            self.held[key, b""] = value

    @rule(key=NUMBER)
    def remove(self, key: int) -> None:
        assert self.store.remove(row(key)) == (self.held.pop((row(key), b""), None) is not None)

    @rule(keys=st.lists(NUMBER, max_size=4))
    def remove_many(self, keys: list[int]) -> None:
        there = [self.held.pop((row(key), b""), None) for key in keys]
        found = self.store.remove_many(bytes_of([row(key) for key in keys]))
        assert found == sum(value is not None for value in there)

    @rule()
    def freeze(self) -> None:
        self.views.append((self.store.freeze(), dict(self.held)))

    @rule(which=st.integers(0, 3))
    def let_go(self, which: int) -> None:
        if which < len(self.views):
            self.views.pop(which)

    @invariant()
    def agrees(self) -> None:
        assert len(self.store) == len(self.held)
        keys = [row(key) for key in range(13)]
        wanted = [self.held.get((key, b"")) for key in keys]
        assert [self.store.get(key) for key in keys] == wanted
        assert self.store.get_many(bytes_of(keys)).to_pylist() == wanted

    @invariant()
    def views_stay(self) -> None:
        for view, held in self.views:
            assert read(view) == held
            cut = 9_000
            assert read(view, 0, cut) | read(view, cut) == held


class Linked(RuleBasedStateMachine):
    """With sub-keys."""

    def __init__(self) -> None:
        super().__init__()
        self.store = ValueStore(CODEC, linked=True)
        self.held: Held = {}
        self.views: list[tuple[FrozenStore, Held]] = []

    @rule(rows=st.lists(st.tuples(NUMBER, NUMBER, VALUE), min_size=1, max_size=8))
    def put(self, rows: list[tuple[int, int, bytes]]) -> None:
        (key, sub, value), *rest = rows
        self.store.put(row(key), value, b"%d" % sub)
        keys = bytes_of([row(key) for key, _, _ in rest])
        subs, values = ([b"%d" % sub for _, sub, _ in rest], [value for _, _, value in rest])
        self.store.put_many(keys, bytes_of(values), bytes_of(subs))
        for key, sub, value in rows:
            self.held[row(key), b"%d" % sub] = value

    @rule(key=NUMBER, sub=NUMBER)
    def remove(self, key: int, sub: int) -> None:
        there = self.held.pop((row(key), b"%d" % sub), None) is not None
        assert self.store.remove(row(key), b"%d" % sub) == there

    @rule(keys=st.lists(NUMBER, min_size=1, max_size=3))
    def clear(self, keys: list[int]) -> None:
        n = self.store.clear(row(keys[0]))
        n += self.store.clear_many(bytes_of([row(key) for key in keys[1:]]))
        before = len(self.held)
        rows = {row(key) for key in keys}
        self.held = {found: value for found, value in self.held.items() if found[0] not in rows}
        assert n == before - len(self.held)

    @rule(drop=st.booleans())
    def freeze(self, drop: bool) -> None:
        self.views = [] if drop else [*self.views, (self.store.freeze(), dict(self.held))]

    @invariant()
    def agrees(self) -> None:
        assert len(self.store) == len(self.held)
        keys = [row(key) for key in range(12)]
        wanted = [
            sorted((sub, value) for (held, sub), value in self.held.items() if held == key)
            for key in keys
        ]
        assert [self.store.children(key) for key in keys] == wanted
        counts, subs, values = self.store.children_many(bytes_of(keys))
        assert counts.tolist() == [len(found) for found in wanted]
        pairs = list(zip(subs.to_pylist(), values.to_pylist(), strict=True))
        assert pairs == [pair for found in wanted for pair in found]

    @invariant()
    def views_stay(self) -> None:
        for view, held in self.views:
            assert read(view) == held


SETTINGS = settings(
    max_examples=500 if os.environ.get("FABRIC_SOAK") else 40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestPlain = Plain.TestCase
TestPlain.settings = SETTINGS
TestLinked = Linked.TestCase
TestLinked.settings = SETTINGS


def numbers(values: np.ndarray) -> pa.LargeBinaryArray:  # type: ignore[type-arg]
    return CODEC.encode([pa.array(values)])


def test_a_large_table_grows_and_shrinks() -> None:
    n = 200_000
    store, keys = ValueStore(CODEC), numbers(np.random.default_rng(1).permutation(n))
    for _ in range(2):
        store.put_many(keys, keys)
    assert len(store) == n
    assert store.get_many(keys).equals(keys)
    assert len(read(store.freeze(), n_bytes=1 << 20)) == n
    assert store.remove_many(keys[: n // 2]) == n // 2
    assert store.get_many(keys).null_count == n // 2
    assert store.get_many(keys[n // 2 :]).equals(keys[n // 2 :])
    assert store.remove_many(keys[n // 2 :]) == n // 2
    assert len(store) == 0


def test_a_view_is_read_while_the_owner_writes() -> None:
    n = 50_000
    store, keys = ValueStore(CODEC), numbers(np.arange(n))
    old, new = bytes_of([b"old"] * n), bytes_of([b"new value"] * n)
    store.put_many(keys, old)
    found: list[Held] = []
    for turn in range(6):
        frozen = store.freeze()
        begun = threading.Barrier(2)

        def look(view: FrozenStore = frozen, begun: threading.Barrier = begun) -> None:
            begun.wait()
            found.append(read(view, n_bytes=1 << 14))

        reader = threading.Thread(target=look)
        reader.start()
        begun.wait()
        store.put_many(keys, new if turn % 2 == 0 else old)
        store.remove_many(keys[: n // 4])
        store.put_many(keys, new if turn % 2 == 0 else old)
        reader.join()
        assert set(found.pop().values()) == {b"old" if turn % 2 == 0 else b"new value"}


def test_memory_comes_back_when_a_view_is_let_go() -> None:
    n = 20_000
    store, keys = ValueStore(CODEC), numbers(np.arange(n))
    store.put_many(keys, keys)
    before = store.nbytes
    frozen = store.freeze()
    store.put_many(keys, bytes_of([b"other"] * n))
    assert store.nbytes > before * 1.4  # both, but one table
    assert len(read(frozen)) == n
    del frozen
    store.put(row(0), b"x")
    assert store.nbytes <= before


def test_a_view_outlives_its_store() -> None:
    store = ValueStore(CODEC)
    store.put(row(1), b"one")
    frozen = store.freeze()
    store.put(row(1), b"two")
    del store
    assert read(frozen) == {(row(1), b""): b"one"}


def test_sweeping_goes_round() -> None:
    store, keys = ValueStore(CODEC), numbers(np.arange(1000))
    times = [i.to_bytes(8, "little") + b"v" for i in range(1000)]
    store.put_many(keys, bytes_of(times))
    found = [store.sweep_shards(499, 1000) for _ in range(5)]
    assert sum(n for n, _ in found) == 500
    assert [done for _, done in found] == [False] * 4 + [True]
    assert store.get_many(keys).to_pylist() == [None] * 500 + times[500:]


@pytest.mark.parametrize(
    ("linked", "call", "message"),
    [
        (False, lambda s, k: s.put_many(k, k[:1]), "2 keys need as many values, got 1"),
        (False, lambda s, k: s.get_many(k, k), "to a linked store, and to no other"),
        (True, lambda s, k: s.get_many(k), "to a linked store, and to no other"),
        (True, lambda s, k: s.get_many(k, k[:1]), "2 keys need as many sub-keys, got 1"),
        (False, lambda s, k: s.children(b""), "has no sub-keys"),
        (False, lambda s, k: s.clear_many(k), "has no sub-keys"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(linked: bool, call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=message):
        call(ValueStore(CODEC, linked), numbers(np.arange(2)))


def test_a_damaged_key_is_an_error() -> None:
    store = ValueStore(CODEC)
    for access in (store.get, store.remove):
        with pytest.raises(RuntimeError, match="ends too soon"):
            access(b"\x01short")
    with pytest.raises(RuntimeError, match="ends too soon"):
        store.put_many(bytes_of([row(1), b"\x01"]), bytes_of([b"a", b"b"]))
    assert len(store) == 0


def test_a_store_wants_a_codec_of_keys() -> None:
    with pytest.raises(TypeError, match="canonical=True"):
        ValueStore(RowCodec(CODEC.schema))
