"""Which type a constant has, and which type a name means."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.clients.dataframe.expressions.literal import to_dtype, to_literal
from fabric.errors import PlanError


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (None, pa.null()),
        (True, pa.bool_()),
        (1, pa.int32()),
        (-(1 << 31), pa.int32()),
        (1 << 31, pa.int64()),
        (1.5, pa.float64()),
        ("a", pa.string()),
        (b"a", pa.binary()),
        (Decimal("1.25"), pa.decimal128(3, 2)),
        (date(2013, 1, 1), pa.date32()),
        (datetime(2013, 1, 1), pa.timestamp("us")),
        (datetime(2013, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC")),
        (timedelta(hours=1), pa.duration("us")),
        (np.int8(3), pa.int8()),
        (np.float32(0.5), pa.float32()),
        (pa.scalar(7, pa.uint16()), pa.uint16()),
    ],
)
def test_constant_types(value: Any, dtype: pa.DataType) -> None:
    literal = to_literal(value)
    assert literal.dtype == dtype
    assert pa.scalar(literal.value, dtype).as_py() == literal.value


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_keep_their_value(value: int) -> None:
    literal = to_literal(value)
    assert pa.scalar(literal.value, literal.dtype).as_py() == value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1, 2], "is_in"),
        ({"a"}, "is_in"),
        (1 << 63, r"does not fit 64 bits; use decimal.Decimal\('9223372036854775808'\)"),
        (Decimal("NaN"), "must be finite"),
        (object(), "an object can't be a constant"),
    ],
)
def test_what_is_no_constant(value: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        to_literal(value)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (pa.int8(), pa.int8()),
        (int, pa.int64()),
        (str, pa.string()),
        ("int", pa.int32()),
        ("BIGINT", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp[ms]", pa.timestamp("ms")),
        ("timestamp[us, tz=Europe/Berlin]", pa.timestamp("us", "Europe/Berlin")),
        ("date", pa.date32()),
    ],
)
def test_type_names(name: Any, dtype: pa.DataType) -> None:
    assert to_dtype(name) == dtype


def test_every_plain_type_is_found_by_its_own_text() -> None:
    for dtype in (pa.int8(), pa.uint64(), pa.float32(), pa.string(), pa.date32(), pa.bool_()):
        assert to_dtype(str(dtype)) == dtype


def test_polars_types_by_their_name() -> None:
    import polars as pl

    assert to_dtype(str(pl.Int64)) == pa.int64()
    assert to_dtype(pl.Float64) == pa.float64()  # type: ignore[arg-type]


def test_unknown_type() -> None:
    with pytest.raises(PlanError, match="'strin' is not a valid type; use an Arrow type such as"):
        to_dtype("strin")


@pytest.mark.parametrize(
    "dtype",
    [
        pa.list_(pa.int64()),
        pa.list_(pa.list_(pa.decimal128(10, 2))),
        pa.struct([("a", pa.int32()), ("Bc", pa.list_(pa.timestamp("us", "UTC")))]),
        pa.list_(pa.struct([("a", pa.string()), ("s", pa.struct([("x", pa.float64())]))])),
    ],
)
def test_a_type_reads_as_it_is_written(dtype: pa.DataType) -> None:
    assert to_dtype(str(dtype)) == dtype


def test_sparks_names() -> None:
    assert to_dtype("array<bigint>") == pa.list_(pa.int64())
    assert to_dtype("struct<a:int,b:array<string>>") == pa.struct(
        [("a", pa.int32()), ("b", pa.list_(pa.string()))]
    )


@pytest.mark.parametrize("name", ["list<>", "list<nothing>", "struct<a>", "list<int64"])
def test_what_is_no_type_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match="is not a valid type"):
        to_dtype(name)
