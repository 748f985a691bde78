"""Avro types as Arrow types, and back.

One job: the table below. `arrow_schema` has a schema's columns unless the user asks for other
types; `derived_avro` is the schema that columns are written with if none is given.

| Avro | Arrow |
|---|---|
| null, boolean, int, long, float, double | null, bool, int32, int64, float32, float64 |
| bytes, string, fixed | binary, string, fixed_size_binary |
| enum | string (the symbol) |
| array, map, record | list, map<string, …>, struct |
| union of null and one other | the other, nullable |
| union of int and long; of float and double | int64; float64 |
| any other union | struct<member0, member1, …>, one per branch but null; all but one are null |
| decimal | decimal128, over 38 digits decimal256, over 76 plain binary |
| date, time-millis, time-micros | date32, time32[ms], time64[us] |
| timestamp-millis, -micros, -nanos | timestamp[ms, us, ns; UTC] |
| local-timestamp-millis, -micros, -nanos | timestamp[ms, us, ns] |
| uuid | string, of a fixed(16) fixed_size_binary(16) |
| duration | month_day_nano_interval |

The names of a union's members are Spark's. A recursive type has no columns: it is an error that
names the type, but the field may be skipped. Columns of other Arrow types are written as the
smallest Avro type that fits (int8 as int, uint32 and uint64 as long: a value over 2⁶³ − 1 is an
error then).
"""

from __future__ import annotations

import pyarrow as pa

from fabric.errors import PlanError
from fabric.io.codecs.avro_schema import NAME, PRIMITIVES, AvroField, AvroType
from fabric.plan.places import RowFormat

PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
TIMED = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "duration": pa.month_day_nano_interval(),
}
WIDER = ({"int", "long"}, {"float", "double"})  # unions that are one column


def arrow_schema(avro: AvroType) -> pa.Schema:
    """The columns of a record, with the types of the table above.

    Raises
    ------
    PlanError
        If the schema is not a record, or a type in it is recursive.
    Examples
    --------
    >>> from fabric.io.codecs.avro_schema import parse_avro
    >>> field = '{"name": "x", "type": ["null", "long"]}'
    >>> arrow_schema(parse_avro('{"type": "record", "name": "P", "fields": [' + field + "]}"))
    x: int64
    """
    record = row_of(avro)
    return pa.schema([(one.name, arrow_type(one.type, (record,))) for one in record.fields])


def row_of(avro: AvroType) -> AvroType:
    """The record type of a message's schema, which may be a union of null and the record."""
    named = [branch for branch in avro.branches if branch.kind != "null"]
    found = named[0] if avro.kind == "union" and len(named) == 1 else avro
    if found.kind != "record":
        raise PlanError(f"the Avro schema is {found}, expected a record whose fields are columns")
    return found


def arrow_type(avro: AvroType, outer: tuple[AvroType, ...] = ()) -> pa.DataType:
    """The Arrow type of one Avro type; `outer` are the records around it."""
    if avro.kind == "union":
        return _union_type(avro, outer)
    if avro.kind == "record":
        if any(avro is one for one in outer):
            raise PlanError(
                f"Avro record {avro.name!r} contains itself, which columns can't represent; "
                "give a schema without the recursive field"
            )
        inner = (*outer, avro)
        return pa.struct([pa.field(f.name, arrow_type(f.type, inner)) for f in avro.fields])
    if avro.kind == "array":
        return pa.list_(arrow_type(avro.values, outer))
    if avro.kind == "map":
        return pa.map_(pa.string(), arrow_type(avro.values, outer))
    if avro.logical == "decimal" and avro.precision <= 76:
        wide = pa.decimal256 if avro.precision > 38 else pa.decimal128
        return wide(avro.precision, avro.scale)
    if found := TIMED.get(avro.logical):
        return found
    return pa.binary(avro.size) if avro.kind == "fixed" else PLAIN[avro.kind]


def _union_type(avro: AvroType, outer: tuple[AvroType, ...]) -> pa.DataType:
    members = members_of(avro)
    if not members:
        return pa.null()
    if len(members) == 1:
        return arrow_type(members[0], outer)
    if any({str(one) for one in members} == both for both in WIDER):
        return PLAIN["long" if members[0].kind in WIDER[0] else "double"]
    return pa.struct([(f"member{n}", arrow_type(one, outer)) for n, one in enumerate(members)])


