"""Avro rows to columns and back; the oracle is fastavro."""

from __future__ import annotations

import io
import json
import math
import os
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric._cython.codecs.binary import AvroDecoder, AvroEncoder
from fabric.errors import PlanError
from fabric.io.codecs.avro_arrow import arrow_schema, derived_avro
from fabric.io.codecs.avro_nodes import varint
from fabric.io.codecs.avro_reader import avro_program
from fabric.io.codecs.avro_schema import parse_avro, written
from fabric.io.codecs.avro_writer import written_program
from tests.io.codecs.avro_strategies import Drawn, evolved, records

Json = Any
MANY = 1000 if os.environ.get("FABRIC_SOAK") else 30
SLOW = settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))


def packed(schema: Json, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def unpacked(schema: Json, raw: bytes, reader: Json = None) -> Any:
    source = io.BytesIO(raw)
    target = None if reader is None else fastavro.parse_schema(reader)
    found = fastavro.schemaless_reader(source, fastavro.parse_schema(schema), target)
    assert source.read() == b""
    return found


def decoder(schema: Json, columns: pa.Schema | None = None, reader: Json = None) -> AvroDecoder:
    writer = parse_avro(json.dumps(schema))
    target = None if reader is None else parse_avro(json.dumps(reader))
    columns = columns if columns is not None else arrow_schema(target or writer)
    return AvroDecoder(columns, avro_program(writer, columns, target))


def decoded(
    schema: Json, rows: list[bytes], columns: pa.Schema | None = None, reader: Json = None
) -> list[Any]:
    found = decoder(schema, columns, reader).decode(pa.array(rows, pa.binary()))
    assert found.bad == ()
    found.batch.validate(full=True)
    return found.batch.to_pylist()


def reasons(schema: Json, rows: list[bytes], **more: Any) -> list[str]:
    return [bad.reason for bad in decoder(schema, **more).decode(pa.array(rows, pa.binary())).bad]


def record(*fields: Json, name: str = "R") -> Json:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Json, **more: Json) -> Json:
    return {"name": name, "type": kind, **more}


@SLOW
@given(st.data())
def test_rows_of_generated_schemas_are_those_of_fastavro(data: st.DataObject) -> None:
    drawn: Drawn = data.draw(records())
    values = data.draw(st.lists(drawn.values, max_size=4))
    rows = [packed(drawn.schema, value) for value in values]
    found = decoder(drawn.schema).decode(pa.array(rows, pa.binary()))
    assert found.bad == ()
    found.batch.validate(full=True)
    assert found.batch.to_pylist() == [drawn.arrow(value) for value in values]

    avro = parse_avro(json.dumps(drawn.schema))
    encoder = AvroEncoder(found.batch.schema, written_program(found.batch.schema, avro))
    again = encoder.encode(found.batch).to_pylist()
    assert [unpacked(drawn.schema, one) for one in again] == [
        unpacked(drawn.schema, one) for one in rows
    ]
    sliced = encoder.encode(found.batch.slice(1)).to_pylist()
    assert sliced == again[1:]


@SLOW
@given(st.data())
def test_some_columns_are_those_of_all(data: st.DataObject) -> None:
    """What no column asks for is skipped, and what is behind it still right."""
    drawn: Drawn = data.draw(records())
    values = data.draw(st.lists(drawn.values, min_size=1, max_size=3))
    rows = [packed(drawn.schema, value) for value in values]
    full = decoder(drawn.schema).decode(pa.array(rows, pa.binary())).batch
    kept = data.draw(st.lists(st.sampled_from(full.schema.names), unique=True))
    columns = pa.schema([full.schema.field(name) for name in kept])
    found = decoder(drawn.schema, columns).decode(pa.array(rows, pa.binary()))
    assert found.bad == ()
    assert found.batch.num_rows == len(rows)
    assert found.batch.to_pylist() == full.select(kept).to_pylist()


