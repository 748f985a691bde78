"""Protobuf messages to columns and back; the oracle is google.protobuf."""

from __future__ import annotations

import datetime as dt
import os
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric._cython.codecs.binary import ProtobufDecoder, ProtobufEncoder
from fabric.errors import DataError, PlanError
from fabric.io.codecs.protobuf_arrow import MOMENTS, WRAPPERS, derived_proto, is_map, message_schema
from fabric.io.codecs.protobuf_program import protobuf_program
from fabric.io.codecs.protobuf_schema import file_of, indexes_of, message_at, message_of

MANY = 1000 if os.environ.get("FABRIC_SOAK") else 15
SLOW = settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))

TEXT = """
syntax = "proto3";
package test;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum Color { NONE = 0; RED = 1; BLUE = -5; }
message Inner { int32 a = 1; optional string b = 2; repeated sint64 c = 300; Deep deep = 4; }
message Deep { bytes d = 1; map<string, int32> m = 2; }
message All {
  double f_double = 1; float f_float = 2; int32 f_int32 = 3; int64 f_int64 = 4;
  uint32 f_uint32 = 5; uint64 f_uint64 = 6; sint32 f_sint32 = 7; sint64 f_sint64 = 8;
  fixed32 f_fixed32 = 9; fixed64 f_fixed64 = 10; sfixed32 f_sfixed32 = 11; sfixed64 f_sfixed64 = 12;
  bool f_bool = 13; string f_string = 14; bytes f_bytes = 15; Color f_enum = 16;
  optional int32 o_int32 = 17; optional string o_string = 18; optional Color o_enum = 19;
  Inner inner = 20;
  repeated int32 r_int32 = 21; repeated double r_double = 22; repeated string r_string = 23;
  repeated Color r_enum = 24; repeated Inner r_inner = 25; repeated bool r_bool = 26;
  repeated int64 r_unpacked = 27 [packed = false];
  map<string, Inner> m_inner = 28; map<int64, string> m_string = 29; map<bool, Color> m_enum = 30;
  oneof choice { int32 c_int32 = 31; string c_string = 32; Inner c_inner = 33; }
  google.protobuf.Timestamp at = 34; google.protobuf.Duration took = 35;
  repeated google.protobuf.Timestamp times = 36; map<string, google.protobuf.Duration> waits = 37;
  google.protobuf.Int64Value w_int64 = 38; google.protobuf.StringValue w_string = 39;
  google.protobuf.BoolValue w_bool = 40; repeated google.protobuf.DoubleValue r_double_value = 41;
}
"""
OLD = """
syntax = "proto2";
enum Kind { ONE = 1; TWO = 2; }
message Old {
  required int32 id = 1;
  optional int32 n = 2 [default = 7];
  optional Kind kind = 3;
  repeated Kind kinds = 4;
  repeated int32 unpacked = 5;
  optional group Box = 6 {
    optional string text = 1; repeated group More = 2 { optional int32 x = 1; }
  }
}
"""
ALL = message_of(file_of(TEXT), "All")
F = FieldDescriptor
BITS = {
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), (-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64), (-(1 << 63), (1 << 63) - 1)),
    **dict.fromkeys((F.TYPE_UINT32, F.TYPE_FIXED32), (0, (1 << 32) - 1)),
    **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), (0, (1 << 64) - 1)),
}


def filled(data: st.DataObject, message: Any) -> Any:
    """Set some of a message's fields."""
    for one in message.DESCRIPTOR.fields:
        if not data.draw(st.sampled_from((True, False, False))):
            continue
        target = getattr(message, one.name)
        if is_map(one):
            key, value = one.message_type.fields
            for _ in range(data.draw(st.integers(0, 2))):
                at = data.draw(scalar(key))
                if value.message_type is not None:
                    inside(data, target[at])
                else:
                    target[at] = data.draw(scalar(value))
        elif one.is_repeated:
            for _ in range(data.draw(st.integers(0, 3))):
                if one.message_type is not None:
                    inside(data, target.add())
                else:
                    target.append(data.draw(scalar(one)))
        elif one.message_type is not None:
            target.SetInParent()
            inside(data, target)
        else:
            setattr(message, one.name, data.draw(scalar(one)))
    return message


