"""The order of rows: that of a stable sort, however many bits the keys have."""

from __future__ import annotations

import math
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.operators.fragment.aggregates.segments import order_keys
from fabric.operators.fragment.order import has_words, order_of
from fabric.plan.expr import Column, SortKey
from tests.support.arrays import examples

KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3),
    pa.uint64(): st.integers(0, 2**64 - 1) | st.integers(2**63 - 1, 2**63 + 1),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, math.nan, 1.0]),
    pa.float32(): st.floats(width=32),
    pa.date32(): st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    pa.duration("us"): st.timedeltas(timedelta(0), timedelta(5)),
}
KEYS = st.builds(SortKey, st.just(Column("a")), st.booleans(), st.booleans())


@st.composite
def columns(draw: st.DrawFn) -> list[pa.Array]:
    n = draw(st.integers(0, 40))
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4))
    found = []
    for kind in kinds:
        values = draw(st.lists(KINDS[kind], min_size=1, max_size=max(1, n)))
        rows = [draw(st.none() | st.sampled_from(values)) for _ in range(n)]
        found.append(pa.array(rows, kind))
    return found


def oracle(given: list[pa.Array], keys: list[SortKey]) -> list[int]:
    """A stable sort of tuples."""
    parts = []
    for column, key in zip(given, keys, strict=True):
        numbers = iter(order_keys(column.drop_null())[0].tolist())
        sign = -1 if key.descending else 1
        parts.append([
            (int(not value.is_valid) * (1 if key.nulls_last else -1),
             sign * next(numbers) if value.is_valid else 0)
            for value in column
        ])  # fmt: skip
    rows = list(zip(*parts, strict=True))
    return sorted(range(len(rows)), key=rows.__getitem__)


@examples(2.0)
@given(columns(), st.lists(KEYS, min_size=4, max_size=4))
def test_a_stable_sort(given: list[pa.Array], keys: list[SortKey]) -> None:
    chosen = keys[: len(given)]
    assert order_of(given, chosen).tolist() == oracle(given, chosen)


@pytest.mark.parametrize("n_keys", [1, 2, 5])
def test_keys_of_more_bits_than_a_word_has(n_keys: int) -> None:
    """Most rows are told apart by the last bits of the last key only."""
    rng = np.random.default_rng(seed=1)
    made = [pa.array(rng.integers(0, 3, 5000) << 61) for _ in range(n_keys - 1)]
    made.append(pa.array((rng.integers(0, 2, 5000) << 62) + rng.integers(0, 300, 5000)))
    keys = [SortKey(Column("a"), i % 2 == 1) for i in range(n_keys)]
    assert order_of(made, keys).tolist() == oracle(made, keys)


def test_what_has_words() -> None:
    for dtype in KINDS:
        assert has_words(dtype)
    for dtype in (pa.string(), pa.decimal128(5), pa.month_day_nano_interval(), pa.binary()):
        assert not has_words(dtype)
