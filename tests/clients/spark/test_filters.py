"""Pushed filters mean what Spark means: beside live Spark, on every awkward value."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from fabric.clients.spark.filters import compile_filter, keep_true
from fabric.clients.spark.types import arrow_schema, conform, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN, INF = float("nan"), float("inf")
UTC = dt.UTC
NOON = dt.datetime(2020, 1, 1, 12, 0, 0, 123456)

COLUMNS: dict[str, pa.Array] = {
    "i": pa.array([0, 1, -1, (1 << 31) - 1, -(1 << 31), None], pa.int32()),
    "l": pa.array([0, 1, (1 << 63) - 1, -(1 << 63), 3_000_000_000, None], pa.int64()),
    "f": pa.array([0.0, -0.0, NAN, -INF, 0.1, None], pa.float32()),
    "d": pa.array([0.0, -0.0, NAN, INF, 0.1, None], pa.float64()),
    "m": pa.array(
        [Decimal("1.50"), Decimal("-1.50"), Decimal("0.00"), Decimal("99999999.99"),
         Decimal("1.10"), None], pa.decimal128(10, 2),
    ),
    "s": pa.array(["a", "A", "", "äb", "a%b_\0c", None]),
    "x": pa.array([b"", b"\x00", b"\x00\xff", b"\x80", b"a", None]),
    "b": pa.array([True, False, None, True, False, None]),
    "day": pa.array(
        [dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31),
         dt.date(2020, 1, 2), None],
    ),
    "ts": pa.array(
        [NOON.replace(tzinfo=UTC), dt.datetime(1, 1, 1, tzinfo=UTC), None,
         dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
         dt.datetime(2020, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC"),
    ),
    "tn": pa.array(
        [NOON, dt.datetime(1, 1, 1), None, dt.datetime(9999, 12, 31), dt.datetime(2020, 1, 1),
         None], pa.timestamp("us"),
    ),
    "st": pa.array(
        [{"a": 1, "b.c": {"x": "q"}}, {"a": None, "b.c": None}, None, {"a": 2, "b.c": {"x": None}},
         {"a": 1, "b.c": {"x": ""}}, None],
        pa.struct([("a", pa.int32()), ("b.c", pa.struct([("x", pa.string())]))]),
    ),
    "ar": pa.array([[1, 2], [], None, [None], [1], None], pa.list_(pa.int32())),
    "nul": pa.nulls(6),
}  # fmt: skip
TABLE = pa.table({"row": list(range(36)), **{
    name: pa.concat_arrays([values, values.take(pa.array([3, 1, 5, 0, 4, 2]))] * 3)
    for name, values in COLUMNS.items()
}})  # fmt: skip


def each(column: str, value: Any, literal: str) -> list[tuple[str, Filter]]:
    """Every comparison of a column with one value, and its opposite."""
    path = (column,)
    found: list[tuple[str, Filter]] = [
        (f"{column} = {literal}", EqualTo(path, value)),
        (f"{column} <=> {literal}", EqualNullSafe(path, value)),
        (f"{column} > {literal}", GreaterThan(path, value)),
        (f"{column} >= {literal}", GreaterThanOrEqual(path, value)),
        (f"{column} < {literal}", LessThan(path, value)),
        (f"{column} <= {literal}", LessThanOrEqual(path, value)),
        (f"{column} in ({literal})", In(path, (value,))),
        (f"{column} in ({literal}, null)", In(path, (value, None))),
    ]
    return found + [(f"not ({text})", Not(one)) for text, one in found]


CASES: list[tuple[str, Filter]] = [
    *each("i", 1, "1"),
    *each("i", (1 << 31) - 1, "2147483647"),
    *each("l", 3_000_000_000, "3000000000"),
    *each("l", -(1 << 63), "-9223372036854775808L"),
    *each("f", 0.10000000149011612, "float('0.1')"),
    *each("f", NAN, "float('nan')"),
    *each("f", -0.0, "float('-0.0')"),
    *each("d", 0.1, "double('0.1')"),
    *each("d", NAN, "double('nan')"),
    *each("d", 0.0, "0D"),
    *each("d", INF, "double('infinity')"),
    *each("m", Decimal("1.50"), "1.50BD"),
    *each("m", Decimal("99999999.99"), "99999999.99BD"),
    *each("s", "a", "'a'"),
    *each("s", "", "''"),
    *each("s", "ä", "'ä'"),
    *each("x", b"\x00\xff", "X'00ff'"),
    *each("x", b"", "X''"),
    *each("b", True, "true"),
    *each("b", False, "false"),
    *each("day", dt.date(2020, 1, 1), "date'2020-01-01'"),
    *each("day", dt.date(1, 1, 1), "date'0001-01-01'"),
    *each("ts", NOON.replace(tzinfo=UTC), "timestamp'2020-01-01 12:00:00.123456'"),
    *each("tn", NOON, "timestamp_ntz'2020-01-01 12:00:00.123456'"),
    *[(f"{name} is null", IsNull((name,))) for name in COLUMNS],
    *[(f"{name} is not null", IsNotNull((name,))) for name in COLUMNS],
    ("not (s is null)", Not(IsNull(("s",)))),
    ("s <=> null", EqualNullSafe(("s",), None)),
    ("s = null", EqualTo(("s",), None)),
    ("not (s = null)", Not(EqualTo(("s",), None))),
    ("s in (null)", In(("s",), (None,))),
    ("s in ('a', '', 'zz')", In(("s",), ("a", "", "zz"))),
    ("not (s in ('a', '', 'zz'))", Not(In(("s",), ("a", "", "zz")))),
    ("d in (double('nan'), 0D)", In(("d",), (NAN, 0.0))),
    ("not (d in (double('nan'), 0D))", Not(In(("d",), (NAN, 0.0)))),
    ("startswith(s, 'a')", StringStartsWith(("s",), "a")),
    ("not startswith(s, 'a')", Not(StringStartsWith(("s",), "a"))),
    ("startswith(s, '')", StringStartsWith(("s",), "")),
    ("endswith(s, 'b')", StringEndsWith(("s",), "b")),
    ("endswith(s, '')", StringEndsWith(("s",), "")),
    ("contains(s, '%b_')", StringContains(("s",), "%b_")),
    ("contains(s, '\\0')", StringContains(("s",), "\0")),
    ("contains(s, '')", StringContains(("s",), "")),
    ("not contains(s, 'ä')", Not(StringContains(("s",), "ä"))),
    ("st.a = 1", EqualTo(("st", "a"), 1)),
    ("st.a is null", IsNull(("st", "a"))),
    ("not (st.a = 1)", Not(EqualTo(("st", "a"), 1))),
    ("st.`b.c`.x = 'q'", EqualTo(("st", "b.c", "x"), "q")),
    ("st.`b.c`.x is null", IsNull(("st", "b.c", "x"))),
    ("st.`b.c` is not null", IsNotNull(("st", "b.c"))),
]


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    [whole] = TABLE.combine_chunks().to_batches()
    return conform(whole, arrow_schema(spark_schema(TABLE.schema)))


@pytest.fixture(scope="module")
def expected(spark: SparkSession) -> dict[str, list[int]]:
    """The rows that each predicate keeps, of all rows at once, by Spark alone."""
    schema = spark_schema(TABLE.schema)
    frame = spark.createDataFrame(TABLE, schema=schema)
    # a barrier to the optimiser: what is asked here is what each row says, nothing is pushed
    texts = [f"coalesce({text}, false) as p{n}" for n, (text, _) in enumerate(CASES)]
    found = frame.selectExpr("row", *texts).toArrow()
    row = found["row"]
    return {text: row.filter(found[f"p{n}"]).to_pylist() for n, (text, _) in enumerate(CASES)}


def rows(kept: pa.RecordBatch) -> list[int]:
    found: list[int] = kept.column("row").to_pylist()
    return found


def test_every_filter_keeps_the_rows_that_spark_keeps(
    batch: pa.RecordBatch, expected: dict[str, list[int]]
) -> None:
    wrong = []
    for text, pushed in CASES:
        mask = compile_filter(pushed, batch.schema)
        assert mask is not None, text
        begin = batch.slice(7)
        whole, sliced = rows(keep_true(batch, [mask])), rows(keep_true(begin, [mask]))
        if whole != sorted(expected[text]) or sliced != [r for r in whole if r >= 7]:
            wrong.append((text, whole, expected[text]))
    assert not wrong
    assert len(CASES) > 300


def test_several_filters_are_all_true(batch: pa.RecordBatch) -> None:
    pushed = [IsNotNull(("i",)), GreaterThan(("i",), -1), Not(EqualTo(("s",), "A"))]
    masks = [mask for one in pushed if (mask := compile_filter(one, batch.schema))]
    kept = keep_true(batch, masks)
    assert all(i is not None and i > -1 for i in kept["i"].to_pylist())
    assert "A" not in kept["s"].to_pylist()
    assert None not in kept["s"].to_pylist()


HANDED_BACK: dict[str, Filter] = {
    "a list": EqualTo(("ar",), [1, 2]),
    "its opposite": Not(EqualTo(("ar",), [1, 2])),
    "a struct": EqualTo(("st",), {"a": 1}),
    "no such column": EqualTo(("nope",), 1),
    "another case": EqualTo(("I",), 1),
    "no such field": EqualTo(("st", "nope"), 1),
    "a field of a list": EqualTo(("ar", "a"), 1),
    "a number too large": EqualTo(("i",), 1 << 40),
    "a fraction": GreaterThan(("i",), 0.5),
    "a double that no float is": EqualTo(("f",), 0.1),
    "too many digits": EqualTo(("m",), Decimal("1.555")),
    "text for a number": EqualTo(("i",), "1"),
    "a number for text": EqualTo(("s",), 1),
    "true for a number": EqualTo(("i",), True),
    "a number for true": EqualTo(("b",), 1),
    "a zone for none": LessThan(("tn",), NOON.replace(tzinfo=UTC)),
    "no zone": LessThan(("ts",), NOON),
    "a time for a day": LessThan(("day",), NOON),
    "nothing to be in": In(("i",), ()),
    "one of them does not fit": In(("i",), (1, 1 << 40)),
    "many floats": In(("d",), tuple(float(n) for n in range(200))),
    "text of binary": StringStartsWith(("x",), "a"),
    "void": EqualTo(("nul",), 1),
}


@pytest.mark.parametrize("case", HANDED_BACK)
def test_what_is_not_certain_is_handed_back(case: str, batch: pa.RecordBatch) -> None:
    assert compile_filter(HANDED_BACK[case], batch.schema) is None


def test_a_filter_that_nobody_knows(batch: pa.RecordBatch) -> None:
    class Sounds(EqualTo):
        """Something of a later Spark."""

    assert compile_filter(Sounds(("s",), "a"), batch.schema) is None


def test_a_column_that_is_there_twice() -> None:
    schema = pa.schema([("k", pa.int64()), ("k", pa.int64())])
    assert compile_filter(EqualTo(("k",), 1), schema) is None


def test_no_pandas_in_a_worker() -> None:
    """It would cost every fresh worker of Spark a second."""
    program = """
import sys
import pyarrow as pa
from pyspark.sql.datasource import EqualTo, In, Not, GreaterThan, StringContains
from fabric.clients.spark import reader
from fabric.clients.spark.filters import compile_filter, keep_true
schema = pa.schema([("k", pa.int64()), ("d", pa.float64()), ("s", pa.string())])
batch = pa.RecordBatch.from_arrays([pa.nulls(3, f.type) for f in schema], schema=schema)
pushed = [EqualTo(("k",), 1), In(("k",), (1, None)), Not(In(("d",), (float("nan"), 0.5))),
    GreaterThan(("d",), float("nan")), StringContains(("s",), "a"), In(("s",), ("a", "b"))]
keep_true(batch, [compile_filter(one, schema) for one in pushed])
print([m for m in ("pandas", "structlog", "rich", "grpc") if m in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