def inside(data: st.DataObject, message: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if name.endswith("Timestamp"):
        message.seconds = data.draw(st.integers(-9_000_000_000, 9_000_000_000))
        message.nanos = data.draw(st.integers(0, 999_999_999))
    elif name.endswith("Duration"):
        message.FromNanoseconds(data.draw(st.integers(-(1 << 63), (1 << 63) - 1)))
    else:
        filled(data, message)


def scalar(one: FieldDescriptor) -> st.SearchStrategy[Any]:
    if one.type in BITS:
        return st.integers(*BITS[one.type])
    if one.type in (F.TYPE_DOUBLE, F.TYPE_FLOAT):
        return st.floats(width=32, allow_nan=False)
    if one.type == F.TYPE_BOOL:
        return st.booleans()
    if one.type == F.TYPE_STRING:
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    if one.type == F.TYPE_BYTES:
        return st.binary(max_size=8)
    numbers = [value.number for value in one.enum_type.values]
    return st.sampled_from(numbers if one.enum_type.is_closed else [*numbers, 99, -99])


def expected(message: Any) -> dict[str, Any]:
    """What a row must say of a message."""
    found: dict[str, Any] = {}
    for one in message.DESCRIPTOR.fields:
        value = getattr(message, one.name)
        if is_map(one):
            _, kind = one.message_type.fields
            found[one.name] = sorted((key, shown(kind, value[key])) for key in value)
        elif one.is_repeated:
            found[one.name] = [shown(one, each) for each in value]
        elif one.has_presence and not message.HasField(one.name):
            found[one.name] = None
        else:
            found[one.name] = shown(one, value)
    return found


def shown(one: FieldDescriptor, value: Any) -> Any:
    message = one.message_type
    if message is None:
        if one.enum_type is None:
            return value
        names = one.enum_type.values_by_number
        return names[value].name if value in names else str(value)
    if message.full_name in MOMENTS:
        return value.seconds * 10**9 + value.nanos
    return value.value if message.full_name in WRAPPERS else expected(value)


def plain(value: Any, dtype: pa.DataType) -> Any:
    """A value of a batch, in the form of `expected`: times as nanoseconds, maps sorted."""
    if value is None:
        return None
    if pa.types.is_struct(dtype):
        return {one.name: plain(value[one.name], one.type) for one in dtype}
    if pa.types.is_map(dtype):
        pairs = [(plain(k, dtype.key_type), plain(v, dtype.item_type)) for k, v in value]
        return sorted(pairs, key=lambda pair: pair[0])
    if pa.types.is_list(dtype):
        return [plain(one, dtype.value_type) for one in value]
    return value


def as_numbers(dtype: pa.DataType) -> pa.DataType:
    """The type with int64 instead of times: Python's have no nanoseconds."""
    if pa.types.is_timestamp(dtype) or pa.types.is_duration(dtype):
        return pa.int64()
    if pa.types.is_struct(dtype):
        return pa.struct([(one.name, as_numbers(one.type)) for one in dtype])
    if pa.types.is_map(dtype):
        return pa.map_(dtype.key_type, as_numbers(dtype.item_type))
    return pa.list_(as_numbers(dtype.value_type)) if pa.types.is_list(dtype) else dtype


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = [one.cast(as_numbers(one.type)) for one in batch.columns]
    numbers = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    return [
        {one.name: plain(row[one.name], one.type) for one in numbers.schema}
        for row in numbers.to_pylist()
    ]


def decoder(message: Descriptor, columns: pa.Schema | None = None) -> ProtobufDecoder:
    columns = message_schema(message) if columns is None else columns
    return ProtobufDecoder(columns, protobuf_program(message, columns))


def encoded(message: Descriptor, batch: pa.RecordBatch) -> list[bytes]:
    program = protobuf_program(message, batch.schema, writes=True)
    return ProtobufEncoder(batch.schema, program).encode(batch).to_pylist()


@SLOW
@given(st.data())
def test_rows_are_what_google_reads_and_writes(data: st.DataObject) -> None:
    messages = [filled(data, GetMessageClass(ALL)()) for _ in range(data.draw(st.integers(0, 3)))]
    rows = [one.SerializeToString() for one in messages]
    found = decoder(ALL).decode(pa.array(rows, pa.binary()))
    assert found.bad == ()
    found.batch.validate(full=True)
    assert rows_of(found.batch) == [expected(one) for one in messages]
    again = encoded(ALL, found.batch)
    assert [GetMessageClass(ALL).FromString(one) for one in again] == messages
    assert encoded(ALL, found.batch.slice(1)) == again[1:]


@SLOW
@given(st.data())
def test_some_columns_are_those_of_all(data: st.DataObject) -> None:
    rows = [filled(data, GetMessageClass(ALL)()).SerializeToString() for _ in range(2)]
    full = decoder(ALL).decode(pa.array(rows)).batch
    kept = data.draw(st.lists(st.sampled_from(full.schema.names), unique=True, max_size=5))
    columns = pa.schema([full.schema.field(name) for name in kept])
    found = decoder(ALL, columns).decode(pa.array(rows))
    assert found.bad == ()
    assert found.batch.num_rows == 2
    assert found.batch.equals(full.select(kept))


@SLOW
@given(st.data())
def test_poison_is_a_bad_row_or_what_google_reads(data: st.DataObject) -> None:
    good = filled(data, GetMessageClass(ALL)()).SerializeToString()
    poison = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(poison)))
        cut = data.draw(st.integers(0, 2))
        poison[at : at + cut] = data.draw(st.binary(max_size=3))
    found = decoder(ALL).decode(pa.array([good, bytes(poison), good], pa.binary()))
    found.batch.validate(full=True)
    last = found.batch.num_rows - 1
    assert found.batch.slice(0, 1).equals(found.batch.slice(last))
    assert [bad.row for bad in found.bad] in ([], [1])
    try:
        theirs = GetMessageClass(ALL).FromString(bytes(poison))
    except DecodeError:
        assert found.bad, "google refuses it"
        return
    if not found.bad:
        assert str(rows_of(found.batch)[1]) == str(expected(theirs))


