"""Avro schemas and values by hypothesis, and what Arrow must say of a value.

One job: `schemas` draws the JSON of a record with a strategy for its values, as fastavro writes
them (branches of unions named, so that nobody guesses), and `expected` turns such a value into what
`to_pylist` gives.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
FLOATS = st.floats(width=32, allow_nan=False)
DOUBLES = st.floats(allow_nan=False)


@dataclass(frozen=True)
class Drawn:
    """A schema's JSON, a strategy of its values, and their form in Arrow."""

    schema: Any
    values: st.SearchStrategy[Any]
    arrow: Callable[[Any], Any] = lambda value: value
    branch: str = ""  # what fastavro calls it inside a union

    @property
    def name(self) -> str:
        return self.branch or str(self.schema)


def millis(value: dt.datetime) -> dt.datetime:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
UTC = MOMENTS.map(lambda value: value.replace(tzinfo=dt.UTC))


def logical(kind: str, name: str, values: st.SearchStrategy[Any], **more: Any) -> Drawn:
    return Drawn({"type": kind, "logicalType": name, **more}, values, branch=kind)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda digits: Decimal(f"{digits}E-{scale}"))


SCALARS = [
    Drawn("boolean", st.booleans()),
    Drawn("int", INTS),
    Drawn("long", LONGS),
    Drawn("float", FLOATS, lambda v: struct.unpack("<f", struct.pack("<f", v))[0]),
    Drawn("double", DOUBLES),
    Drawn("string", TEXTS),
    Drawn("bytes", st.binary(max_size=8)),
    logical("int", "date", st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1))),
    logical("int", "time-millis", st.times().map(lambda v: v.replace(microsecond=7000))),
    logical("long", "time-micros", st.times()),
    logical("long", "timestamp-millis", UTC.map(millis)),
    logical("long", "timestamp-micros", UTC),
    logical("long", "local-timestamp-millis", MOMENTS.map(millis)),
    logical("long", "local-timestamp-micros", MOMENTS),
    logical("bytes", "decimal", decimals(9, 2), precision=9, scale=2),
    logical("bytes", "decimal", decimals(38, 38), precision=38, scale=38),
    logical("bytes", "decimal", decimals(70, 3), precision=70, scale=3),
    Drawn({"type": "string", "logicalType": "uuid"}, st.uuids(), str, "string"),
]


@st.composite
def types(draw: st.DrawFn, names: list[int], depth: int, unions: bool = True) -> Drawn:
    """One type; named ones get numbers from `names`; `unions` of several branches or not."""
    kinds = ["scalar"] * 4 + ["enum", "fixed"]
    if depth > 0:
        kinds += ["array", "map", "record", "optional", *(["union"] if unions else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS))
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDE"), min_size=1, unique=True))
        name = named(names)
        schema = {"type": "enum", "name": name, "symbols": symbols}
        return Drawn(schema, st.sampled_from(symbols), branch=name)
    if kind == "fixed":
        size, name = draw(st.integers(0, 20)), named(names)
        schema = {"type": "fixed", "name": name, "size": size}
        return Drawn(schema, st.binary(min_size=size, max_size=size), branch=name)
    if kind == "record":
        return draw(records(names, depth - 1, unions))
    if kind == "optional":
        return optional(draw(types(names, 0)))
    if kind == "union":
        return union(draw(st.lists(types(names, 0), min_size=2, max_size=3)))
    inner = draw(types(names, depth - 1, unions))
    if kind == "array":
        values = st.lists(inner.values, max_size=3)
        return Drawn(
            {"type": "array", "items": inner.schema}, values,
            lambda value: [inner.arrow(one) for one in value], "array",
        )  # fmt: skip
    values = st.dictionaries(TEXTS, inner.values, max_size=3)
    return Drawn(
        {"type": "map", "values": inner.schema}, values,
        lambda value: [(key, inner.arrow(one)) for key, one in value.items()], "map",
    )  # fmt: skip