def members_of(avro: AvroType) -> list[AvroType]:
    """The branches of a union except null; any other type is its own only branch."""
    return [one for one in (avro.branches or (avro,)) if one.kind != "null"]


def record_name(format: RowFormat) -> str:
    """The name of the record derived from the columns: the option ``record_name``, or ``Row``."""
    return str(dict(format.options).get("record_name", "Row"))


def derived_avro(schema: pa.Schema, name: str = "Row") -> AvroType:
    """The record that rows of `schema` are written as; every field may be null.

    Raises
    ------
    PlanError
        If Avro can't represent a column's name or type.
    Examples
    --------
    >>> from fabric.io.codecs.avro_schema import written
    >>> written(derived_avro(pa.schema([("x", pa.int8())])))  # doctest: +NORMALIZE_WHITESPACE
    '{"type": "record", "name": "Row",
      "fields": [{"name": "x", "type": ["null", "int"], "default": null}]}'
    """
    return _derived_record(list(schema), name)


def _derived_record(fields: list[pa.Field], name: str) -> AvroType:
    made = AvroType("record", name=name)
    for one in fields:
        if not NAME.match(one.name):
            raise PlanError(
                f"column {one.name!r} can't be an Avro field: a name has letters, digits and _"
            )
        apart = "_" if one.name in PRIMITIVES else ""
        inner = _derived(one.type, one.name, f"{name}.{one.name}{apart}")
        union = inner if inner.kind == "null" else _nullable(inner)
        made.fields.append(AvroField(one.name, union, None))
    return made


def _nullable(avro: AvroType) -> AvroType:
    return AvroType("union", branches=(AvroType("null"), avro))


def _derived(arrow: pa.DataType, path: str, name: str) -> AvroType:
    """The Avro type of one Arrow type; `name` is for records and fixed, unique by its path."""
    if pa.types.is_struct(arrow):
        return _derived_record(list(arrow), name)
    if pa.types.is_map(arrow):
        if not pa.types.is_string(arrow.key_type):
            raise PlanError(
                f"column {path!r} has keys of {arrow.key_type}; the keys of an Avro map are strings"
            )
        return AvroType("map", items=_nullable(_derived(arrow.item_type, path, f"{name}.value")))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return AvroType("array", items=_nullable(_derived(arrow.value_type, path, f"{name}.item")))
    if pa.types.is_fixed_size_binary(arrow):
        return AvroType("fixed", name=name, size=arrow.byte_width)
    if pa.types.is_decimal128(arrow) or pa.types.is_decimal256(arrow):
        if not 0 <= arrow.scale <= arrow.precision:
            raise PlanError(f"column {path!r} is {arrow}; Avro needs a scale from 0 to precision")
        return AvroType("bytes", logical="decimal", precision=arrow.precision, scale=arrow.scale)
    if pa.types.is_interval(arrow):
        return AvroType("fixed", name=name, size=12, logical="duration")
    if pa.types.is_timestamp(arrow):
        local = "" if arrow.tz else "local-"
        unit = {"s": "millis", "ms": "millis", "us": "micros", "ns": "nanos"}[arrow.unit]
        return AvroType("long", logical=f"{local}timestamp-{unit}")
    if found := DERIVED.get(str(arrow)):
        return AvroType(found[0], logical=found[1])
    raise PlanError(f"column {path!r} is {arrow}, which Avro can't represent; cast it first")


DERIVED = {
    **{str(arrow): (kind, "") for kind, arrow in PLAIN.items() if kind != "enum"},
    **{str(t): ("int", "") for t in (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())},
    **{str(t): ("long", "") for t in (pa.uint32(), pa.uint64())},
    "large_string": ("string", ""),
    "large_binary": ("bytes", ""),
    "date32[day]": ("int", "date"),
    "time32[s]": ("int", "time-millis"),
    "time32[ms]": ("int", "time-millis"),
    "time64[us]": ("long", "time-micros"),
    **{f"duration[{unit}]": ("long", "") for unit in ("s", "ms", "us", "ns")},
}


def matching(writer: AvroType, reader: AvroType) -> bool:
    """Whether bytes of `writer` may be read as `reader`: the same type, or a promotion of it.

    Names are compared without namespaces, as the specification says; aliases count.
    """
    if writer.kind == reader.kind and writer.name:
        names = {reader.short_name, *(alias.rpartition(".")[2] for alias in reader.aliases)}
        return writer.short_name in names and writer.size == reader.size
    return writer.kind == reader.kind or reader.kind in PROMOTED.get(writer.kind, ())


PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