def old(**more: Any) -> tuple[Descriptor, Any]:
    message = message_of(file_of(OLD), "Old")
    return message, GetMessageClass(message)(id=1, **more)


def test_proto2_has_presence_groups_and_closed_enums() -> None:
    message, one = old(kind=2, kinds=[1, 2], unpacked=[1, 300, -1])
    one.box.text = "x"
    one.box.more.add().x = 5
    one.box.more.add()
    found = decoder(message).decode(pa.array([one.SerializeToString(), b"\x08\x02"]))
    assert found.bad == ()
    full = expected(one)
    assert rows_of(found.batch)[0] == full
    empty = {"id": 2, "n": None, "kind": None, "kinds": [], "unpacked": [], "box": None}
    assert rows_of(found.batch)[1] == empty
    back = [GetMessageClass(message).FromString(raw) for raw in encoded(message, found.batch)]
    assert back[0] == one
    # A value without a name is as one unknown; so is one among others.
    odd = decoder(message).decode(pa.array([b"\x08\x01\x18\x09\x20\x01\x20\x09\x20\x02"]))
    assert (odd.batch["kind"][0].as_py(), odd.batch["kinds"][0].as_py()) == (None, ["ONE", "TWO"])
    (bad,) = decoder(message).decode(pa.array([b""])).bad
    assert bad.reason == "required field 1 is missing"


