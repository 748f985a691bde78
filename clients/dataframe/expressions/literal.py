"""Python values and type names, as plan literals and Arrow types.

One job: decide which Arrow type a Python constant has. Integers that fit are int32, as in Spark and
Polars; arithmetic then widens to the type of the column beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.expr import Literal
from fabric.plan.faults import with_article

if TYPE_CHECKING:
    import numpy as np


DTypeLike: TypeAlias = pa.DataType | str | type
"""What `cast` takes: an Arrow type, a Spark, Polars or Arrow name, or a Python class."""
PythonValue: TypeAlias = (
    "bool | int | float | str | bytes | Decimal | date | datetime | time | timedelta"
    " | pa.Scalar | np.generic | None"
)
"""A constant in an expression."""
SchemaLike: TypeAlias = pa.Schema | Mapping[str, DTypeLike]
"""Columns by name, in order."""

_CLASSES: dict[type, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bool: pa.bool_(),
    date: pa.date32(),
    datetime: pa.timestamp("us"),
    timedelta: pa.duration("us"),
    Decimal: pa.decimal128(38, 18),
}
_NAMES: dict[str, pa.DataType] = {
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "boolean": pa.bool_(),
    "utf8": pa.string(),
    "str": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "datetime": pa.timestamp("us"),
    "decimal": pa.decimal128(10, 0),
}
_DECIMAL = re.compile(r"decimal(?:128)?\((\d+),\s*(-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([\w/+:\-]+)\]")


def to_dtype(dtype: DTypeLike) -> pa.DataType:
    """The Arrow type that `dtype` names.

    >>> to_dtype("bigint"), to_dtype(float), to_dtype("decimal(10, 2)")
    (DataType(int64), DataType(double), Decimal128Type(decimal128(10, 2)))
    """
    if isinstance(dtype, pa.DataType):
        return dtype
    if isinstance(dtype, type) and dtype in _CLASSES:
        return _CLASSES[dtype]
    name = str(dtype).lower().strip()
    if name in _NAMES:
        return _NAMES[name]
    if match := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := _ZONED.fullmatch(str(dtype).strip()):
        return pa.timestamp(match[1], match[2])
    if (nested := nested_dtype(str(dtype).strip(), to_dtype)) is not None:
        return nested
    try:
        return pa.type_for_alias(name)
    except ValueError:
        raise PlanError(
            f"{dtype!r} is not a valid type; use an Arrow type such as pa.int64(), or a name such "
            "as 'int64', 'double', 'string', 'date', 'timestamp', 'decimal(10, 2)'"
        ) from None


def to_schema(given: SchemaLike, verb: str, name: str = "schema") -> pa.Schema:
    """The Arrow schema that argument `name` of `verb` means.

    >>> to_schema({"a": "bigint"}, "process").names
    ['a']
    """
    if isinstance(given, pa.Schema):
        return given
    if isinstance(given, Mapping) and all(isinstance(column, str) for column in given):
        return pa.schema([(column, to_dtype(dtype)) for column, dtype in given.items()])
    raise PlanError(
        f"{verb}: {name} is the type of each column by its name, or a pa.Schema, got "
        f'{str(given)[:80]}; write: {name}={{"id": "int64", "text": "string"}}'
    )


def to_literal(value: PythonValue) -> Literal:
    """`value` as a constant of the plan.

    >>> to_literal(1).dtype, to_literal(1 << 40).dtype, to_literal("a").dtype
    (DataType(int32), DataType(int64), DataType(string))
    """
    if isinstance(value, pa.Scalar):
        return Literal(value.as_py(), value.type)
    if hasattr(value, "dtype") and hasattr(value, "item"):  # a numpy scalar keeps its own type
        scalar = pa.scalar(value)
        return Literal(scalar.as_py(), scalar.type)
    if isinstance(value, list | tuple | set | frozenset | dict):
        raise PlanError(
            f"{with_article(type(value).__name__)} can't be a constant; to test for several values "
            'write col("x").is_in([...])'
        )
    return Literal(value, _type_of(value))


def _type_of(value: Any) -> pa.DataType:
    """The Arrow type of one plain Python value."""
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return _integer_type(value)
        case datetime():
            return pa.timestamp("us", "UTC") if value.tzinfo else pa.timestamp("us")
        case Decimal():
            return _decimal_type(value)
        case float() | str() | bytes() | date() | timedelta() | time():
            return _CLASSES.get(type(value)) or pa.scalar(value).type
    raise PlanError(
        f"{with_article(type(value).__name__)} can't be a constant in an expression: "
        f"{str(value)[:80]!r}; use None, bool, int, float, str, bytes, Decimal, date, datetime, "
        "timedelta or a pa.Scalar"
    )


def _integer_type(value: int) -> pa.DataType:
    if -(1 << 31) <= value < 1 << 31:
        return pa.int32()
    if -(1 << 63) <= value < 1 << 63:
        return pa.int64()
    raise PlanError(f"the integer {value} does not fit 64 bits; use decimal.Decimal('{value}')")


def _decimal_type(value: Decimal) -> pa.DataType:
    if not value.is_finite():
        raise PlanError(f"a decimal constant must be finite, got {value}; use float({value!s})")
    return pa.scalar(value).type


_LIST = re.compile(r"(?:list|array)<(?:(?:item|element): )?(.+)>", re.IGNORECASE | re.DOTALL)
_STRUCT = re.compile(r"struct<(.+)>", re.IGNORECASE | re.DOTALL)


def nested_dtype(name: str, inner: Callable[[str], pa.DataType]) -> pa.DataType | None:
    """The type that ``list<...>``, ``array<...>`` or ``struct<...>`` names, or None.

    >>> nested_dtype("list<item: int64>", pa.type_for_alias)
    ListType(list<item: int64>)
    """
    if match := _LIST.fullmatch(name):
        return pa.list_(inner(match[1]))
    if match := _STRUCT.fullmatch(name):
        fields = (field.partition(":") for field in _fields(match[1]))
        return pa.struct([(field.strip(), inner(dtype.strip())) for field, _, dtype in fields])
    return None


def _fields(text: str) -> Iterator[str]:
    """The parts between commas that are in no brackets."""
    depth = begin = 0
    for index, sign in enumerate(text):
        depth += (sign in "<([") - (sign in ">)]")
        if sign == "," and depth == 0:
            yield text[begin:index]
            begin = index + 1
    yield text[begin:]
