"""What was begun can be taken back as if it had never been."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.errors import InternalError
from fabric.state import StateSpec

KEYS = pa.schema({"k": pa.string()})
SPECS = [
    StateSpec(name="value", kind="value", keys=KEYS, dtype="int64"),
    StateSpec(name="list", kind="list", keys=KEYS, dtype="int64"),
    StateSpec(name="map", kind="map", keys=KEYS, dtype="int64", key_dtype="int64"),
    StateSpec(name="sum", kind="reducing", keys=KEYS, dtype="int64", function="sum"),
]
KEY, NUMBER = st.sampled_from("abc"), st.integers(0, 5)
ONE = st.one_of(
    st.tuples(st.just("value"), st.just("put"), KEY, NUMBER),
    st.tuples(st.just("value"), st.just("remove"), KEY),
    st.tuples(st.just("list"), st.just("append"), KEY, NUMBER),
    st.tuples(st.just("list"), st.just("clear"), KEY),
    st.tuples(st.just("map"), st.just("put"), KEY, NUMBER, NUMBER),
    st.tuples(st.just("map"), st.just("remove"), KEY, NUMBER),
    st.tuples(st.just("map"), st.just("clear"), KEY),
    st.tuples(st.just("sum"), st.just("add"), KEY, NUMBER),
    st.tuples(st.just("sum"), st.just("remove"), KEY),
)
MANY = {
    "value": ("put_many", "remove_many"), "list": ("append_many", "clear_many"),
    "map": ("put_many", "remove_many", "clear_many"), "sum": ("add_many", "remove_many"),
}  # fmt: skip
N_COLUMNS = {"put_many": 1, "append_many": 1, "add_many": 1, "remove_many": 0, "clear_many": 0}
BATCH = st.tuples(
    st.sampled_from([(name, call) for name, calls in MANY.items() for call in calls]),
    st.lists(st.tuples(KEY, NUMBER, NUMBER), max_size=6),
)
CALLS = st.lists(st.one_of(ONE, BATCH), max_size=12)


def carry_out(store, call):
    if isinstance(call[0], str):
        name, method, *args = call
        getattr(store.state(name), method)(*args)
        return
    (name, method), rows = call
    n_columns = N_COLUMNS[method] + (name == "map" and method != "clear_many")
    keys, *columns = (
        pa.array([row[i] for row in rows], pa.string() if i == 0 else pa.int64())
        for i in range(1 + n_columns)
    )
    getattr(store.state(name), method)([keys], *columns)


def everything(store):
    found = [[store.state(name).get(key) for name in ("value", "list", "sum")] for key in "abc"]
    return found, [store.state("map").items(key) for key in "abc"]


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(before=CALLS, undone=CALLS, after=CALLS)
def test_what_is_rolled_back_has_not_been(opened, before, undone, after):
    store, plain = opened(SPECS, undo=True), opened(SPECS)
    for call in before:
        carry_out(plain, call)
    store.begin()
    for call in before:
        carry_out(store, call)
    store.commit()
    store.begin()
    for call in undone:
        carry_out(store, call)
    store.rollback()
    assert everything(store) == everything(plain)
    for call in after:
        carry_out(store, call)
        carry_out(plain, call)
    assert everything(store) == everything(plain)


def test_undoing_is_asked_for_when_a_store_is_opened(opened):
    with pytest.raises(InternalError, match="opened with undo=True"):
        opened(SPECS).begin()
