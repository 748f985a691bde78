"""What a state may be, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fabric.errors import ConfigError, DataError, InternalError
from fabric.state import Aggregate, StateSpec, open_states

KEYS = pa.schema([("user", pa.int64())])
COUNT = Aggregate(create=lambda: 0, add=lambda n, _: n + 1)


def spec(**more: Any) -> StateSpec:
    return StateSpec(**{"name": "s", "kind": "value", "keys": KEYS, "dtype": "int64"} | more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"kind": "set"}, "kind is one of value, list, map, reducing, aggregating, not 'set'"),
        ({"kind": "map"}, "key_dtype is given to a map state, and to no other"),
        ({"key_dtype": pa.int64()}, "key_dtype is given to a map state, and to no other"),
        ({"ttl_us": -1}, "ttl_us is 0 or more"),
        ({"ttl_on": "never"}, "ttl_on write or read"),
        ({"function": "sum"}, "a value state can't have function 'sum'"),
        ({"kind": "reducing"}, "a reducing state can't have function None"),
        ({"kind": "reducing", "function": "avg"}, "a fold is one of sum, min, max, first, last"),
        ({"kind": "reducing", "function": "sum", "dtype": "string"}, "string has not"),
        ({"kind": "reducing", "function": COUNT}, "a reducing state can't have function"),
        ({"kind": "aggregating", "function": "sum"}, "an? aggregating state can't have function"),
        ({"dtype": pa.string_view()}, "rows hold plain types"),
        ({"keys": pa.schema([("k", pa.list_(pa.int8()))])}, "keys are flat values"),
        ({"kind": "map", "key_dtype": pa.struct({"a": "int8"})}, "keys are flat values"),
        ({"keys": pa.schema([])}, "one column or more"),
    ],
)
def test_what_can_t_be_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"state 's': .*{message}"):
        spec(**more)


def test_stores_are_asked_for_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a name of its own, got s, s"):
        open_states("memory", [spec(), spec()])
    with pytest.raises(ConfigError, match="'arrow', 'tonbo' or 'auto', not 'redis'"):
        open_states("redis", [spec()])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs a folder"):
        open_states("rocksdb", [spec()])
    store = open_states("memory", [spec()])
    with pytest.raises(InternalError, match=r"no State 't'; declared are s \(value\)"):
        store.state("t")


def test_keys_and_values_of_other_types_are_refused() -> None:
    two = pa.schema([("user", pa.int64()), ("site", pa.string())])
    state = open_states("memory", [spec(keys=two)]).state("s")
    for key in (1, (1,), (1, 2), ("x", "y"), (2**63, "y"), "ab"):
        with pytest.raises(DataError, match="state 's': "):
            state.put(key, 1)
        with pytest.raises(DataError, match="state 's': "):
            state.get(key)
    with pytest.raises(DataError, match="state 's': "):
        state.put((1, "x"), "one")
    with pytest.raises(DataError, match="wanted is a column of int64, got string"):
        state.get_many([pa.array(["1"]), pa.array(["x"])])
    with pytest.raises(DataError, match="wanted is a column of int64, got double"):
        state.put_many([pa.array([1]), pa.array(["x"])], pa.array([1.0]))
    with pytest.raises(DataError, match="state 's': "):
        state.get_many([pa.array([1])])
    assert state.get((1, "x")) is None


def test_a_map_has_no_null_key() -> None:
    state = open_states("memory", [spec(kind="map", key_dtype="string")]).state("s")
    for access in (
        lambda: state.put(1, None, 1),
        lambda: state.get(1, None),
        lambda: state.put_many([pa.array([1])], pa.array([None], pa.string()), pa.array([1])),
    ):
        with pytest.raises(DataError, match="a map's key is never null"):
            access()


@pytest.mark.parametrize(
    "other",
    [
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array(["a", "b", "a"], pa.string_view()),
        pa.array(["a", "b", "a"], pa.large_string()),
        pa.compute.run_end_encode(pa.array(["a", "b", "a"])),
    ],
)
def test_layouts_of_the_same_values_are_taken(other: pa.Array) -> None:
    states = open_states("memory", [spec(keys=pa.schema({"k": "string"}), dtype="string")])
    state = states.state("s")
    state.put_many([other], other)
    assert [state.get("a"), state.get("b")] == ["a", "b"]
    batch = pa.record_batch({"more": [1, 2], "k": ["b", "a"]})
    assert state.get_many(batch).to_pylist() == ["b", "a"]


def test_a_time_to_live_needs_a_time() -> None:
    store = open_states("memory", [spec(ttl_us=5)])
    with pytest.raises(InternalError, match="tell the store the time"):
        store.state("s").put(1, 1)
    store.advance(10)
    store.state("s").put(1, 1)
    store.advance(7)  # it never goes back
    store.state("s").put(2, 2)
    store.advance(14)
    assert store.state("s").get_many([pa.array([1, 2])]).to_pylist() == [1, 2]
    store.advance(15)
    assert store.state("s").get_many([pa.array([1, 2])]).to_pylist() == [None, None]
    assert sum(store.sweep(15) for _ in range(8)) == 2
