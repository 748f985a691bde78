"""Lists as values and lengths: slices, values behind nulls, too many values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.lists.view import Lists, check_total

ROWS = st.lists(st.none() | st.lists(st.none() | st.integers(0, 3), max_size=4), max_size=6)


@given(rows=ROWS, begin=st.integers(0, 6))
def test_a_slice_comes_back(rows: list[list[int] | None], begin: int) -> None:
    array = pa.array(rows, pa.list_(pa.int32())).slice(begin)
    lists = Lists.of(array)
    back = lists.array()
    back.validate(full=True)
    assert back.to_pylist() == array.to_pylist()
    flat = [(row, place) for row, values in enumerate(array.to_pylist())
            for place, _ in enumerate(values or [])]  # fmt: skip
    assert list(zip(lists.rows.tolist(), lists.places.tolist(), strict=True)) == flat


def test_values_behind_a_null_are_no_values() -> None:
    hidden = pa.ListArray.from_arrays([0, 2, 3], [1, 2, 3], mask=pa.array([True, False]))
    assert Lists.of(hidden).values.to_pylist() == [3]


@given(rows=ROWS)
def test_keep_and_nulled(rows: list[list[int] | None]) -> None:
    lists = Lists.of(pa.array(rows, pa.list_(pa.int32())))
    kept = lists.keep(~lists.missing)
    assert kept.array().to_pylist() == [
        None if row is None else [v for v in row if v is not None] for row in rows
    ]
    even = np.arange(len(rows)) % 2 == 0
    expected = [None if i % 2 == 0 else row for i, row in enumerate(rows)]
    assert lists.nulled(even).array().to_pylist() == expected


def test_more_values_than_arrow_holds_are_refused() -> None:
    check_total((1 << 31) - 1)
    with pytest.raises(ExpressionError, match="overflow: lists of 2147483648 values"):
        check_total(1 << 31)
