"""Counts, sums and moments by group beside Python's own arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.accumulators import (
    Count,
    CountAll,
    Moments,
    SumDecimal,
    SumFloat64,
    SumInt64,
)
from tests.support.arrays import FLAT, INTEGERS, arrays, examples, plain_arrays

N_GROUPS = 5
EVERY = np.arange(N_GROUPS, dtype=np.int32)
Rows = list[tuple[np.ndarray[Any, Any], pa.Array]]


@st.composite
def batches(draw: st.DrawFn, column: st.SearchStrategy[pa.Array]) -> Rows:
    """A few batches of a column, and a group (or none) for each row."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(column)
        ids = draw(st.lists(st.integers(-1, N_GROUPS - 1), min_size=len(rows), max_size=len(rows)))
        found.append((np.array(ids, np.int32), rows))
    return found


def in_groups(given_rows: Rows) -> list[list[Any]]:
    """The values of each group that are not null, in order."""
    groups: list[list[Any]] = [[] for _ in range(N_GROUPS)]
    for ids, column in given_rows:
        for number, value in zip(ids.tolist(), column.to_pylist(), strict=True):
            if number >= 0 and value is not None:
                groups[number].append(value)
    return groups


def filled(make: Callable[[], Any], given_rows: Rows) -> Any:
    """One that took in everything, a part of it by way of another one's states."""
    ours, other = make(), make()
    for i, (ids, column) in enumerate(given_rows):
        (ours, other)[i % 2].update(ids, column)
    ours.merge(EVERY, other.states(EVERY))
    return ours


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
@examples(1 / 2)
@given(data=st.data())
def test_sums_of_integers(kind: pa.DataType, data: st.DataObject) -> None:
    rows = data.draw(batches(plain_arrays(kind)))
    sums = [sum(values) if values else None for values in in_groups(rows)]
    ours = filled(SumInt64, rows)
    assert ours.states(EVERY)["sum"].to_pylist() == sums
    if all(total is None or -(2**63) <= total < 2**63 for total in sums):
        results = ours.results(EVERY)
        assert (results.type, results.to_pylist()) == (pa.int64(), sums)
    else:
        with pytest.raises(OverflowError, match="which does not fit 64 bits"):
            ours.results(EVERY)


def test_a_sum_that_comes_back_into_range_is_right() -> None:
    ours, most = SumInt64(), 2**63 - 1
    ours.update(np.zeros(5, np.int32), pa.array([most, most, -most, -most, -1]))
    assert ours.results(EVERY[:1]).to_pylist() == [-1]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@examples(1 / 2)
@given(data=st.data())
def test_sums_of_floats(kind: pa.DataType, data: st.DataObject) -> None:
    rows = data.draw(batches(plain_arrays(kind)))
    ours = SumFloat64()
    for ids, column in rows:
        ours.update(ids, column)
    for total, values in zip(ours.results(EVERY).to_pylist(), in_groups(rows), strict=True):
        expected = 0.0
        for value in values:
            expected += value
        same = (total == expected or math.isnan(expected)) if values else total is None
        assert same
    states = ours.states(EVERY)
    other = SumFloat64()
    other.merge(EVERY, states)
    assert other.states(EVERY).equals(states) or np.isnan(states["sum"].to_numpy(False)).any()


@pytest.mark.parametrize(
    "kind", [pa.decimal32(7, 2), pa.decimal64(15, 2), pa.decimal128(38, 2)], ids=str
)
@examples(1 / 2)
@given(data=st.data())
def test_sums_of_decimals(kind: pa.DataType, data: st.DataObject) -> None:
    rows = data.draw(batches(plain_arrays(kind)))
    sums = [sum(map(Fraction, values)) if values else None for values in in_groups(rows)]
    if any(total is not None and abs(total) >= 10**36 for total in sums):
        with pytest.raises(OverflowError, match="does not fit"):
            filled(lambda: SumDecimal(38, 2), rows).results(EVERY)
        return
    results = filled(lambda: SumDecimal(38, 2), rows).results(EVERY)
    assert results.type == pa.decimal128(38, 2)
    found = results.to_pylist()
    assert [None if total is None else Fraction(total) for total in found] == sums


def test_decimals_of_more_than_128_bits_or_digits_are_refused() -> None:
    most = pa.array([Decimal(10**38 - 1)] * 2, pa.decimal128(38, 0))
    ours = SumDecimal(38, 0)
    ours.update(np.zeros(2, np.int32), most)
    with pytest.raises(OverflowError):
        ours.results(EVERY[:1])
    small = SumDecimal(3, 1)
    small.update(np.zeros(2, np.int32), pa.array([Decimal("99.9")] * 2))
    assert small.states(EVERY[:1])["sum"].to_pylist() == [Decimal("199.8")]
    with pytest.raises(OverflowError, match=r"a sum does not fit decimal128.3, 1."):
        small.results(EVERY[:1])