@SLOW
@given(st.data())
def test_poison_is_a_bad_row_or_what_fastavro_reads(data: st.DataObject) -> None:
    drawn: Drawn = data.draw(records())
    good = packed(drawn.schema, data.draw(drawn.values))
    poison = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(poison)))
        cut = data.draw(st.integers(0, 2))
        poison[at : at + cut] = data.draw(st.binary(max_size=3))
    rows = [good, bytes(poison), good]
    found = decoder(drawn.schema).decode(pa.array(rows, pa.binary()))
    found.batch.validate(full=True)
    last = found.batch.num_rows - 1
    assert found.batch.slice(0, 1).equals(found.batch.slice(last))  # neighbours are whole
    assert [bad.row for bad in found.bad] in ([], [1])
    if not found.bad:
        avro = parse_avro(json.dumps(drawn.schema))
        encoder = AvroEncoder(found.batch.schema, written_program(found.batch.schema, avro))
        try:
            theirs = unpacked(drawn.schema, bytes(poison))
        except OverflowError:  # a moment that Python's datetime has no room for
            return
        ours = unpacked(drawn.schema, encoder.encode(found.batch)[1].as_py())
        assert str(ours) == str(theirs)


@SLOW
@given(st.data())
def test_evolved_schemas_are_read_as_fastavro_reads_them(data: st.DataObject) -> None:
    drawn: Drawn = data.draw(records(unions=False))
    reads = data.draw(evolved(drawn.schema))
    rows = [packed(drawn.schema, one) for one in data.draw(st.lists(drawn.values, max_size=3))]
    found = decoder(drawn.schema, reader=reads).decode(pa.array(rows, pa.binary()))
    assert found.bad == ()
    found.batch.validate(full=True)
    avro = parse_avro(json.dumps(reads))
    encoder = AvroEncoder(found.batch.schema, written_program(found.batch.schema, avro))
    ours = [unpacked(reads, one) for one in encoder.encode(found.batch).to_pylist()]
    assert ours == [unpacked(drawn.schema, one, reads) for one in rows]


FLAT = record(field("a", "long"), field("b", "string"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"", "a number is truncated"),
        (b"\x80", "a number is truncated"),
        (b"\xff" * 9 + b"\x02\x00", "more than 64 bits"),
        (b"\xff" * 40, "more than 64 bits"),
        (b"\x02\x7f", "truncated"),  # a length below zero
        (b"\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01x", "truncated"),  # a length of 2^63 - 1
        (b"\x02\x04\xc3\x28", "not UTF-8"),
        (b"\x02\x02xx", "1 bytes follow the end of the row"),
    ],
)
def test_damaged_rows_are_told_with_their_reason(row: bytes, reason: str) -> None:
    (found,) = reasons(FLAT, [row])
    assert reason in found


LISTS = record(field("x", {"type": "array", "items": "null"}), field("y", "int"))


@pytest.mark.parametrize(
    ("schema", "row", "reason"),
    [
        (LISTS, b"\xfe\xff\xff\xff\x0f\x00\x02", "item count exceeds"),  # 2^31 nulls in no bytes
        (LISTS, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x02", "too many items"),
        (LISTS, b"\x01\x7f\x00\x02", "block of items is truncated"),
        (LISTS, b"\x80\x80\x04" * 3 + b"\x00\x02", "item count exceeds"),  # 32768, three times
        (
            record(field("x", {"type": "array", "items": "long"})),
            b"\xfe\x01\x00",
            "item count exceeds",
        ),
        (
            record(field("x", {"type": "map", "values": "long"})),
            b"\xfe\x01\x00",
            "item count exceeds",
        ),
        (record(field("x", ["null", "int"])), b"\x04", "branch index is out of range"),
        (record(field("x", ["null", "int"])), b"\x01", "branch index is out of range"),
        (record(field("x", {"type": "enum", "name": "E", "symbols": ["A"]})), b"\x02", "symbol"),
        (record(field("x", "boolean")), b"\x02", "neither"),
        (record(field("x", "int")), b"\x80\x80\x80\x80\x10", "more than 32 bits"),
        (record(field("x", "double")), b"\x00" * 7, "truncated"),
    ],
)
def test_bombs_cost_nothing(schema: Json, row: bytes, reason: str) -> None:
    (found,) = reasons(schema, [row])
    assert reason in found


def test_blocks_with_their_size_are_read_and_skipped() -> None:
    schema = record(field("x", {"type": "array", "items": "int"}), field("y", "int"))
    row = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00" + b"\x0e"  # [1, 2] with a size, [3], end; 7
    assert decoded(schema, [row]) == [{"x": [1, 2, 3], "y": 7}]
    assert decoded(schema, [row], pa.schema([("y", pa.int32())])) == [{"y": 7}]


def test_a_type_that_holds_itself_is_refused_by_name_and_skipped() -> None:
    node = record(field("v", "int"), field("next", ["null", "Node"]), name="Node")
    with pytest.raises(PlanError, match="'Node' contains itself"):
        arrow_schema(parse_avro(json.dumps(node)))
    row = b"\x02" + b"\x02\x04" * 3 + b"\x00"
    columns = pa.schema([("v", pa.int32())])
    assert decoded(node, [row], columns) == [{"v": 1}]
    deep = b"\x02" + b"\x02\x04" * 1_000_000 + b"\x00"
    assert "too deep" in reasons(node, [deep], columns=columns)[0]


PROMOTIONS = [
    ("int", "long", 7),
    ("int", "float", 7),
    ("int", "double", 7),
    ("long", "float", 7),
    ("long", "double", 7),
    ("float", "double", 0.5),
    ("string", "bytes", "é"),
    ("bytes", "string", b"x"),
    ("int", ["null", "long"], 7),
    (["null", "int"], ["null", "double"], 7),
    (["int", "string"], ["string", "long"], 7),
]


@pytest.mark.parametrize(("writer", "reader", "value"), PROMOTIONS)
def test_promotions_are_those_of_fastavro(writer: Json, reader: Json, value: Any) -> None:
    wrote, reads = record(field("x", writer)), record(field("x", reader))
    raw = packed(wrote, {"x": value})
    found = decoded(wrote, [raw], reader=reads)[0]["x"]
    theirs = unpacked(wrote, raw, reads)["x"]
    assert found in (theirs, {"member0": None, "member1": theirs})


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("long", "int"),
        ("double", "float"),
        ("string", "int"),
        ("boolean", "int"),
        ("int", "string"),
    ],
)
def test_what_loses_is_refused_by_name(writer: str, reader: str) -> None:
    with pytest.raises(PlanError, match=rf"R\.x was written as {writer}.* read as {reader}"):
        decoder(record(field("x", writer)), reader=record(field("x", reader)))