def test_what_occurs_twice_is_the_last_or_merged() -> None:
    kind = GetMessageClass(ALL)
    first, second = kind(f_int32=1, c_int32=4), kind(f_int32=2, c_string="x")
    first.inner.a, second.inner.b = 5, "y"
    first.m_string[1], second.m_string[1] = "old", "new"
    first.m_string[2] = "two"
    raw = first.SerializeToString() + second.SerializeToString()
    found = decoder(ALL).decode(pa.array([raw]))
    assert rows_of(found.batch) == [expected(kind.FromString(raw))]
    assert found.batch["c_int32"][0].as_py() is None
    # The member of the oneof that came last counts also where nobody reads it.
    alone = decoder(ALL, pa.schema([("c_int32", pa.int32())])).decode(pa.array([raw]))
    assert alone.batch["c_int32"].to_pylist() == [None]


def test_packed_and_unpacked_are_read_as_either() -> None:
    columns = pa.schema([("r_int32", pa.list_(pa.int32())), ("r_unpacked", pa.list_(pa.int64()))])
    unpacked = b"\xa8\x01\x01\xa8\x01\x02"
    packed = b"\xaa\x01\x02\x01\x02\xda\x01\x02\x03\x04"
    found = decoder(ALL, columns).decode(pa.array([unpacked + packed]))
    assert found.batch.to_pylist() == [{"r_int32": [1, 2, 1, 2], "r_unpacked": [3, 4]}]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"\x08", "truncated or corrupt at byte 0"),
        (b"\x00\x00", "corrupt"),  # field 0
        (b"\x0e", "corrupt"),  # wire type 6
        (b"\x0c", "corrupt"),  # the end of no group
        (b"\xff" * 11, "corrupt"),
        (b"\x72\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "truncated"),  # a length of 2^64 - 1
        (b"\x72\x02\xc3\x28", "not UTF-8"),
        (b"\xa2\x01\x02\x08", "truncated"),
        (b"\xaa\x01\x01\x80", "truncated"),  # packed
        (b"\xc3\x3e" * 500, "corrupt"),  # groups in each other
        (b"\x92\x02\x02\x10\x7b", ""),
        (b"\x92\x02\x06\x10\xff\xff\xff\xff\x0f", "nanoseconds"),  # a time of -1 ns
        (
            b"\x92\x02\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01",
            "out of its",
        ),
    ],
)
def test_damaged_messages_are_told_with_their_reason(row: bytes, reason: str) -> None:
    found = decoder(ALL).decode(pa.array([row]))
    assert ([bad.reason for bad in found.bad] or [""])[0].count(reason) == 1 or not reason
    assert bool(found.bad) == bool(reason)


def test_a_message_that_holds_itself_is_refused_by_name_and_skipped() -> None:
    node = message_of(
        file_of('syntax = "proto3"; message Node { int32 v = 1; Node next = 2; }'), ""
    )
    with pytest.raises(PlanError, match="'Node' contains itself"):
        message_schema(node)
    one = GetMessageClass(node)(v=1)
    one.next.next.v = 3
    found = decoder(node, pa.schema([("v", pa.int32())])).decode(
        pa.array([one.SerializeToString()])
    )
    assert found.batch.to_pylist() == [{"v": 1}]


def test_columns_may_be_wider_and_missing_ones_are_null() -> None:
    columns = pa.schema(
        [
            ("f_int32", pa.int64()), ("f_float", pa.float64()), ("f_enum", pa.int32()),
            ("at", pa.timestamp("ms", "UTC")), ("nobody", pa.string()),
        ]
    )  # fmt: skip
    one = GetMessageClass(ALL)(f_int32=-3, f_float=0.5, f_enum=77)
    one.at.FromMilliseconds(-1)
    fine = GetMessageClass(ALL)()
    fine.at.FromNanoseconds(1)
    rows = [one.SerializeToString(), fine.SerializeToString()]
    found = decoder(ALL, columns).decode(pa.array(rows))
    at = dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC)
    assert found.batch.to_pylist() == [
        {"f_int32": -3, "f_float": 0.5, "f_enum": 77, "at": at, "nobody": None}
    ]
    assert "more precise than" in found.bad[0].reason
    with pytest.raises(PlanError, match=r"test\.All\.f_int64 is int64, .* column of int32"):
        decoder(ALL, pa.schema([("f_int64", pa.int32())]))


