"""Groups beside a dictionary of rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.groups import Groups
from tests.support.arrays import examples

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [None, 0, 1, -(2**63), 2**63 - 1]),
    (pa.uint64(), [None, 0, 2**63, 2**64 - 1]),
    (pa.int8(), [None, 0, -128, 127]),
    (pa.bool_(), [None, True, False]),
    (pa.float64(), [None, 0.0, 1.5, -1e300]),
    (pa.float16(), [None, 0.0, 1.5]),
    (pa.string(), [None, "", "a", "b" * 40, "a\0"]),
    (pa.large_string(), [None, "", "a", "b" * 40]),
    (pa.binary(), [None, b"", b"\0", b"\0\0"]),
    (pa.timestamp("us", "UTC"), [None, 0, -1, 10**15]),
    (pa.date32(), [None, 0, 1]),
    (pa.decimal128(38, 2), [None, Decimal("0.00"), Decimal(10) ** 35, -(Decimal(10) ** 35)]),
    (pa.decimal256(76, 0), [None, Decimal(0), Decimal(10) ** 70]),
]


@st.composite
def batches(draw: st.DrawFn) -> list[pa.RecordBatch]:
    chosen = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
    schema = pa.schema([(f"{i}", dtype) for i, (dtype, _) in enumerate(chosen)])
    n_rows = draw(st.integers(0, 60))
    columns = [
        pa.array(draw(st.lists(st.sampled_from(v), min_size=n_rows, max_size=n_rows)), dtype)
        for dtype, v in chosen
    ]
    whole = pa.RecordBatch.from_arrays(columns, schema=schema)
    cut = draw(st.integers(0, n_rows))
    return [whole.slice(0, cut), whole.slice(cut)]


@examples(1)
@given(batches())
def test_equal_rows_have_equal_numbers(parts: list[pa.RecordBatch]) -> None:
    groups = Groups(parts[0].schema)
    known: dict[tuple[Any, ...], int] = {}
    for part in parts:
        rows = list(zip(*(column.to_pylist() for column in part.columns), strict=True))
        numbers = groups.number(part).tolist()
        assert [known.setdefault(row, n) for row, n in zip(rows, numbers, strict=True)] == numbers
        assert sorted(known.values()) == list(range(len(groups)))


def test_many() -> None:
    values = np.random.default_rng(3).integers(-(2**40), 2**40, 300_000)
    batch = pa.record_batch({"a": values, "b": values % 7})
    groups = Groups(batch.schema)
    numbers = groups.number(batch)
    found, places = np.unique(values, return_inverse=True)
    assert len(groups) == len(found)
    assert len(np.unique(numbers.astype(np.int64) * len(found) + places)) == len(found)
    assert (groups.number(batch) == numbers).all()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one key"):
        Groups(pa.schema([]))
    with pytest.raises(RuntimeError, match="list"):
        Groups(pa.schema([("a", pa.list_(pa.int8()))]))
    groups = Groups(pa.schema([("a", pa.int8())]))
    with pytest.raises(ValueError, match="another schema"):
        groups.number(pa.record_batch({"a": [1]}))
    with pytest.raises(ValueError, match="RecordBatch is needed"):
        groups.number(pa.table({"a": pa.array([1], pa.int8())}))  # type: ignore[arg-type]