def test_fields_come_and_go_and_change_their_names() -> None:
    wrote = record(
        field("gone", {"type": "map", "values": "string"}),
        field("old", "int"),
        field("inner", record(field("p", "int"), name="Old")),
    )
    inner = record(field("p", "long"), field("q", "string", default="é"), name="I")
    inner["aliases"] = ["Old"]
    reads = record(
        field("new", "long", aliases=["old"]),
        field("inner", inner),
        field("at", ["null", "string"], default=None),
        field("tags", {"type": "array", "items": "int"}, default=[1, -1]),
        field("box", record(field("z", "double"), name="B"), default={"z": 0.5}),
    )
    value = {"gone": {"a": "b"}, "old": 5, "inner": {"p": 6}}
    raw = packed(wrote, value)
    found = decoded(wrote, [raw, raw], reader=reads)
    assert found == [unpacked(wrote, raw, reads)] * 2
    assert found[0]["tags"] == [1, -1]
    with pytest.raises(PlanError, match=r"no field 'must'.*no default"):
        decoder(wrote, reader=record(field("must", "int")))


def test_symbols_that_the_reader_lacks_are_its_default_or_bad() -> None:
    def enum(symbols: str, **more: str) -> Json:
        return record(field("e", {"type": "enum", "name": "E", "symbols": list(symbols), **more}))

    rows = [packed(enum("ABC"), {"e": symbol}) for symbol in "ABC"]
    with_default = enum("AB", default="B")
    assert [r["e"] for r in decoded(enum("ABC"), rows, reader=with_default)] == ["A", "B", "B"]
    found = decoder(enum("ABC"), reader=enum("AB")).decode(pa.array(rows, pa.binary()))
    assert found.batch["e"].to_pylist() == ["A", "B"]
    assert found.bad[0].reason == "the enum symbol C is not in the reader's schema"


def test_a_branch_that_the_reader_lacks_is_a_bad_row() -> None:
    wrote = record(field("x", ["null", "int", "string"]))
    rows = [packed(wrote, {"x": x}) for x in (1, "a", None, 2)]
    columns = pa.schema([("x", pa.int64())])
    found = decoder(wrote, columns).decode(pa.array(rows, pa.binary()))
    assert found.batch["x"].to_pylist() == [1, None, 2]
    assert [bad.row for bad in found.bad] == [1]
    reads = record(field("x", ["null", "int"]))
    assert [bad.row for bad in decoder(wrote, reader=reads).decode(pa.array(rows)).bad] == [1]


