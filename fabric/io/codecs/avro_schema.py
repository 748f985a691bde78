"""Avro schemas: parsed, checked and written back.

One job: `parse_avro` parses a schema's JSON text into an `AvroType`, with every name resolved, and
rejects what the specification (1.12) rejects. `avro_arrow` maps schemas to Arrow types,
`avro_program` reads the bytes of one schema as another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fabric.errors import DataError

Json = object

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "error", "enum", "fixed")
# Logical types by the types that they may annotate; any other annotation is ignored, as the
# specification requires.
LOGICAL = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
}
DEPTH_MAX = 100  # levels of a schema; a malicious schema must not crash the process
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class NoDefault:
    """The field has no default; ``None`` would be the default null."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT = NoDefault()


@dataclass(slots=True, eq=False)
class AvroField:
    """One field of a record."""

    name: str
    type: AvroType
    default: Json = NO_DEFAULT
    aliases: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class AvroType:
    """One type of a schema; a named type is one object wherever it is used, so it may be recursive.

    `kind` is a primitive's name or ``record | enum | fixed | array | map | union``.
    """

    kind: str
    name: str = ""  # full name of a named type
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None  # of an enum
    items: AvroType | None = None  # of an array, and a map's values
    branches: tuple[AvroType, ...] = ()
    fields: list[AvroField] = field(default_factory=list)

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    @property
    def values(self) -> AvroType:
        """The items of an array or values of a map."""
        assert self.items is not None
        return self.items

    def __str__(self) -> str:
        """How a message names the type."""
        return f"{self.kind} {self.name}" if self.name else (self.logical or self.kind)


def parse_avro(text: str, references: Iterable[str] = ()) -> AvroType:
    """The type that the JSON `text` declares; `references` are schemas whose names it may use.

    Raises
    ------
    DataError
        If `text` is not an Avro schema; the message names the type and field.
    Examples
    --------
    >>> field = '{"name": "x", "type": "int"}'
    >>> point = parse_avro('{"type": "record", "name": "P", "fields": [' + field + "]}")
    >>> str(point), point.fields[0].type.kind
    ('record P', 'int')
    """
    names: dict[str, AvroType] = {}
    for reference in references:
        _parse_text(reference, names)
    return _parse_text(text, names)


def _parse_text(text: str, names: dict[str, AvroType]) -> AvroType:
    try:
        declared = json.loads(text)
    except (ValueError, RecursionError) as error:
        bare = text.strip()
        if bare in PRIMITIVES or bare in names:  # registries also keep "string" without its quotes
            declared = bare
        else:
            raise DataError(f"the Avro schema is not valid JSON: {error}") from error
    return _Parser(names).parse(declared, "", "", 0)


class _Parser:
    """Parses declarations against the types named so far."""

    def __init__(self, names: dict[str, AvroType]) -> None:
        self.names = names

    def parse(self, declared: Json, space: str, path: str, depth: int) -> AvroType:
        """The type of one declaration, in namespace `space`; `path` is for messages."""
        if depth > DEPTH_MAX:
            raise _wrong(path, f"is nested over {DEPTH_MAX} levels deep")
        if isinstance(declared, str):
            return self.by_name(declared, space, path)
        if isinstance(declared, list):
            return self.union(declared, space, path, depth)
        if not isinstance(declared, dict):
            raise _wrong(path, f"is {declared!r}, expected a type")
        kind = declared.get("type")
        if isinstance(kind, dict | list):  # {"type": {"type": "int"}}
            return self.parse(kind, space, path, depth + 1)
        if kind in NAMED:
            return self.named(declared, space, path, depth)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            if key not in declared:
                raise _wrong(path, f"is of type {kind} but has no {key!r}")
            return AvroType(kind, items=self.parse(declared[key], space, path, depth + 1))
        if kind in PRIMITIVES:
            return _annotated(AvroType(kind), declared)
        if isinstance(kind, str):
            return self.by_name(kind, space, path)
        raise _wrong(path, f"has the type {kind!r}")

    def by_name(self, name: str, space: str, path: str) -> AvroType:
        """A primitive, or a type that was named before."""
        if name in PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not space else f"{space}.{name}"
        found = self.names.get(full) or self.names.get(name)
        if found is None:
            raise _wrong(path, f"has the type {name!r}, which is not declared")
        return found

    def union(self, declared: list[Json], space: str, path: str, depth: int) -> AvroType:
        """A union; its branches are told apart by kind, named ones by name."""
        branches = tuple(self.parse(one, space, path, depth + 1) for one in declared)
        seen: set[str] = set()
        for branch in branches:
            if branch.kind == "union":
                raise _wrong(path, "is a union directly inside a union")
            if (key := branch.name or branch.kind) in seen:
                raise _wrong(path, f"is a union that has {key!r} twice")
            seen.add(key)
        if not branches:
            raise _wrong(path, "is an empty union")
        return AvroType("union", branches=branches)

    def named(self, declared: dict[str, Json], space: str, path: str, depth: int) -> AvroType:
        """A record, enum or fixed; known by its name before its fields are parsed."""
        full, space = _full_name(declared, space, path)
        if full in self.names:
            raise _wrong(path, f"declares {full!r} twice")
        kind = "record" if declared["type"] == "error" else str(declared["type"])
        made = AvroType(kind, name=full, aliases=_aliases(declared, space, path))
        self.names[full] = made
        if kind == "record":
            self.fields(made, declared, space, depth)
        elif kind == "enum":
            _enum(made, declared)
        else:
            size = declared.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
                raise _wrong(full, f"has the size {size!r}, expected a number of bytes")
            made.size = size
            _annotated(made, declared)
        return made

    def fields(self, made: AvroType, declared: dict[str, Json], space: str, depth: int) -> None:
        """Parse the fields of a record."""
        fields = declared.get("fields")
        if not isinstance(fields, list):
            raise _wrong(made.name, "has no list of fields")
        for one in fields:
            if not isinstance(one, dict) or "type" not in one:
                raise _wrong(made.name, f"has the field {one!r}, expected a name and a type")
            name = one.get("name")
            path = f"{made.name}.{name}"
            if not isinstance(name, str) or not NAME.match(name):
                raise _wrong(made.name, f"has a field with the invalid name {name!r}")
            if any(name == other.name for other in made.fields):
                raise _wrong(made.name, f"has the field {name!r} twice")
            inner = one if isinstance(one["type"], str) and "logicalType" in one else one["type"]
            kind = self.parse(inner, space, path, depth + 1)
            aliases = tuple(str(alias) for alias in _listed(one, "aliases", path))
            made.fields.append(AvroField(name, kind, one.get("default", NO_DEFAULT), aliases))


