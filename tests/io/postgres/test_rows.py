"""Rows of every type, written by us and read back by psycopg."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fabric.errors import DataError, PlanError
from fabric.io.postgres.rows import HEADER, TRAILER, copy_rows
from fabric.io.postgres.table import quoted
from fabric.io.postgres.types import ColumnType, FoundType, fitting_type, made_type
from tests.support.arrays import N_EXAMPLES
from tests.support.postgres import PostgresServer

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
FLOATS = st.floats(allow_nan=True, width=32)
UTC = dt.UTC


def times(zone: dt.tzinfo | None) -> st.SearchStrategy[dt.datetime]:
    return st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)).map(
        lambda time: time.replace(tzinfo=zone)
    )


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(f"{n}e{-scale}"))  # exact


VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    *(
        (dtype, st.integers(-(2 ** (dtype.bit_width - 1)), 2 ** (dtype.bit_width - 1) - 1))
        for dtype in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    ),
    *(
        (dtype, st.integers(0, 2**dtype.bit_width - 1))
        for dtype in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    ),
    (pa.float32(), FLOATS),
    (pa.float64(), st.floats()),
    (pa.decimal32(7, 2), decimals(7, 2)),
    (pa.decimal128(5, -2), decimals(5, -2)),
    (pa.decimal128(18, 18), decimals(18, 18)),
    (pa.decimal128(38, 5), decimals(27, 5) | decimals(38, 5)),
    (pa.decimal256(60, 21), decimals(60, 21)),
    (pa.string(), TEXTS),
    (pa.string_view(), TEXTS),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "", "ß"])),
    (pa.binary(), st.binary(max_size=6)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), st.dates()),
    (pa.time32("s"), st.times().map(lambda time: time.replace(microsecond=0))),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us"), times(None)),
    (pa.timestamp("us", "Europe/Berlin"), times(UTC)),
    (pa.timestamp("s"), times(None).map(lambda time: time.replace(microsecond=0))),
    (pa.duration("us"), st.timedeltas(dt.timedelta(-99_999), dt.timedelta(99_999))),
    (pa.null(), st.none()),
]  # fmt: skip
NESTED = [
    (pa.list_(dtype), st.lists(st.none() | values, max_size=3))
    for dtype, values in VALUES
    if not pa.types.is_null(dtype) and not pa.types.is_dictionary(dtype)
] + [
    (pa.struct([("a", pa.int64()), ("b", pa.string())]),
     st.fixed_dictionaries({"a": st.none() | st.integers(-5, 5), "b": st.none() | TEXTS})),
    (pa.map_(pa.string(), pa.int32()), st.dictionaries(TEXTS, st.integers(-9, 9), max_size=2)),
    (pa.list_(pa.list_(pa.int8())), st.lists(st.lists(st.integers(-9, 9), max_size=2), max_size=2)),
]  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> pa.RecordBatch:
    """A few columns of any type, with nulls, cut out of more rows."""
    n = draw(st.integers(0, 6))
    chosen = draw(st.lists(st.sampled_from([*VALUES, *NESTED]), min_size=1, max_size=6))
    columns = []
    for dtype, values in chosen:
        rows = draw(
            st.lists(st.none() | values if draw(st.booleans()) else values, min_size=n, max_size=n)
        )
        if pa.types.is_map(dtype):
            rows = [None if row is None else list(row.items()) for row in rows]
        columns.append(pa.array(rows, dtype))
    names = draw(st.permutations([f'c"{i}%' for i in range(len(columns))]))
    batch = pa.record_batch(columns, names=names)
    begin = draw(st.integers(0, n))
    return batch.slice(begin, draw(st.integers(0, n)))


def written(server: PostgresServer, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows of `batch` in a table made for them, read back in their order."""
    types = [made_type(field.type, field.name) for field in batch.schema]
    with psycopg.connect(server.url(), autocommit=False) as connection:
        columns = ", ".join(f"{quoted(one.name)} {one.sql}" for one in types)
        connection.execute(f"CREATE TEMP TABLE t ({columns})".encode())
        with connection.cursor().copy(b"COPY t FROM STDIN (FORMAT binary)") as copy:
            copy.write(HEADER)
            for buffer in copy_rows(batch.columns, types) if batch.num_rows else []:
                copy.write(memoryview(buffer))
            copy.write(TRAILER)
        return connection.execute(b"SELECT * FROM t ORDER BY ctid").fetchall()