PROMOTED = {
    "int": ("int", "long", "double"),
    "long": ("long", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
}
DEFAULTS: list[tuple[Any, Any]] = [
    ("int", 7), ("string", "é"), (["null", "long"], None), ("boolean", True), ("double", -0.5),
    ({"type": "array", "items": "int"}, [1, -1]), ({"type": "map", "values": "long"}, {"k": 1}),
]  # fmt: skip


@st.composite
def evolved(draw: st.DrawFn, schema: Any) -> Any:
    """A reader's schema for what `schema` wrote: fields gone, new, renamed, wider, nullable."""
    if isinstance(schema, str):
        return draw(st.sampled_from(PROMOTED.get(schema, (schema,))))
    if isinstance(schema, list):
        return [one if one == "null" else draw(evolved(one)) for one in schema]
    if schema["type"] == "array":
        return schema | {"items": draw(evolved(schema["items"]))}
    if schema["type"] == "map":
        return schema | {"values": draw(evolved(schema["values"]))}
    if schema["type"] == "enum":
        kept = draw(st.lists(st.sampled_from(schema["symbols"]), min_size=1, unique=True))
        return schema | {"symbols": [*kept, "NEW"], "default": "NEW"}
    if schema["type"] != "record":
        return schema
    fields = []
    for one in schema["fields"]:
        what = draw(st.sampled_from(("kept", "kept", "gone", "renamed", "nullable")))
        kind = draw(evolved(one["type"]))
        if what == "nullable" and not isinstance(kind, list):
            kind = ["null", kind]
        if what == "renamed":
            fields.append({"name": f"new_{one['name']}", "type": kind, "aliases": [one["name"]]})
        elif what != "gone":
            fields.append({"name": one["name"], "type": kind})
    for n, (kind, default) in enumerate(draw(st.lists(st.sampled_from(DEFAULTS), max_size=2))):
        fields.append({"name": f"added{n}", "type": kind, "default": default})
    return schema | {"fields": draw(st.permutations(fields))}


def named(names: list[int]) -> str:
    names.append(len(names))
    return f"N{names[-1]}"


def optional(inner: Drawn) -> Drawn:
    """Null or the other, as fastavro takes a pair of a branch and its value."""
    return Drawn(
        ["null", inner.schema],
        st.none() | inner.values.map(lambda value: (inner.name, value)),
        lambda value: None if value is None else inner.arrow(value[1]),
        "union",
    )


def union(branches: list[Drawn]) -> Drawn:
    """Several branches of different kinds: a struct of members."""
    by_name = {one.name: one for one in branches}
    kept = list(by_name.values())
    if len(kept) == 1:
        return kept[0]
    merged = set(by_name) in ({"int", "long"}, {"float", "double"}) and all(
        isinstance(one.schema, str) for one in kept
    )

    def arrow(value: tuple[str, Any]) -> Any:
        name, inner = value
        if merged:
            return by_name[name].arrow(inner)
        return {
            f"member{n}": one.arrow(inner) if one.name == name else None
            for n, one in enumerate(kept)
        }

    # ``one=one``: each branch's own name.
    tagged = [one.values.map(lambda value, name=one.name: (name, value)) for one in kept]
    return Drawn([one.schema for one in kept], st.one_of(tagged), arrow, "union")


@st.composite
def records(
    draw: st.DrawFn, names: list[int] | None = None, depth: int = 2, unions: bool = True
) -> Drawn:
    """A record of a few fields."""
    names = [] if names is None else names
    name = named(names)
    found = draw(st.lists(types(names, depth, unions), min_size=1, max_size=4))
    fields = {f"f{n}": one for n, one in enumerate(found)}
    schema = {
        "type": "record",
        "name": name,
        "fields": [{"name": key, "type": one.schema} for key, one in fields.items()],
    }
    return Drawn(
        schema,
        st.fixed_dictionaries({key: one.values for key, one in fields.items()}),
        lambda value: {key: one.arrow(value[key]) for key, one in fields.items()},
        name,
    )