def test_units_of_time_are_turned_and_no_digit_is_lost() -> None:
    wrote = record(field("t", {"type": "long", "logicalType": "timestamp-micros"}))
    rows = [b"\xd0\x0f", b"\xd2\x0f"]  # 1000 and 1001 microseconds
    found = decoder(wrote, pa.schema([("t", pa.timestamp("ms", "UTC"))])).decode(pa.array(rows))
    assert found.batch["t"].cast(pa.int64()).to_pylist() == [1]
    assert "more precise than" in found.bad[0].reason
    fine = decoder(wrote, pa.schema([("t", pa.timestamp("ns", "UTC"))])).decode(pa.array(rows))
    assert fine.batch["t"].cast(pa.int64()).to_pylist() == [1_000_000, 1_001_000]
    with pytest.raises(PlanError, match=r"timestamp-micros.*timestamp\[us\]"):
        decoder(wrote, pa.schema([("t", pa.timestamp("us"))]))


def test_columns_narrower_than_avro_take_what_fits() -> None:
    wrote = record(field("a", "int"), field("b", "long"))
    columns = pa.schema([("a", pa.uint8()), ("b", pa.uint64())])
    rows = [packed(wrote, {"a": a, "b": b}) for a, b in [(255, 1), (256, 1), (-1, 1), (0, -1)]]
    found = decoder(wrote, columns).decode(pa.array(rows))
    assert found.batch.to_pylist() == [{"a": 255, "b": 1}]
    assert [bad.row for bad in found.bad] == [1, 2, 3]


def test_times_are_of_a_day_and_dates_whole() -> None:
    wrote = record(field("t", {"type": "long", "logicalType": "time-micros"}), field("d", "long"))
    columns = pa.schema([("t", pa.time64("us")), ("d", pa.date64())])
    last = 86_400_000_000 - 1
    raw = [b"".join(map(varint, pair)) for pair in ((last, 0), (last + 1, 0), (-1, 0), (0, 1))]
    found = decoder(wrote, columns).decode(pa.array(raw))
    found.batch.validate(full=True)
    assert found.batch.num_rows == 1
    assert [bad.row for bad in found.bad] == [1, 2, 3]


def test_nan_and_infinity_survive() -> None:
    wrote = record(field("x", "double"), field("y", "float"))
    rows = [packed(wrote, {"x": x, "y": x}) for x in (math.nan, math.inf, -math.inf)]
    found = decoded(wrote, rows)
    assert math.isnan(found[0]["x"])
    assert math.isnan(found[0]["y"])
    assert [r["y"] for r in found[1:]] == [math.inf, -math.inf]


