"""Which column of Arrow goes into which column of PostgreSQL.

One job: `ColumnType`, `made_type`, the type of a column that Fabric makes, and `fitting_type`, that
of one that is there. Nothing is rounded, cut or overflows on the way: a column that could is
refused before the job starts, a value that does not fit (a text that is too long) by the server
when it is written.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.io.sinks.json_texts import has_json_form
from fabric.plan.types import flat_type, is_list

_SQL = {
    "bool": "boolean", "int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real",
    "float8": "double precision", "numeric": "numeric", "text": "text", "bytea": "bytea",
    "json": "json", "jsonb": "jsonb", "uuid": "uuid", "date": "date", "time": "time",
    "timestamp": "timestamp", "timestamptz": "timestamptz", "interval": "interval",
}  # fmt: skip
_OIDS = {
    "bool": 16, "bytea": 17, "int8": 20, "int2": 21, "int4": 23, "text": 25, "json": 114,
    "float4": 700, "float8": 701, "date": 1082, "time": 1083, "timestamp": 1114,
    "timestamptz": 1184, "interval": 1186, "numeric": 1700, "uuid": 2950, "jsonb": 3802,
}  # fmt: skip
_TEXTS = ("text", "varchar", "bpchar", "citext")
_KINDS: dict[pa.DataType, tuple[str, ...]] = {
    pa.bool_(): ("bool",),
    pa.int8(): ("int2", "int4", "int8", "numeric"),
    pa.uint8(): ("int2", "int4", "int8", "numeric"),
    pa.int16(): ("int2", "int4", "int8", "numeric"),
    pa.uint16(): ("int4", "int8", "numeric"),
    pa.int32(): ("int4", "int8", "numeric"),
    pa.uint32(): ("int8", "numeric"),
    pa.int64(): ("int8", "numeric"),
    pa.uint64(): ("numeric",),
    pa.float16(): ("float4", "float8"),
    pa.float32(): ("float4", "float8"),
    pa.float64(): ("float8",),
    pa.string(): ("text", "json", "jsonb", "uuid"),
    pa.large_string(): ("text", "json", "jsonb", "uuid"),
    pa.binary(): ("bytea", "uuid"),
    pa.large_binary(): ("bytea", "uuid"),
    pa.date32(): ("date",),
}
_DIGITS = {1: 3, 2: 5, 4: 10, 8: 20}
_FRACTION = {"s": 0, "ms": 3, "us": 6, "ns": 6}


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column of a table: its name, how its values are encoded, and its type in SQL.

    `element` is what an array holds, `oid` the server's number of the type.
    """

    name: str
    kind: str
    sql: str
    oid: int = 0
    element: ColumnType | None = None


@dataclass(frozen=True, slots=True)
class FoundType:
    """The type of a column as the server's catalogue has it, of a domain what it is made of.

    `name` is that of the type itself (``int4``, ``_int4``), `modifier` its ``atttypmod``; `label`
    says that it is an enum.
    """

    name: str
    sql: str
    oid: int
    modifier: int = -1
    label: bool = False
    element: FoundType | None = None


def made_type(dtype: pa.DataType, name: str) -> ColumnType:
    """The column that is made for values of a type.

    >>> made_type(pa.uint64(), "n").sql, made_type(pa.list_(pa.decimal128(9, 2)), "d").sql
    ('numeric(20, 0)', 'numeric(9, 2)[]')
    >>> made_type(pa.struct([("a", pa.int8())]), "s").sql
    'jsonb'

    Raises
    ------
    PlanError
        PostgreSQL has no type for it.
    """
    kinds = _kinds(dtype)
    if not kinds:
        raise PlanError(
            f"PostgreSQL has no type for column {name!r} of type {dtype}; cast it to a number or a "
            "string, or leave it out"
        )
    if kinds[0] == "array":
        element = made_type(_flat(dtype).value_type, name)
        return ColumnType(name, "array", f"{element.sql}[]", element=element)
    sql = _SQL[kinds[0]]
    if kinds[0] == "numeric":
        whole, fraction = _room(dtype)
        sql = f"numeric({whole + fraction}, {fraction})"
    return ColumnType(name, kinds[0], sql, _OIDS[kinds[0]])


def fitting_type(dtype: pa.DataType, name: str, found: FoundType) -> ColumnType | None:
    """How values of a type are written to a column that is there; None: they don't fit."""
    dtype = _flat(dtype)
    kind = "text" if found.label or found.name in _TEXTS else found.name
    if t.is_null(dtype):
        return ColumnType(name, "null", found.sql, found.oid)
    if found.element is not None:
        if not is_list(dtype):
            return None
        element = fitting_type(dtype.value_type, name, found.element)
        if element is None or element.element is not None or _kinds(dtype)[:1] != ("array",):
            return None
        return ColumnType(name, "array", found.sql, found.oid, element)
    fits = kind in _kinds(dtype) and _has_room(dtype, kind, found.modifier)
    return ColumnType(name, kind, found.sql, found.oid) if fits else None


def _flat(dtype: pa.DataType) -> pa.DataType:
    return flat_type(dtype.storage_type if isinstance(dtype, pa.BaseExtensionType) else dtype)


def _kinds(dtype: pa.DataType) -> tuple[str, ...]:
    """What a type can be written as, the best first."""
    dtype = _flat(dtype)
    if (known := _KINDS.get(dtype)) is not None:
        return known
    if t.is_null(dtype):
        return ("text",)
    if t.is_decimal(dtype):
        return ("numeric",)
    if t.is_time(dtype):
        return ("time",)
    if t.is_timestamp(dtype):
        return ("timestamp",) if dtype.tz is None else ("timestamptz",)
    if t.is_duration(dtype) or t.is_interval(dtype):
        return ("interval",)
    texts = ("jsonb", "json") if has_json_form(dtype) else ()
    if is_list(dtype) and not t.is_nested(dtype.value_type) and _kinds(dtype.value_type):
        return ("array", *texts)
    return texts if t.is_nested(dtype) else ()


def _room(dtype: pa.DataType) -> tuple[int, int]:
    """Digits before and behind the point."""
    dtype = _flat(dtype)
    if t.is_integer(dtype):
        return _DIGITS[dtype.byte_width], 0
    scale = max(dtype.scale, 0)
    return max(dtype.precision - dtype.scale, 1 if not scale else 0), scale


def _has_room(dtype: pa.DataType, kind: str, modifier: int) -> bool:
    """Whether the column's own limits (``numeric(9, 2)``, ``timestamp(0)``) round no value."""
    if modifier < 0:
        return True
    if kind == "numeric":
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        scale = (scale ^ 1024) - 1024
        whole, fraction = _room(dtype)
        return fraction <= scale and whole <= precision - scale
    if kind in ("time", "timestamp", "timestamptz"):
        return modifier >= _FRACTION[dtype.unit]
    if kind == "interval":
        unit = dtype.unit if t.is_duration(dtype) else "ns"
        return modifier >> 16 == 0x7FFF and modifier & 0xFFFF >= _FRACTION[unit]
    return True  # a text that is too long is refused by the server