def _wrong(path: str, what: str) -> DataError:
    return DataError(f"Avro schema: {path or 'the root'} {what}")


def _listed(declared: dict[str, Json], key: str, path: str) -> list[Json]:
    listed = declared.get(key, [])
    if not isinstance(listed, list):
        raise _wrong(path, f"has {key!r} that is not a list")
    return listed


def _full_name(declared: dict[str, Json], space: str, path: str) -> tuple[str, str]:
    """The full name of a declaration, and the namespace of the names inside it."""
    name = declared.get("name")
    given = declared.get("namespace", space)
    if not isinstance(name, str) or not isinstance(given, str):
        raise _wrong(path, f"declares a type with the invalid name {name!r}")
    full = name if "." in name or not given else f"{given}.{name}"
    if not all(NAME.match(part) for part in full.split(".")):
        raise _wrong(path, f"declares a type with the invalid name {full!r}")
    if full in PRIMITIVES:
        raise _wrong(path, f"declares a type with the name of the primitive type {full!r}")
    return full, full.rpartition(".")[0]


def _aliases(declared: dict[str, Json], space: str, path: str) -> tuple[str, ...]:
    listed = (str(alias) for alias in _listed(declared, "aliases", path))
    return tuple(a if "." in a or not space else f"{space}.{a}" for a in listed)


def _enum(made: AvroType, declared: dict[str, Json]) -> None:
    symbols = _listed(declared, "symbols", made.name)
    for symbol in symbols:
        if not isinstance(symbol, str) or not NAME.match(symbol):
            raise _wrong(made.name, f"has the invalid symbol {symbol!r}")
    made.symbols = tuple(str(symbol) for symbol in symbols)
    if len(set(made.symbols)) != len(made.symbols):
        raise _wrong(made.name, "has a symbol twice")
    default = declared.get("default")
    if default is not None and default not in made.symbols:
        raise _wrong(made.name, f"has the default {default!r}, which is not one of its symbols")
    made.default = None if default is None else str(default)


def _annotated(made: AvroType, declared: dict[str, Json]) -> AvroType:
    """Set a valid logical type; an invalid one is ignored, as the specification requires."""
    logical = declared.get("logicalType")
    if not isinstance(logical, str) or made.kind not in LOGICAL.get(logical, ()):
        return made
    if logical == "decimal":
        precision, scale = declared.get("precision"), declared.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int):
            return made
        if precision < 1 or not 0 <= scale <= precision:
            return made
        if made.kind == "fixed" and precision > _digits(made.size):
            return made
        made.precision, made.scale = precision, scale
    if (logical == "duration" and made.size != 12) or (
        logical == "uuid" and made.kind == "fixed" and made.size != 16
    ):
        return made
    made.logical = logical
    return made


def _digits(size: int) -> int:
    """How many decimal digits a two's complement number of `size` bytes always holds."""
    return len(str((1 << (8 * min(size, 1000) - 1)) - 1)) - 1 if size else 0


def written(avro: AvroType) -> str:
    """The schema as JSON text, each named type in full at its first use."""
    return json.dumps(_written(avro, set()))


def _written(avro: AvroType, seen: set[str]) -> Json:
    if avro.kind == "union":
        return [_written(branch, seen) for branch in avro.branches]
    if avro.kind == "array":
        return {"type": "array", "items": _written(avro.values, seen)}
    if avro.kind == "map":
        return {"type": "map", "values": _written(avro.values, seen)}
    if avro.name in seen:
        return avro.name
    made: dict[str, Json] = {"type": avro.kind}
    if avro.name:
        seen.add(avro.name)
        made["name"] = avro.name
        if avro.aliases:
            made["aliases"] = list(avro.aliases)
    if avro.kind == "record":
        made["fields"] = [_written_field(one, seen) for one in avro.fields]
    elif avro.kind == "enum":
        made["symbols"] = list(avro.symbols)
        if avro.default is not None:
            made["default"] = avro.default
    elif avro.kind == "fixed":
        made["size"] = avro.size
    if avro.logical:
        made["logicalType"] = avro.logical
    if avro.logical == "decimal":
        made |= {"precision": avro.precision, "scale": avro.scale}
    return avro.kind if len(made) == 1 else made


def _written_field(one: AvroField, seen: set[str]) -> Json:
    made: dict[str, Json] = {"name": one.name, "type": _written(one.type, seen)}
    if one.default is not NO_DEFAULT:
        made["default"] = one.default
    if one.aliases:
        made["aliases"] = list(one.aliases)
    return made