def test_what_can_not_be_written_is_an_error_by_row_and_column() -> None:
    def write(columns: dict[str, pa.Array]) -> list[bytes]:
        return encoded(ALL, pa.record_batch(columns))

    with pytest.raises(ValueError, match="'f_enum' is 'GREEN', which is not a value"):
        write({"f_enum": pa.array(["RED", "GREEN"])})
    with pytest.raises(ValueError, match="'c_string' is the second non-null member of its oneof"):
        write({"c_int32": pa.array([1], pa.int32()), "c_string": pa.array(["x"])})
    with pytest.raises(ValueError, match="'r_int32' has a list that contains null"):
        write({"r_int32": pa.array([[1, None]], pa.list_(pa.int32()))})
    with pytest.raises(ValueError, match="'f_uint32' is out of its field's range"):
        write({"f_uint32": pa.array([-1], pa.int8())})
    with pytest.raises(PlanError, match="'nobody' is not a field"):
        write({"nobody": pa.array([1])})
    message, _ = old()
    with pytest.raises(PlanError, match=r"required Protobuf field Old\.id has no column"):
        encoded(message, pa.record_batch({"n": pa.array([1], pa.int32())}))


def test_columns_come_back_by_the_text_derived_from_them() -> None:
    columns = pa.schema(
        [
            ("a", pa.int8()), ("b", pa.uint64()), ("c", pa.string()), ("d", pa.list_(pa.float64())),
            ("e", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.bool_())])))])),
            ("f", pa.map_(pa.string(), pa.binary())), ("g", pa.timestamp("us", "UTC")),
            ("h", pa.duration("ms")), ("i", pa.float32()),
        ]
    )  # fmt: skip
    rows = [
        {"a": -1, "b": 1 << 63, "c": "", "d": [0.5], "e": {"x": 0, "y": [{"z": None}]},
         "f": [("k", b"v")], "g": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
         "h": dt.timedelta(milliseconds=-1), "i": 0.0},
        {"a": 0, "d": [], "f": []},
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, schema=columns)
    message = message_of(file_of(derived_proto(columns)), "Row")
    found = decoder(message, columns).decode(pa.array(encoded(message, batch)))
    assert found.bad == ()
    assert found.batch.to_pylist() == batch.to_pylist()
    with pytest.raises(PlanError, match="'x' is decimal128"):
        derived_proto(pa.schema([("x", pa.decimal128(3))]))


def test_messages_have_their_place_in_a_file() -> None:
    text = 'syntax = "proto3"; message A {} message B { message C {} message D { message E {} } }'
    file = file_of(text)
    inner = message_of(file, "E")
    assert indexes_of(inner) == (1, 1, 0)
    assert message_at(file, (1, 1, 0)) is inner
    with pytest.raises(DataError, match=r"no message with the indexes \[1, 7\]"):
        message_at(file, (1, 7))
    with pytest.raises(
        PlanError, match=r"'F' does not name one message of the file; it has A, B, B\.C"
    ):
        message_of(file, "F")


def test_texts_that_are_wrong_are_refused_with_the_compilers_words() -> None:
    with pytest.raises(DataError, match=r"text is invalid: schema\.proto:1:28"):
        file_of('syntax = "proto3"; message {}')
    with pytest.raises(DataError, match=r"file name '\.\./x' is not allowed"):
        file_of('syntax = "proto3";', (("../x", ""),))


def test_a_compiled_file_needs_no_compiler() -> None:
    import base64

    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    made = FileDescriptorProto()
    ALL.file.CopyToProto(made)
    for compiled in (FileDescriptorSet(file=[made]), made):
        text = base64.b64encode(compiled.SerializeToString()).decode()
        assert message_of(file_of(text), "All").full_name == "test.All"
