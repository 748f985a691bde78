"""Batches cast to what Spark asked for: every value, or a refusal that names the column."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from fabric.clients.spark.casts import conform
from fabric.errors import DataError


def test_columns_by_name() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": ["x", "y"]})
    assert conform(batch, pa.schema([("b", pa.string())])).to_pydict() == {"b": ["x", "y"]}
    assert conform(batch, batch.schema) is batch
    assert conform(batch, pa.schema([])).num_rows == 2


def test_a_column_that_is_not_there() -> None:
    batch = pa.record_batch({"a": [1], "b": ["x"]})
    with pytest.raises(DataError, match="the stream has no column 'c'; it has a, b"):
        conform(batch, pa.schema([("c", pa.int64())]))


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([1 << 40]), pa.int32()),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1], pa.int64()).view(pa.date64()), pa.date32()),
    ],
    ids=["too large", "nanoseconds", "no whole day"],
)
def test_a_value_that_does_not_fit(values: pa.Array, wanted: pa.DataType) -> None:
    message = f"column 'x' of type {values.type} does not fit {wanted}: "
    with pytest.raises(DataError, match=re.escape(message)):
        conform(pa.record_batch({"x": values}), pa.schema([("x", wanted)]))


OTHER_KINDS = [
    (pa.int64(), pa.bool_()),
    (pa.int64(), pa.string()),
    (pa.string(), pa.int64()),
    (pa.bool_(), pa.int8()),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us", "UTC"), pa.timestamp("us")),
    (pa.date32(), pa.timestamp("us")),
    (pa.timestamp("us"), pa.date32()),
    (pa.int64(), pa.duration("us")),
    (pa.float64(), pa.string()),
    (pa.list_(pa.int8()), pa.map_(pa.int8(), pa.int8())),
    (pa.list_(pa.int8()), pa.list_(pa.string())),
    (pa.dictionary(pa.int8(), pa.string()), pa.int64()),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.string())])),
    (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
]


@pytest.mark.parametrize(("dtype", "wanted"), OTHER_KINDS, ids=str)
def test_another_kind_of_value_is_refused(dtype: pa.DataType, wanted: pa.DataType) -> None:
    batch = pa.record_batch([pa.nulls(2, dtype)], ["x"])
    message = f"column 'x' of type {dtype} can't be read as {wanted}, which is another kind"
    with pytest.raises(DataError, match=re.escape(message)):
        conform(batch, pa.schema([("x", wanted)]))


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        (pa.int8(), pa.float64()),
        (pa.float64(), pa.int8()),
        (pa.int64(), pa.decimal128(21, 2)),
        (pa.binary(), pa.string()),
        (pa.timestamp("ns", "Asia/Tokyo"), pa.timestamp("us", "UTC")),
        (pa.null(), pa.int64()),
        (pa.list_(pa.null()), pa.list_(pa.string())),
        (pa.map_(pa.int8(), pa.int8()), pa.map_(pa.int64(), pa.float32())),
    ],
    ids=str,
)
def test_the_same_kind_is_cast(dtype: pa.DataType, wanted: pa.DataType) -> None:
    batch = pa.record_batch([pa.nulls(2, dtype)], ["x"])
    assert conform(batch, pa.schema([("x", wanted)])).column(0).type == wanted