def expected(dtype: pa.DataType, value: Any) -> Any:
    """What psycopg gives for it."""
    if value is None:
        return None
    if pa.types.is_map(dtype):
        return dict(value)
    if pa.types.is_timestamp(dtype) and dtype.tz is not None:
        return value.astimezone(UTC)
    if pa.types.is_list(dtype):
        return [expected(dtype.value_type, one) for one in value]
    return value


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-7) if not math.isnan(one) else math.isnan(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dt.datetime) and one.tzinfo is not None:
        return isinstance(other, dt.datetime) and one == other.astimezone(UTC)
    return bool(one == other)


@settings(
    max_examples=N_EXAMPLES, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(batch=tables())
@example(
    batch=pa.record_batch(
        {"a": pa.array([Decimal("-0.01"), Decimal("99999.99")], pa.decimal128(7, 2))}
    )
)
@example(batch=pa.record_batch({"a": pa.array([[]], pa.list_(pa.decimal128(7, 2)))}))
def test_rows_come_back_as_they_were(postgres: PostgresServer, batch: pa.RecordBatch) -> None:
    found = written(postgres, batch)
    assert len(found) == batch.num_rows
    for number, row in enumerate(found):
        for column, value in zip(batch.columns, row, strict=True):
            wanted = expected(column.type, column[number].as_py())
            assert same(wanted, value), (column.type, wanted, value)


def test_many_rows_of_many_slices(postgres: PostgresServer) -> None:
    n = 40_000
    texts = [None if i % 7 == 0 else "x" * (i % 5) for i in range(n)]
    batch = pa.record_batch(
        {"n": range(n), "text": texts, "list": [[i, None][: i % 3] for i in range(n)]}
    )
    assert written(postgres, batch) == list(
        zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )


def test_intervals_have_months_days_and_microseconds(postgres: PostgresServer) -> None:
    values = [pa.MonthDayNano([14, -3, 5_000]), None]
    batch = pa.record_batch({"i": pa.array(values, pa.month_day_nano_interval())})
    types = [made_type(pa.month_day_nano_interval(), "i")]
    assert types[0].sql == "interval"
    with psycopg.connect(postgres.url()) as connection:
        connection.execute("CREATE TEMP TABLE t (i interval)")
        with connection.cursor().copy("COPY t FROM STDIN (FORMAT binary)") as copy:
            copy.write(HEADER + copy_rows(batch.columns, types)[0].to_pybytes() + TRAILER)
        texts = connection.execute("SELECT i::text FROM t").fetchall()
    assert texts == [("1 year 2 mons -3 days +00:00:00.000005",), (None,)]


def test_texts_and_bytes_fit_into_uuids_and_json(postgres: PostgresServer) -> None:
    key = uuid.UUID("12345678-1234-5678-1234-567812345678")
    columns = [
        pa.array([str(key), None, str(key).replace("-", "").upper()]),
        pa.array([key.bytes, None, key.bytes]), pa.array(['{"a": [1]}', None, "2"]),
    ]  # fmt: skip
    types = [
        ColumnType("t", "uuid", "uuid"),
        ColumnType("b", "uuid", "uuid"),
        ColumnType("j", "jsonb", "jsonb"),
    ]
    with psycopg.connect(postgres.url()) as connection:
        connection.execute("CREATE TEMP TABLE t (t uuid, b uuid, j jsonb)")
        with connection.cursor().copy("COPY t FROM STDIN (FORMAT binary)") as copy:
            copy.write(HEADER + copy_rows(columns, types)[0].to_pybytes() + TRAILER)
        rows = connection.execute("SELECT * FROM t").fetchall()
    assert rows == [(key, key, {"a": [1]}), (None, None, None), (key, key, 2)]
    for column in (["12"], ["zz345678-1234-5678-1234-567812345678"], [b"12"]):
        with pytest.raises(DataError, match="UUID"):
            copy_rows([pa.array(column)], [ColumnType("t", "uuid", "uuid")])


FAR = 2**63 - 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([1_001], pa.timestamp("ns")), "column 'a' has nanoseconds that are not whole"),
        (pa.array([1], pa.duration("ns")), "has nanoseconds"),
        (pa.array([1], pa.time64("ns")), "has nanoseconds"),
        (pa.array([FAR // 10], pa.timestamp("s")), "out of PostgreSQL's range"),
        (pa.array([-FAR], pa.timestamp("us")), "out of PostgreSQL's range"),
        (pa.array([-(2**31)], pa.date32()), "out of PostgreSQL's range"),
        (
            pa.StructArray.from_arrays([pa.array([-(2**31)], pa.date32())], ["day"]),
            "^column 'a': JSON can't hold these rows: column 'day': -2147483648 of type date32",
        ),
    ],
)
def test_what_would_be_lost_is_refused(values: pa.Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        copy_rows([values], [made_type(values.type, "a")])


def test_whole_microseconds_are_kept(postgres: PostgresServer) -> None:
    batch = pa.record_batch({"a": pa.array([1_000, None], pa.timestamp("ns"))})
    assert written(postgres, batch) == [(dt.datetime(1970, 1, 1, 0, 0, 0, 1),), (None,)]


NUMERIC = (9 << 16 | 2) + 4
"""What the catalogue has for ``numeric(9, 2)``."""


def column(name: str, modifier: int = -1, *, label: bool = False) -> FoundType:
    return FoundType(name, name, 1, modifier, label)


def array_of(name: str) -> FoundType:
    return FoundType(f"_{name}", f"{name}[]", 2, element=column(name, label=name == "mood"))


@pytest.mark.parametrize(
    ("dtype", "found", "fits"),
    [
        (pa.int64(), column("int8"), True),
        (pa.int64(), column("int4"), False),
        (pa.int16(), column("int4"), True),
        (pa.float64(), column("float4"), False),
        (pa.decimal128(9, 2), column("numeric", NUMERIC), True),
        (pa.decimal128(9, 3), column("numeric", NUMERIC), False),
        (pa.decimal128(10, 2), column("numeric", NUMERIC), False),
        (pa.int32(), column("numeric", NUMERIC), False),
        (pa.int16(), column("numeric", NUMERIC), True),
        (pa.timestamp("us"), column("timestamp", 3), False),
        (pa.timestamp("ms"), column("timestamp", 3), True),
        (pa.timestamp("us"), column("timestamptz"), False),
        (pa.timestamp("us", "UTC"), column("timestamp"), False),
        (pa.string(), column("varchar", 9), True),
        (pa.string(), column("mood", label=True), True),
        (pa.string(), column("inet"), False),
        (pa.null(), column("inet"), True),
        (pa.list_(pa.string()), array_of("mood"), True),
        (pa.list_(pa.int64()), array_of("int4"), False),
        (pa.list_(pa.list_(pa.int8())), array_of("int2"), False),
        (pa.list_(pa.int8()), column("jsonb"), True),
        (pa.int8(), array_of("int2"), False),
    ],
)  # fmt: skip
def test_nothing_is_rounded_to_fit(dtype: pa.DataType, found: FoundType, fits: bool) -> None:
    assert (fitting_type(dtype, "a", found) is not None) == fits


def test_what_has_no_type_is_refused() -> None:
    union = pa.dense_union([pa.field("a", pa.int8())])
    with pytest.raises(PlanError, match="no type for column 'a'"):
        made_type(union, "a")
    with pytest.raises(PlanError, match="no type for column 'a'"):
        made_type(pa.struct([("d", pa.duration("s"))]), "a")
    assert made_type(pa.list_(pa.struct([("a", pa.int8())])), "a").sql == "jsonb"