@pytest.mark.parametrize(
    "dtype",
    [
        pa.null(), pa.bool_(), pa.int8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.int64(),
        pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.binary(3),
        pa.date32(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.timestamp("s"),
        pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC"),
        pa.duration("ns"), pa.decimal128(9, 2), pa.decimal256(60, 0), pa.month_day_nano_interval(),
        pa.list_(pa.int32()), pa.large_list(pa.string()), pa.map_(pa.string(), pa.int64()),
        pa.struct([("p", pa.int32()), ("q", pa.list_(pa.string()))]),
    ],
    ids=str,
)  # fmt: skip
def test_columns_come_back_by_the_schema_derived_from_them(dtype: pa.DataType) -> None:
    values = sample(dtype)
    columns = pa.schema([("x", dtype), ("y", pa.int32())])
    batch = pa.record_batch(
        [pa.array([*values, None], dtype), pa.array(range(len(values) + 1), pa.int32())],
        schema=columns,
    )
    avro = derived_avro(columns)
    rows = AvroEncoder(columns, written_program(columns, avro)).encode(batch)
    writer = parse_avro(written(avro))
    found = AvroDecoder(columns, avro_program(writer, columns)).decode(rows)
    assert found.bad == ()
    assert found.batch.equals(batch)


def sample(dtype: pa.DataType) -> list[Any]:
    """Two values of a type."""
    t = pa.types
    if t.is_null(dtype):
        return [None]
    if t.is_struct(dtype):
        return [{"p": 1, "q": ["a", None]}, {"p": None, "q": []}]
    if t.is_map(dtype):
        return [[("k", 1), ("l", None)], []]
    if t.is_list(dtype) or t.is_large_list(dtype):
        inner = sample(dtype.value_type)
        return [inner, [], [*inner, None]]
    if t.is_interval(dtype):
        return [(1, 2, 3_000_000), (0, 0, 0)]
    if t.is_boolean(dtype):
        return [True, False]
    if t.is_string(dtype) or t.is_large_string(dtype):
        return ["é\0", ""]
    if t.is_binary(dtype) or t.is_fixed_size_binary(dtype):
        return [b"\xff\x00a", b"abc"]
    if t.is_decimal(dtype):
        return [Decimal(digits).scaleb(-dtype.scale) for digits in (-128, 127, 128, 0, -32769)]
    if t.is_duration(dtype):
        return pa.array([1, 100], dtype).to_pylist()
    whole = pa.array([1, 100], pa.int64() if dtype.bit_width == 64 else pa.int32())
    return whole.cast(dtype).to_pylist()


def test_what_avro_has_no_name_or_type_for_is_refused() -> None:
    with pytest.raises(PlanError, match="'a b' can't be an Avro field"):
        derived_avro(pa.schema([("a b", pa.int8())]))
    with pytest.raises(PlanError, match=r"'x' is time64\[ns\]"):
        derived_avro(pa.schema([("x", pa.time64("ns"))]))


def encoded(columns: pa.Schema, avro: Json, rows: list[Any]) -> list[bytes]:
    program = written_program(columns, parse_avro(json.dumps(avro)))
    batch = pa.RecordBatch.from_pylist(rows, schema=columns)
    return AvroEncoder(columns, program).encode(batch).to_pylist()


def test_a_row_that_has_no_form_is_an_error_with_its_row_and_column() -> None:
    columns = pa.schema([("x", pa.int64())])
    with pytest.raises(ValueError, match="row 1 can't be written as Avro: column 'x' is null"):
        encoded(columns, record(field("x", "long")), [{"x": 1}, {"x": None}])
    enum = record(field("x", {"type": "enum", "name": "E", "symbols": ["A"]}))
    with pytest.raises(ValueError, match="'B', which is not a symbol"):
        encoded(pa.schema([("x", pa.string())]), enum, [{"x": "B"}])
    with pytest.raises(ValueError, match="over 2"):
        encoded(pa.schema([("x", pa.uint64())]), record(field("x", "long")), [{"x": 1 << 63}])
    with pytest.raises(PlanError, match=r"R\.x is not a field"):
        encoded(columns, record(field("y", "int", default=0)), [])
    with pytest.raises(PlanError, match=r"R\.y has neither a column"):
        encoded(columns, record(field("x", "long"), field("y", "int")), [])


def test_fields_without_a_column_are_their_default() -> None:
    schema = record(field("y", ["null", "int"], default=None), field("x", "long"))
    rows = encoded(pa.schema([("x", pa.int64())]), schema, [{"x": 3}])
    assert unpacked(schema, rows[0]) == {"y": None, "x": 3}


def test_headers_choose_the_program_and_unknown_ids_are_bad() -> None:
    first, second = record(field("x", "int")), record(field("y", "string"), field("x", "long"))
    schemas = {1: first, 2: second}
    columns = pa.schema([("x", pa.int64())])
    asked: list[int] = []

    def lookup(schema_id: int) -> Any:
        asked.append(schema_id)
        if schema_id not in schemas:
            return f"the registry has no schema {schema_id}"
        return avro_program(parse_avro(json.dumps(schemas[schema_id])), columns)

    def headed(schema_id: int, value: Any) -> bytes:
        return b"\0" + schema_id.to_bytes(4, "big") + packed(schemas[schema_id], value)

    rows = [headed(1, {"x": 1}), headed(2, {"y": "a", "x": 2}), headed(1, {"x": 3})]
    reader = AvroDecoder(columns, lookup=lookup)
    found = reader.decode(
        pa.array([*rows, b"\0\0\0\0\x09\x02", b"\1\0\0\0\1\2", b"\0"], pa.binary())
    )
    assert found.batch["x"].to_pylist() == [1, 2, 3]
    assert found.bad[0].reason == "the registry has no schema 9"
    assert all("does not start with a schema id" in bad.reason for bad in found.bad[1:])
    assert asked == [1, 2, 9]

    def away(schema_id: int) -> Any:
        raise ConnectionError("the registry is away")

    reader = AvroDecoder(columns, lookup=away)
    with pytest.raises(ConnectionError, match="away"):
        reader.decode(pa.array(rows[:1]))


def test_an_encoder_writes_its_header() -> None:
    columns = pa.schema([("x", pa.int32())])
    schema = parse_avro(json.dumps(record(field("x", "int"))))
    encoder = AvroEncoder(columns, written_program(columns, schema), header=b"\0\0\0\1\2")
    rows = encoder.encode(pa.record_batch({"x": pa.array([1], pa.int32())}))
    assert rows.to_pylist() == [b"\0\0\0\1\2\2"]
