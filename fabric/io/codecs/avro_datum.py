"""The bytes of a default value: JSON in a schema, encoded as that schema's data.

One job: `datum`. The default is then decoded by the same program as any other value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from fabric.errors import PlanError
from fabric.io.codecs.avro_schema import NO_DEFAULT, AvroField, AvroType, Json

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
