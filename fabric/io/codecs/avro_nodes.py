"""The nodes of an Avro program, as the native decoder and encoder expect them.

One job: `Op`, `Program`, and what reading and writing share: the numbering of columns, the
conversion between units of time, and `datum`: a default value, JSON in a schema, as the bytes of
that schema's data. The default is then decoded by the same program as any other value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import pyarrow as pa

from fabric.errors import PlanError
from fabric.io.codecs.avro_schema import NO_DEFAULT, AvroField, AvroType, Json


class Op(IntEnum):
    """What a node reads, and how it fills its column if it has one (the same in avro.hpp)."""

    NULL = 0  # reads nothing; the column's value is null
    BOOLEAN = 1
    INT = 2  # a = factor, b = divisor
    LONG = 3  # as INT
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6  # a length, then bytes
    FIXED = 7  # a = bytes
    DECIMAL = 8  # a = bytes, or -1: a length comes first
    DURATION = 9
    ENUM = 10  # a = first of b texts, one per symbol; children: per symbol 1 where it is known
    ARRAY = 11  # a = least bytes of an item; child: the item
    MAP = 12  # a = least bytes of an entry; children: key, value
    UNION = 13  # a child per branch
    RECORD = 14  # a child per field
    MEMBER = 15  # a = which of the struct's fields the child fills, or -1; the others are null
    DEFAULT = 16  # a = the text that the child reads instead of the row
    FAIL = 17  # a = the text that says why: the row is bad


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes as (op, column, a, b, children), the texts they refer to, and the node of a row.

    Columns are numbered depth first, in the order of the Arrow schema, from 0.
    """

    nodes: tuple[tuple[int, int, int, int, tuple[int, ...]], ...]
    texts: tuple[bytes, ...]
    root: int


@dataclass(slots=True)
class Compiler:
    """Collects nodes and texts."""

    nodes: list[tuple[int, int, int, int, tuple[int, ...]]] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    skipped: dict[int, int] = field(default_factory=dict)

    def add(
        self, op: Op, column: int = -1, a: int = 0, b: int = 0, children: Sequence[int] = ()
    ) -> int:
        """The number of a new node."""
        self.nodes.append((int(op), column, a, b, tuple(children)))
        return len(self.nodes) - 1

    def text(self, text: bytes) -> int:
        """The number of a new text."""
        self.texts.append(text)
        return len(self.texts) - 1

    def fail(self, why: str) -> int:
        """A node that marks the row as bad."""
        return self.add(Op.FAIL, a=self.text(why.encode()))


def numbered(fields: list[pa.Field], first: int) -> list[int]:
    """The number of each field's column when the first has `first`."""
    places = []
    for one in fields:
        places.append(first)
        first += width(one.type)
    return places


def width(arrow: pa.DataType) -> int:
    """How many columns a type has, itself included, depth first."""
    if pa.types.is_struct(arrow):
        return 1 + sum(width(f.type) for f in arrow)
    if pa.types.is_map(arrow):
        return 2 + width(arrow.key_type) + width(arrow.item_type)
    return 1 + width(arrow.value_type) if is_list(arrow) else 1


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
NAMED_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}


def ratio(writer: AvroType, arrow: pa.DataType) -> tuple[int, int] | None:
    """Factor and divisor of an int or long read as `arrow`; None if that is impossible."""
    t, logical, wide = pa.types, writer.logical, writer.kind == "long"
    if t.is_floating(arrow) and not t.is_float16(arrow):
        return 1, 1
    if t.is_integer(arrow):
        narrow = wide and arrow.bit_width < 64 and not t.is_uint32(arrow)
        return None if narrow else (1, 1)
    if t.is_date(arrow):
        if wide != t.is_date64(arrow) and not (logical == "date" and t.is_date64(arrow)):
            return None
        return (86_400_000, 1) if logical == "date" and t.is_date64(arrow) else (1, 1)
    if not (t.is_timestamp(arrow) or t.is_time(arrow) or t.is_duration(arrow)):
        return None
    if not logical:
        return None if t.is_time32(arrow) and wide else (1, 1)
    family, _, unit = logical.rpartition("-")
    if family != _family(arrow):
        return None
    have, want = UNITS[NAMED_UNITS[unit]], UNITS[arrow.unit]
    return (want // have, 1) if want >= have else (1, have // want)


def _family(arrow: pa.DataType) -> str:
    if pa.types.is_timestamp(arrow):
        return "timestamp" if arrow.tz else "local-timestamp"
    return "time" if pa.types.is_time(arrow) else "duration"


def is_list(arrow: pa.DataType) -> bool:
    """Whether it is a list of any length."""
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))


