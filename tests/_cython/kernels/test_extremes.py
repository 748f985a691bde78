"""Least and greatest values by group, of every type, beside Python's min and max."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.accumulators import Max, Min
from tests.support.arrays import FLAT, examples, plain_arrays

N_GROUPS = 4
EVERY = np.arange(N_GROUPS, dtype=np.int32)
UNORDERED = pa.null(), pa.month_day_nano_interval()
ORDERED = [kind for kind in FLAT if kind not in UNORDERED]


def in_order(value: Any) -> Any:
    """What values are compared by: NaN after all numbers, text by its bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


def check(results: pa.Array, expected: list[Any], kind: pa.DataType) -> None:
    results.validate(full=True)
    assert results.type == kind
    assert list(map(in_order, results.to_pylist())) == list(map(in_order, expected))


@pytest.mark.parametrize("kind", ORDERED, ids=str)
@examples(1 / 2)
@given(data=st.data())
def test_every_type(kind: pa.DataType, data: st.DataObject) -> None:
    least, greatest, others = Min(kind), Max(kind), (Min(kind), Max(kind))
    groups: list[list[Any]] = [[] for _ in range(N_GROUPS)]
    for turn in range(data.draw(st.integers(1, 3))):
        column = data.draw(plain_arrays(kind))
        n = len(column)
        ids = data.draw(st.lists(st.integers(-1, N_GROUPS - 1), min_size=n, max_size=n))
        for number, value in zip(ids, column.to_pylist(), strict=True):
            if number >= 0 and value is not None:
                groups[number].append(value)
        for ours in (least, greatest) if turn != 1 else others:
            ours.update(np.array(ids, np.int32), column)
    for ours, other in zip((least, greatest), others, strict=True):
        ours.merge(EVERY, other.states(EVERY))
    best = [min(values, key=in_order, default=None) for values in groups]
    check(least.results(EVERY), best, kind)
    best = [max(values, key=in_order, default=None) for values in groups]
    check(greatest.results(EVERY), best, kind)
    least.clear(EVERY[:2])
    assert least.results(EVERY[:2]).to_pylist() == [None, None]


@pytest.mark.parametrize(
    "kind", [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.int32())], ids=str
)
def test_dictionaries(kind: pa.DictionaryType) -> None:
    column = pa.array([9, 10, None, 7]).cast(kind.value_type).dictionary_encode().cast(kind)
    least = Min(kind)
    least.update(np.array([0, 0, 0, 1], np.int32), column)
    results = least.results(EVERY[:3])
    assert results.type == kind
    assert results.to_pylist() == [min(column.to_pylist()[:2]), column[3].as_py(), None]


def test_groups_by_the_hundred_thousand_that_improve_again_and_again() -> None:
    rng = np.random.default_rng(1)
    for kind in (pa.int64(), pa.string()):
        greatest = Max(kind)
        best: dict[int, Any] = {}
        for _ in range(4):
            ids = rng.integers(0, 50_000, 40_000).astype(np.int32)
            values = pa.array(rng.integers(0, 10**6, 40_000)).cast(kind)
            greatest.update(ids, values)
            for number, value in zip(ids.tolist(), values.to_pylist(), strict=True):
                best[number] = max(best.get(number, value), value)
        every = np.arange(50_000, dtype=np.int32)
        assert greatest.results(every).to_pylist() == [best.get(i) for i in range(50_000)]
        assert greatest.nbytes < 8 << 20


@pytest.mark.parametrize("kind", UNORDERED, ids=str)
def test_what_has_no_order_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match="have no order"):
        Min(kind)


def test_other_types_and_lengths_are_refused() -> None:
    least = Min(pa.int64())
    with pytest.raises(ValueError, match="'value' is int64, got string"):
        least.update(np.zeros(1, np.int32), pa.array(["a"]))
    with pytest.raises(ValueError, match="there are 2 ids, but 1 rows"):
        least.update(np.zeros(2, np.int32), pa.array([1]))
    with pytest.raises(IndexError, match="there is no group -1"):
        least.results(np.array([-1], np.int32))
