"""Options of readers and writers, checked before anything runs.

`check_known`: names and types, with the nearest name for one that there is not. `check_zones` and
`check_encoding`: values that name something there must be.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import ConfigError
from fabric.plan.faults import nearest
from fabric.plan.sources import Options, OptionValue
from fabric.plan.zones import no_zone

_WORDS: dict[type, str] = {
    str: "a text", bool: "True or False", int: "a whole number", tuple: "a list of texts",
    pa.Schema: "the type of each column by its name",
}  # fmt: skip


def check_known(verb: str, known: Mapping[str, type], options: Options) -> dict[str, OptionValue]:
    """The options as a dict; raises `ConfigError` for an unknown name or a value of another type.

    >>> check_known("read_csv", {"header": bool}, (("header", False),))
    {'header': False}
    """
    for name, value in options:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}? " if near else ""
            raise ConfigError(
                f"{verb} has no option {name!r}; {hint}it has: {', '.join(sorted(known)) or 'none'}"
            )
        if type(value) is not known[name] and not isinstance(value, pa.Schema):
            raise ConfigError(f"option {name} of {verb} is {_WORDS[known[name]]}, got {value!r}")
    return dict(options)


def check_zones(option: str, fields: Iterable[pa.Field]) -> None:
    """Raise `ConfigError` for a type, or one inside it, with a zone that there is not.

    >>> check_zones("types", [pa.field("at", pa.timestamp("us", "Europe/Berlin"))])
    """
    for field in fields:
        for dtype in _with_inner(field.type):
            zone = dtype.tz if t.is_timestamp(dtype) else None
            if zone is not None and (wrong := no_zone(zone)) is not None:
                raise ConfigError(f"option {option}: {wrong[0]} (column {field.name!r})")


def _with_inner(dtype: pa.DataType) -> Iterable[pa.DataType]:
    yield dtype
    for place in range(dtype.num_fields):
        yield from _with_inner(dtype.field(place).type)


def check_encoding(name: str) -> None:
    """Raise `ConfigError` for an encoding that Python does not know.

    >>> check_encoding("latin-1")
    """
    try:
        codecs.lookup(name)
    except LookupError:
        raise ConfigError(
            f"option encoding: there is no encoding {name!r}; use a name such as 'utf8', "
            "'latin-1', 'cp1252' or 'utf-16'"
        ) from None