def is_text(arrow: pa.DataType) -> bool:
    """Whether it is a string."""
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def is_binary(arrow: pa.DataType) -> bool:
    """Whether it is binary of any length."""
    return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))


def is_members(arrow: pa.DataType) -> bool:
    """Whether the type is the struct that a union of several branches is read as."""
    names = [f.name for f in arrow] if pa.types.is_struct(arrow) else []
    return bool(names) and all(n.startswith("member") and n[6:].isdigit() for n in names)


RANGE = {"int": 31, "long": 63}
FLOATS = {"float": "<f", "double": "<d"}


def datum(value: Json, avro: AvroType, path: str) -> bytes:
    """`value`, a default of the field at `path`, as bytes of `avro`.

    Raises
    ------
    PlanError
        If `value` is not valid for the type.
    Examples
    --------
    >>> datum([1, -1], AvroType("array", items=AvroType("int")), "P.x").hex()
    '04020100'
    """
    try:
        return b"".join(_pieces(value, avro))
    except (TypeError, ValueError, KeyError, OverflowError, struct.error) as error:
        raise PlanError(
            f"Avro schema: {path} has the default {value!r}, which is not a valid {avro}"
        ) from error


def varint(number: int) -> bytes:
    """A number of Avro: zig-zag, seven bits a byte.

    >>> varint(-2).hex(), varint(64).hex()
    ('03', '8001')
    """
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    made = bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    made.append(rest)
    return bytes(made)


def _pieces(value: Json, avro: AvroType) -> Iterable[bytes]:
    if avro.kind == "union":
        return [_branch(value, avro)]
    if avro.kind == "record" and isinstance(value, dict):
        return [piece for one in avro.fields for piece in _field(value, one)]
    if avro.kind == "array" and isinstance(value, list):
        return _block([_pieces(one, avro.values) for one in value])
    if avro.kind == "map" and isinstance(value, dict):
        return _block([_entry(key, one, avro) for key, one in value.items()])
    if isinstance(value, str):
        return _text(value, avro)
    if value is None or isinstance(value, bool):
        if avro.kind != ("null" if value is None else "boolean"):
            raise TypeError(avro.kind)
        return [] if value is None else [bytes([value])]
    return [_number(value, avro)]


def _number(value: Json, avro: AvroType) -> bytes:
    if avro.kind in RANGE and isinstance(value, int):
        if not -(1 << RANGE[avro.kind]) <= value < 1 << RANGE[avro.kind]:
            raise ValueError(value)
        return varint(value)
    if avro.kind in FLOATS and isinstance(value, int | float):
        return struct.pack(FLOATS[avro.kind], float(value))
    raise TypeError(avro.kind)


def _text(value: str, avro: AvroType) -> Iterable[bytes]:
    if avro.kind == "enum":
        return [varint(avro.symbols.index(value))]
    if avro.kind in FLOATS:  # NaN and the infinities are text in JSON
        return [struct.pack(FLOATS[avro.kind], float(value))]
    if avro.kind == "string":
        return _sized(value.encode())
    raw = value.encode("latin-1")
    if avro.kind == "bytes":
        return _sized(raw)
    if avro.kind != "fixed" or len(raw) != avro.size:
        raise TypeError(avro.kind)
    return [raw]


def _field(value: dict[str, Json], one: AvroField) -> Iterable[bytes]:
    given = value.get(one.name, one.default)
    if given is NO_DEFAULT:
        raise KeyError(one.name)
    return _pieces(given, one.type)


def _sized(text: bytes) -> Iterable[bytes]:
    yield varint(len(text))
    yield text


def _entry(key: str, value: Json, avro: AvroType) -> Iterable[bytes]:
    yield from _sized(key.encode())
    yield from _pieces(value, avro.values)


def _block(items: list[Iterable[bytes]]) -> Iterable[bytes]:
    if items:
        yield varint(len(items))
        for item in items:
            yield from item
    yield varint(0)


def _branch(value: Json, avro: AvroType) -> bytes:
    """The first branch that fits the value: since Avro 1.12 it need not be branch 0."""
    for index, branch in enumerate(avro.branches):
        try:
            return varint(index) + b"".join(_pieces(value, branch))
        except (TypeError, ValueError, KeyError, OverflowError, struct.error):
            continue
    raise TypeError("no branch")
