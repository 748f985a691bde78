"""Protobuf messages as Arrow columns, and back.

One job: the table below. `message_schema` has a message's columns unless the user asks for other
types; `derived_proto` is the .proto text that columns are written with if none is given.

| Protobuf | Arrow |
|---|---|
| double, float, bool, string, bytes | float64, float32, bool, string, binary |
| int32, sint32, sfixed32; int64, sint64, sfixed64 | int32; int64 |
| uint32, fixed32; uint64, fixed64 | uint32; uint64 |
| enum | string (the name; a number without a name is its digits, as in Protobuf's JSON) |
| message, group | struct |
| repeated | list, never null |
| map | map; the last value counts if a key occurs twice |
| google.protobuf.Timestamp, Duration | timestamp[ns, UTC], duration[ns] |
| google.protobuf.Int64Value and the other wrappers | their value, nullable |

An absent field is null if the message tracks presence: `optional`, members of a oneof, messages,
proto2. Otherwise (proto3 without `optional`) it is the type's zero. Each member of a oneof is a
column; at most one of them is not null. A recursive message has no columns: it is an error that
names the message, but the field may be skipped.
"""

from __future__ import annotations

import re

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from fabric.errors import PlanError

F = FieldDescriptor
PLAIN = {
    F.TYPE_DOUBLE: pa.float64(),
    F.TYPE_FLOAT: pa.float32(),
    F.TYPE_BOOL: pa.bool_(),
    F.TYPE_STRING: pa.string(),
    F.TYPE_BYTES: pa.binary(),
    F.TYPE_ENUM: pa.string(),
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), pa.int32()),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64), pa.int64()),
    **dict.fromkeys((F.TYPE_UINT32, F.TYPE_FIXED32), pa.uint32()),
    **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), pa.uint64()),
}
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
MOMENTS = {TIMESTAMP: pa.timestamp("ns", "UTC"), DURATION: pa.duration("ns")}
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
MESSAGES = (F.TYPE_MESSAGE, F.TYPE_GROUP)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def message_schema(message: Descriptor) -> pa.Schema:
    """The columns of a message, with the types of the table above.

    Raises
    ------
    PlanError
        If a message in it is recursive.
    Examples
    --------
    >>> from google.protobuf.duration_pb2 import Duration
    >>> message_schema(Duration.DESCRIPTOR)
    seconds: int64
    nanos: int32
    """
    return pa.schema([(one.name, field_type(one, (message,))) for one in message.fields])


def field_type(field: FieldDescriptor, outer: tuple[Descriptor, ...]) -> pa.DataType:
    """The Arrow type of a field; `outer` are the messages around it."""
    if is_map(field):
        key, value = entry_of(field)
        return pa.map_(field_type(key, outer), field_type(value, outer))
    one = _value_type(field, outer)
    return pa.list_(one) if field.is_repeated else one


def _value_type(field: FieldDescriptor, outer: tuple[Descriptor, ...]) -> pa.DataType:
    message = field.message_type
    if message is None:
        return PLAIN[field.type]
    if (moment := MOMENTS.get(message.full_name)) is not None:
        return moment
    if message.full_name in WRAPPERS:
        return PLAIN[message.fields_by_name["value"].type]
    if any(message.full_name == one.full_name for one in outer):
        raise PlanError(
            f"Protobuf message {message.full_name!r} contains itself, which columns can't "
            f"represent; give a schema without {field.full_name}"
        )
    return pa.struct([(one.name, field_type(one, (*outer, message))) for one in message.fields])


def is_map(field: FieldDescriptor) -> bool:
    """Whether the field is a map."""
    message = field.message_type
    return message is not None and message.GetOptions().map_entry


def entry_of(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor]:
    """Key and value of a map."""
    entry = field.message_type
    assert entry is not None
    names = entry.fields_by_name
    return names["key"], names["value"]


DERIVED = {
    "bool": "bool",
    **dict.fromkeys(("int8", "int16", "int32"), "int32"),
    "int64": "int64",
    **dict.fromkeys(("uint8", "uint16", "uint32"), "uint32"),
    "uint64": "uint64",
    "float": "float",
    "double": "double",
    **dict.fromkeys(("string", "large_string"), "string"),
    **dict.fromkeys(("binary", "large_binary"), "bytes"),
}
KEYS = frozenset(("bool", "int32", "int64", "uint32", "uint64", "string"))


def derived_proto(columns: pa.Schema, name: str = "Row") -> str:
    """The .proto text that rows of `columns` are written with: fields numbered in order, from 1.

    Raises
    ------
    PlanError
        If Protobuf can't represent a column's name or type.
    Examples
    --------
    >>> print(derived_proto(pa.schema([("user", pa.int64()), ("tags", pa.list_(pa.string()))])))
    syntax = "proto3";
    message Row {
      optional int64 user = 1;
      repeated string tags = 2;
    }
    """
    used: set[str] = set()
    body = _derived_message(list(columns), name, used, "")
    imports = [f'import "google/protobuf/{one}.proto";' for one in sorted(used)]
    return "\n".join(['syntax = "proto3";', *imports, body])


def _derived_message(fields: list[pa.Field], name: str, used: set[str], indent: str) -> str:
    inner, lines, nested = f"{indent}  ", [], []
    for number, one in enumerate(fields, 1):
        if not NAME.match(one.name):
            raise PlanError(
                f"column {one.name!r} can't be a Protobuf field: a name has letters, digits and _"
            )
        text, message = _derived_field(one.type, one.name, used, inner)
        nested += [message] if message else []
        lines.append(f"{inner}{text} {one.name} = {number};")
    return "\n".join([f"{indent}message {name} {{", *nested, *lines, f"{indent}}}"])


def _derived_field(
    arrow: pa.DataType, name: str, used: set[str], indent: str
) -> tuple[str, str | None]:
    t = pa.types
    if t.is_list(arrow) or t.is_large_list(arrow):
        text, message = _derived_value(arrow.value_type, name, used, indent)
        return f"repeated {text}", message
    if t.is_map(arrow):
        key, _ = _derived_value(arrow.key_type, name, used, indent)
        value, message = _derived_value(arrow.item_type, name, used, indent)
        if key not in KEYS:
            raise PlanError(
                f"column {name!r} has keys of {arrow.key_type}; the keys of a Protobuf map are "
                "strings, integers or booleans"
            )
        return f"map<{key}, {value}>", message
    text, message = _derived_value(arrow, name, used, indent)
    return f"optional {text}", message


def _derived_value(
    arrow: pa.DataType, name: str, used: set[str], indent: str
) -> tuple[str, str | None]:
    t = pa.types
    if t.is_struct(arrow):
        message = f"{name[:1].upper()}{name[1:]}Fields"
        return message, _derived_message(list(arrow), message, used, indent)
    if t.is_timestamp(arrow) and arrow.tz:
        used.add("timestamp")
        return TIMESTAMP, None
    if t.is_duration(arrow):
        used.add("duration")
        return DURATION, None
    if (found := DERIVED.get(str(arrow))) is None:
        raise PlanError(
            f"column {name!r} is {arrow}, which Protobuf can't represent; cast it first"
        )
    return found, None
