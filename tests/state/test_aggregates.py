"""Folds beside plain Python, by column and one by one."""

from __future__ import annotations

import functools
import math
from datetime import timedelta
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import DataError, ExpressionError
from fabric.state import Aggregate, StateSpec, open_states
from fabric.state.aggregates import ReducingState
from tests.support.arrays import examples

KEYS = pa.schema([("user", pa.int64())])
FLOATS = st.sampled_from([0.5, -2.0, math.nan, math.inf, -math.inf, 0.0])
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**60), 2**60),
    pa.int8(): st.integers(-9, 9),
    pa.uint64(): st.integers(0, 2**61),
    pa.float64(): FLOATS,
    pa.float32(): FLOATS,
    pa.decimal128(38, 2): st.integers(-(10**30), 10**30).map(lambda n: Decimal(n).scaleb(-2)),
    pa.string(): st.sampled_from(["", "a", "é", "b"]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.time64("us"): st.times(),
    pa.duration("us"): st.integers(-9, 9).map(lambda s: timedelta(seconds=s)),
}
NUMBERS = [
    kind
    for kind in VALUES
    if kind not in (pa.string(), pa.bool_()) and not pa.types.is_temporal(kind)
]


def reducing(dtype: pa.DataType, function: Any) -> ReducingState:
    spec = StateSpec(name="f", kind="reducing", keys=KEYS, dtype=dtype, function=function)
    return open_states("memory", [spec]).state("f")


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def order(value: Any) -> tuple[bool, Any]:
    return (True, 0) if is_nan(value) else (False, value)


def oracle(fold: str, values: list[Any]) -> Any:
    if fold == "sum":
        return functools.reduce(lambda a, b: a + b, values)
    if fold in ("min", "max"):
        return (min if fold == "min" else max)(values, key=order)
    return values[0] if fold == "first" else values[-1]


@examples(3)
@given(st.data(), st.sampled_from(["sum", "min", "max", "first", "last"]))
def test_folds_by_name(data: st.DataObject, fold: str) -> None:
    dtype = data.draw(st.sampled_from(NUMBERS if fold == "sum" else list(VALUES)))
    value = st.none() | VALUES[dtype]
    batches = data.draw(
        st.lists(st.lists(st.tuples(st.integers(0, 2), value), max_size=5), max_size=4)
    )
    by_column, one_by_one = reducing(dtype, fold), reducing(dtype, fold)
    for batch in batches:
        keys = pa.array([key for key, _ in batch], pa.int64())
        by_column.add_many([keys], pa.array([value for _, value in batch], dtype))
        for key, own in batch:
            one_by_one.add(key, own)
    for key in range(3):
        values = [own for batch in batches for k, own in batch if k == key and own is not None]
        with localcontext(prec=60):
            wanted = oracle(fold, values) if values else None
        for found in (by_column.get(key), one_by_one.get(key)):
            assert found == wanted or (is_nan(found) and is_nan(wanted))


@pytest.mark.parametrize("dtype", [pa.int64(), pa.int8(), pa.uint64(), pa.decimal128(3, 0)])
def test_a_sum_that_does_not_fit_is_an_error(dtype: pa.DataType) -> None:
    largest = {pa.int64(): 2**63 - 1, pa.int8(): 127, pa.uint64(): 2**64 - 1}.get(dtype, 999)
    if pa.types.is_decimal(dtype):
        largest = Decimal(largest)  # type: ignore[assignment]
    state = reducing(dtype, "sum")
    state.add(1, largest)
    one, two = pa.array([largest], dtype), pa.array([largest] * 2, dtype)
    for add in (
        lambda: state.add(1, largest),
        lambda: state.add_many([pa.array([1])], one),
        lambda: state.add_many([pa.array([2, 2])], two),
    ):
        with pytest.raises(ExpressionError, match=r"state 'f': a sum does not fit"):
            add()
    assert (state.get(1), state.get(2)) == (largest, None)


def test_what_is_no_value_is_refused() -> None:
    state = reducing(pa.int64(), "sum")
    state.add(1, 1)
    for wrong in ("x", 1.5):
        with pytest.raises(DataError, match="state 'f'"):
            state.add(1, wrong)
    with pytest.raises(DataError, match="wanted is a column of int64"):
        state.add_many([pa.array([1])], pa.array(["x"]))
    text = reducing(pa.string(), lambda a, b: 7)
    text.add(1, "a")
    with pytest.raises(DataError, match="state 'f'"):
        text.add_many([pa.array([1])], pa.array(["x"]))
    half = reducing(pa.int64(), lambda a, b: (a + b) / 2)
    half.add_many([pa.array([1, 1])], pa.array([1, 3]))
    assert half.get(1) == 2
    with pytest.raises(DataError, match=r"state 'f': 2\.5 is not whole"):
        half.add_many([pa.array([1])], pa.array([3]))


@examples(1)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.text(max_size=2)), max_size=5), max_size=3)
)
def test_functions_of_two_values(batches: list[list[tuple[int, str]]]) -> None:
    by_column, one_by_one = (reducing(pa.string(), lambda a, b: f"{a},{b}") for _ in range(2))
    for batch in batches:
        keys = pa.array([key for key, _ in batch], pa.int64())
        by_column.add_many([keys], pa.array([value for _, value in batch], pa.string()))
        for key, value in batch:
            one_by_one.add(key, value)
    for key in range(3):
        values = [value for batch in batches for k, value in batch if k == key]
        wanted = ",".join(values) if values else None
        assert by_column.get(key) == one_by_one.get(key) == wanted


def test_an_aggregate_of_columns() -> None:
    calls = []

    def columns(old: pa.Array, indices: Any, values: pa.Array) -> pa.Array:
        calls.append(len(values))
        found = old.fill_null(0).to_numpy().copy()
        for i, value in zip(indices, values.to_pylist(), strict=True):
            found[i] += len(value)
        return pa.array(found)

    length = Aggregate(
        create=lambda: 0, add=lambda n, text: n + len(text), columns=columns,
        result=lambda n: f"{n} letters", result_dtype=pa.string(),
    )  # fmt: skip
    spec = StateSpec(name="a", kind="aggregating", keys=KEYS, dtype=pa.int64(), function=length)
    state = open_states("memory", [spec]).state("a")
    state.add_many([pa.array([1, 2, 1])], pa.array(["ab", "c", "d"]))
    state.add(1, "xyz")
    assert state.get_many([pa.array([1, 2, 3])]).to_pylist() == ["6 letters", "1 letters", None]
    assert (state.get(1), state.get(3), calls) == ("6 letters", None, [3])