@examples(2)
@given(rows=batches(arrays().filter(lambda column: not pa.types.is_union(column.type))))
def test_counts_of_every_type(rows: Rows) -> None:
    every = CountAll()
    for ids, _ in rows:
        every.update(ids)
    assert filled(Count, rows).results(EVERY).to_pylist() == list(map(len, in_groups(rows)))
    in_all = [sum(int((ids == number).sum()) for ids, _ in rows) for number in range(N_GROUPS)]
    assert every.results(EVERY).to_pylist() == in_all
    assert every.states(EVERY)["count"].to_pylist() == in_all


@examples()
@given(
    rows=batches(
        st.lists(st.none() | st.floats(-1e3, 1e3).map(lambda x: x + 1e6), max_size=30).map(
            lambda values: pa.array(values, pa.float64())
        )
    )
)
def test_moments(rows: Rows) -> None:
    states = filled(Moments, rows).states(EVERY)
    for number, values in enumerate(in_groups(rows)):
        found = {name: states[name][number].as_py() for name in states.schema.names}
        assert found["count"] == len(values)
        if not values:
            assert set(found.values()) == {0.0}
            continue
        exact = [Fraction(value) for value in values]
        mean = sum(exact) / len(exact)
        assert found["mean"] == pytest.approx(float(mean), rel=1e-12)
        for power, tolerance in ((2, 1e-6), (3, 1e-2), (4, 1e-2)):
            expected = float(sum((value - mean) ** power for value in exact))
            scale = float(sum(abs(value - mean) ** power for value in exact))
            assert found[f"m{power}"] == pytest.approx(expected, abs=tolerance * (1 + scale))


@pytest.mark.parametrize("kind", FLAT, ids=str)
def test_what_can_be_added_up(kind: pa.DataType) -> None:
    column = pa.nulls(3, kind)
    ids = np.zeros(3, np.int32)
    makes: list[tuple[Any, bool]] = [
        (SumInt64(), pa.types.is_integer(kind)),
        (SumFloat64(), pa.types.is_floating(kind) or pa.types.is_integer(kind)
         or pa.types.is_decimal(kind)),
        (SumDecimal(38, 2), pa.types.is_decimal(kind) and kind.scale == 2),
    ]  # fmt: skip
    for ours, allowed in makes:
        if allowed:
            ours.update(ids, column)
            assert ours.results(EVERY[:2]).to_pylist() == [None, None]
        else:
            with pytest.raises(ValueError, match=r"can't add up|have scale 2 here"):
                ours.update(ids, column)


def test_dictionaries_are_added_up_by_value() -> None:
    ours = SumInt64()
    ours.update(np.array([0, 0, 1], np.int32), pa.array([5, 7, 5]).dictionary_encode())
    assert ours.results(EVERY[:2]).to_pylist() == [12, 5]


def test_cleared_groups_are_empty_and_others_are_not() -> None:
    for ours, empty in ((SumInt64(), None), (SumFloat64(), None), (Count(), 0)):
        ours.update(np.array([0, 1, 3], np.int32), pa.array([1, 2, 3]))
        ours.clear(np.array([1, 2, 3000], np.int32))
        assert ours.results(EVERY[:4]).to_pylist() == [1, empty, empty, 3 if empty is None else 1]
    assert SumInt64().results(np.array([100_000], np.int32)).to_pylist() == [None]


def test_growth_keeps_what_is_there() -> None:
    ours, n = SumInt64(), 300_000
    ids = np.random.default_rng(1).permutation(n).astype(np.int32)
    for begin in range(0, n, 10_000):
        some = ids[begin : begin + 10_000]
        ours.update(some, pa.array(some.astype(np.int64) * 3))
    assert (ours.results(np.arange(n, dtype=np.int32)).to_numpy() == np.arange(n) * 3).all()
    assert ours.nbytes < 64 * n


def test_lengths_must_agree_and_ids_exist() -> None:
    ours = SumInt64()
    with pytest.raises(ValueError, match="there are 1 ids, but 2 rows"):
        ours.update(np.zeros(1, np.int32), pa.array([1, 2]))
    with pytest.raises(IndexError, match="there is no group -1"):
        ours.results(np.array([-1], np.int32))
    ours.update(np.zeros(0, np.int32), pa.array([], pa.int64()))
    assert ours.results(np.zeros(0, np.int32)).to_pylist() == []
