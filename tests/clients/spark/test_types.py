"""Arrow types to Spark and back: every type, at any depth, or refused by the column's name."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fabric.clients.spark.types import arrow_schema, conform, spark_schema
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


DAY = datetime.date(2013, 1, 1)
NOON = datetime.datetime(2013, 1, 1, 12, 0, 0, 5_000)
WORD = pa.dictionary(pa.int8(), pa.string())
UTC_NOON = NOON.replace(tzinfo=datetime.UTC)

# Arrow type, values, Spark's type, values as Spark is given them (None: the same).
SAME: list[tuple[pa.DataType, list[Any], str]] = [
    (pa.bool_(), [True, None, False], "boolean"),
    (pa.int8(), [-128, None, 127], "tinyint"),
    (pa.int16(), [-(1 << 15), None], "smallint"),
    (pa.int32(), [-(1 << 31), None], "int"),
    (pa.int64(), [-(1 << 63), None], "bigint"),
    (pa.uint8(), [255, None], "smallint"),
    (pa.uint16(), [65_535, None], "int"),
    (pa.uint32(), [(1 << 32) - 1, None], "bigint"),
    (pa.float16(), [1.5, None], "float"),
    (pa.float32(), [1.5, None], "float"),
    (pa.float64(), [0.1, None], "double"),
    (pa.decimal32(5, 2), [Decimal("123.45"), None], "decimal(5,2)"),
    (pa.decimal64(12, 2), [Decimal("-1.00"), None], "decimal(12,2)"),
    (pa.decimal128(38, 10), [Decimal("1.0000000001"), None], "decimal(38,10)"),
    (pa.decimal256(38, 0), [Decimal(10**38 - 1), None], "decimal(38,0)"),
    (pa.string(), ["ä", "", None], "string"),
    (pa.large_string(), ["ä", None], "string"),
    (pa.string_view(), ["longer than twelve bytes", None], "string"),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "a", None], "string"),
    (pa.dictionary(pa.int32(), pa.uint8()), [7, None], "smallint"),
    (pa.binary(), [b"\x00", None], "binary"),
    (pa.large_binary(), [b"\x00", None], "binary"),
    (pa.binary_view(), [b"\x00" * 20, None], "binary"),
    (pa.binary(2), [b"ab", None], "binary"),
    (pa.date32(), [DAY, None], "date"),
    (pa.date64(), [DAY, None], "date"),
    (pa.time32("s"), [datetime.time(1, 2, 3), None], "time(6)"),
    (pa.time32("ms"), [datetime.time(1, 2, 3), None], "time(6)"),
    (pa.time64("us"), [datetime.time(1, 2, 3, 4), None], "time(6)"),
    (pa.time64("ns"), [datetime.time(1, 2, 3, 4), None], "time(6)"),
    (pa.timestamp("s"), [NOON.replace(microsecond=0), None], "timestamp_ntz"),
    (pa.timestamp("ms"), [NOON, None], "timestamp_ntz"),
    (pa.timestamp("us"), [NOON, None], "timestamp_ntz"),
    (pa.timestamp("us", "UTC"), [UTC_NOON, None], "timestamp"),
    (pa.timestamp("ms", "America/New_York"), [UTC_NOON, None], "timestamp"),
    (pa.duration("s"), [datetime.timedelta(days=2), None], "interval day to second"),
    (pa.duration("us"), [datetime.timedelta(0, 1, 5), None], "interval day to second"),
    (pa.null(), [None, None], "void"),
    (pa.list_(pa.uint8()), [[1, None], None, []], "array<smallint>"),
    (pa.large_list(pa.date64()), [[DAY], None], "array<date>"),
    (pa.list_(pa.float16(), 2), [[0.5, None], None], "array<float>"),
    (pa.list_view(pa.string_view()), [["a"], None, ["b", "c"], []], "array<string>"),
    (pa.large_list_view(pa.int8()), [[1], None], "array<tinyint>"),
    (pa.list_(pa.list_(pa.uint32())), [[[1], None], None], "array<array<bigint>>"),
    (
        pa.struct([("day", pa.date64()), ("tags", pa.list_(WORD))]),
        [{"day": DAY, "tags": ["x", None]}, {"day": None, "tags": None}, None],
        "struct<day:date,tags:array<string>>",
    ),
    (pa.map_(pa.uint8(), pa.binary_view()), [[(1, b"x"), (2, None)], None], "map<smallint,binary>"),
    (pa.struct([]), [{}, None], "struct<>"),
]  # fmt: skip


def column(values: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"x": values})


def passed_on(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` as Spark gets it; it is valid and of exactly the schema PySpark checks for."""
    wanted = arrow_schema(spark_schema(batch.schema))
    found = conform(batch, wanted)
    found.validate(full=True)
    assert found.schema.equals(wanted)
    return found


