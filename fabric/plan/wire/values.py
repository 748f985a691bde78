"""Arrow types, schemas, constants and options as messages.

One job: both directions for these. A time is an integer in the unit of its type, a decimal its
text. Nested constants don't exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import DataError
from fabric.plan import plan_pb2 as pb
from fabric.plan.expr import Literal
from fabric.plan.literals import scalar_of
from fabric.plan.places import Options, OptionValue, Settings
from fabric.plan.types import is_binary, is_string, plain

_UNSIGNED_MIN = 1 << 63


def types_to_bytes(dtypes: list[pa.DataType]) -> bytes:
    """Types as one schema message."""
    fields = [pa.field(str(index), dtype) for index, dtype in enumerate(dtypes)]
    return schema_to_bytes(pa.schema(fields))


def schema_to_bytes(schema: pa.Schema) -> bytes:
    """A schema message, without metadata of the schema itself."""
    return bytes(schema.remove_metadata().serialize())


def schema_from_bytes(data: bytes) -> pa.Schema:
    """The schema in a schema message; raises `ValueError` for anything else."""
    from fabric._cython.shuffle.wire.headers import check_schema  # late: clients only write

    try:
        check_schema(data)
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        for field in schema:
            _check_field(field)
    except DataError as error:
        raise ValueError(f"not an Arrow schema: {error.message}") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # Arrow raises all three
        raise ValueError(f"not an Arrow schema: {error}") from error
    return schema


def _check_field(field: pa.Field) -> None:
    """Refuse what Arrow lets pass and dies of later: names that are no text, absurd decimals."""
    dtype = field.type
    _ = field.name, str(dtype)  # decodes them
    if t.is_decimal(dtype) and not 0 <= dtype.scale <= dtype.precision:
        raise ValueError(f"a decimal of {dtype.precision} digits, {dtype.scale} after the point")
    if t.is_dictionary(dtype):
        dtype = dtype.value_type
    for index in range(dtype.num_fields):
        _check_field(dtype.field(index))


def write_value(literal: Literal, message: pb.Literal) -> None:
    """Put the value of `literal` into `message`; raises `ValueError` when it has no form."""
    if literal.value is None:
        return
    dtype = plain(literal.dtype)
    value = scalar_of(literal)
    if t.is_boolean(dtype):
        message.boolean = value.as_py()
    elif t.is_integer(dtype) or t.is_temporal(dtype):
        number = value.as_py() if t.is_integer(dtype) else _ticks(value)
        if number >= _UNSIGNED_MIN:
            message.unsigned = number
        else:
            message.integer = number
    elif t.is_floating(dtype):
        message.real = float(value.as_py())
    elif is_string(dtype) or t.is_decimal(dtype):
        plain_text = value.as_py()
        message.text = f"{plain_text:f}" if t.is_decimal(dtype) else plain_text
    elif is_binary(dtype):
        message.binary = value.as_py()
    else:
        raise ValueError(f"a constant can't be a {dtype}")


def _ticks(value: pa.Scalar) -> int:
    """A time as an integer in its unit (pyarrow's own ``as_py`` would need pandas for ns)."""
    wide = pa.int32() if t.is_date32(value.type) or t.is_time32(value.type) else pa.int64()
    return int(value.cast(wide).as_py())


def read_value(message: pb.Literal, dtype: pa.DataType) -> Literal:
    """The constant in `message`; raises `ValueError` when `dtype` can't hold it."""
    kind = message.WhichOneof("value")
    if kind is None:
        return Literal(None, dtype)
    value: Any = getattr(message, kind)
    inner = plain(dtype)
    if kind not in _kinds(inner):
        raise ValueError(f"a {kind} value is not a valid {dtype}")
    if t.is_decimal(inner):
        value = Decimal(value)
    scalar = scalar_of(Literal(value, inner))
    if t.is_temporal(inner):
        return Literal(value if getattr(inner, "unit", "") == "ns" else scalar.as_py(), dtype)
    return Literal(scalar.as_py(), dtype)


def _kinds(dtype: pa.DataType) -> tuple[str, ...]:
    """The fields of `pb.Literal` that may hold a value of `dtype`."""
    if t.is_boolean(dtype):
        return ("boolean",)
    if t.is_integer(dtype) or t.is_temporal(dtype):
        return ("integer", "unsigned")
    if t.is_floating(dtype):
        return ("real",)
    if is_string(dtype) or t.is_decimal(dtype):
        return ("text",)
    return ("binary",) if is_binary(dtype) else ()


def write_options(options: Options) -> list[pb.Option]:
    """Reader or writer options as protobuf."""
    return [_write_option(name, value) for name, value in options]


def _write_option(name: str, value: OptionValue) -> pb.Option:
    match value:
        case bool():
            return pb.Option(name=name, flag=value)
        case int():
            return pb.Option(name=name, integer=value)
        case str():
            return pb.Option(name=name, text=value)
        case tuple():
            return pb.Option(name=name, texts=pb.Names(names=value))
        case pa.Schema():
            return pb.Option(name=name, schema=schema_to_bytes(value))
    raise ValueError(f"option {name} can't be a {type(value).__name__}")


def read_options(options: Iterable[pb.Option]) -> Options:
    """The options in messages."""
    return tuple((option.name, _read_option(option)) for option in options)


def _read_option(option: pb.Option) -> OptionValue:
    match option.WhichOneof("value"):
        case "flag":
            return option.flag
        case "integer":
            return option.integer
        case "text":
            return option.text
        case "texts":
            return tuple(option.texts.names)
        case "schema":
            return schema_from_bytes(option.schema)
    raise ValueError(f"option {option.name[:40]!r} has no value")


def write_settings(settings: Iterable[tuple[str, str]]) -> list[pb.Setting]:
    """A client library's settings as protobuf."""
    return [pb.Setting(name=name, value=value) for name, value in settings]


def read_settings(settings: Iterable[pb.Setting]) -> Settings:
    """The settings in messages."""
    return tuple((setting.name, setting.value) for setting in settings)