@pytest.mark.parametrize(("dtype", "values", "spark_type"), SAME, ids=lambda v: str(v)[:40])
def test_every_type_keeps_its_values(
    dtype: pa.DataType, values: list[Any], spark_type: str
) -> None:
    batch = column(pa.array(values, dtype))
    assert spark_schema(batch.schema).simpleString() == f"struct<x:{spark_type}>"
    assert passed_on(batch).column(0).to_pylist() == values
    assert passed_on(batch.slice(1)).column(0).to_pylist() == values[1:]


def test_unsigned_64_bits_become_decimals() -> None:
    found = passed_on(column(pa.array([(1 << 64) - 1, None], pa.uint64())))
    assert found.column(0).to_pylist() == [Decimal((1 << 64) - 1), None]


def test_run_ends_are_decoded() -> None:
    found = passed_on(column(pc.run_end_encode(pa.array([1, 1, None], pa.uint8()))))
    assert found.column(0).to_pylist() == [1, 1, None]


def test_extension_types_are_their_storage() -> None:
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16)))
    assert passed_on(column(ids)).column(0).to_pylist() == [b"0" * 16, None]


def test_what_is_never_null_stays_so() -> None:
    item = pa.field("item", pa.uint8(), nullable=False)
    schema = pa.schema([pa.field("x", pa.list_(item), nullable=False)])
    found = spark_schema(schema)
    assert not found["x"].nullable
    assert not found["x"].dataType.containsNull
    passed_on(pa.record_batch([pa.array([[1]], pa.list_(item))], schema=schema))


REFUSED = {
    "interval": (
        pa.month_day_nano_interval(),
        "Spark has no type for column 'x' (month_day_nano_interval); before reading, use "
        ".drop('x'), or leave it out here: .schema('the columns to read')",
    ),
    "wide decimal": (
        pa.decimal256(40, 2),
        "use .with_columns(col('x').cast(pa.decimal128(38, 2)), replace=True) or .drop('x')",
    ),
    "negative scale": (pa.decimal128(3, -2), "col('x').cast(pa.decimal128(38, 0))"),
    "deep": (
        pa.struct([("a", pa.list_(pa.month_day_nano_interval()))]),
        "because of month_day_nano_interval in the items of x.a; before reading, use .drop('x')",
    ),
    "key": (pa.map_(pa.decimal256(40, 0), pa.int8()), "decimal256(40, 0) in the keys of x;"),
    "value": (pa.map_(pa.int8(), pa.decimal256(40, 0)), "in the values of x;"),
    "union": (pa.sparse_union([pa.field("a", pa.int8())]), "(sparse_union<"),
    "views inside": (
        pa.list_view(pa.list_view(pa.int8())),
        "list_view<item: int8> in the items of x",
    ),
    "run ends inside": (pa.list_(pa.run_end_encoded(pa.int32(), pa.int8())), "in the items of x"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    dtype, message = REFUSED[case]
    with pytest.raises(DataError, match=re.escape(message)):
        spark_schema(pa.schema([("ok", pa.int8()), ("x", dtype)]))


def test_a_spark_type_without_an_arrow_type() -> None:
    from pyspark.sql.types import StringType, StructType, YearMonthIntervalType

    schema = StructType().add("ok", StringType()).add("months", YearMonthIntervalType())
    message = r"Spark's column 'months' \(interval year to month\) has no Arrow type; cast it first"
    with pytest.raises(DataError, match=message):
        arrow_schema(schema)
