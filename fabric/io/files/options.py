"""Options of readers and writers, checked before anything runs.

`check_names` and `check_known`: names and types of options; for a name that there is not, what to
write where another library has it, else the nearest one. `check_zones` and `check_encoding`: values
that name something there must be.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import ConfigError
from fabric.plan.faults import nearest
from fabric.plan.places import Options, OptionValue
from fabric.plan.zones import no_zone

_WORDS: dict[type, str] = {
    str: "a text", bool: "True or False", int: "a whole number", tuple: "a list of texts",
    pa.Schema: "the type of each column by its name",
}  # fmt: skip


_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "read_kafka": ("format", "key", "schema", "servers", "session", "start", "topics", "until"),
    "read_stream": (
        "grows",
        "n_splits",
        "on_bad",
        "poll",
        "schema",
        "settle",
        "storage_options",
        "until",
    ),
    "read": ("columns", "hive", "schema", "storage_options"),
    "write": ("max_rows_per_file", "mode", "partition_by", "storage_options"),
    "to_files": (
        "compact",
        "compact_bytes",
        "partition_by",
        "roll",
        "roll_bytes",
        "roll_rows",
        "storage_options",
    ),
}
"""By how a verb begins: its keywords that are no options of the format."""
_READERS: dict[str, tuple[str, str]] = {
    "schema_overrides": ("types", 'types={"column": "string"}'),
    "usecols": ("columns", 'columns=["column"]'),
    "new_columns": ("names", 'names=["column"], header=True'),
    "truncate_ragged_lines": ("ragged", 'ragged="fill"'),
    "try_parse_dates": ("date_format", 'for dates that are not ISO 8601: date_format="%d.%m.%Y"'),
    "nullstr": ("null_values", 'null_values=["NA"]'),
    "hive_partitioning": ("hive", "hive=True"),
    "inferSchema": ("types", 'for types that are not to be guessed: types={"column": "string"}'),
}
_WRITERS: dict[str, tuple[str, str]] = {
    "partition_cols": ("partition_by", 'partition_by=["column"]'),
    "na_rep": (
        "quote_style",
        '.with_columns(col("column").cast("string").fill_null("NA"), replace=True) before',
    ),
    "max_rows_per_file": ("roll_rows", "roll_rows=1_000_000"),
    "mode": ("roll_rows", '.write_stream(streams.to_files(…), mode="append")'),
}
"""By what another library calls an option: ours, and what to write where there is ours."""
_SAME = {
    "parse_dates": "try_parse_dates", "null_value": "nullstr", "nullValue": "nullstr",
    "na_values": "nullstr", "infer_schema": "inferSchema", "partitionBy": "partition_cols",
    "partition_on": "partition_cols",
}  # fmt: skip


def check_known(verb: str, known: Mapping[str, type], options: Options) -> dict[str, OptionValue]:
    """The options as a dict; raises `ConfigError` for an unknown name or a value of another type.

    >>> check_known("read_csv", {"header": bool}, (("header", False),))
    {'header': False}
    """
    check_names(verb, known, [name for name, _ in options])
    for name, value in options:
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


def check_names(verb: str, known: Iterable[str], names: Iterable[str]) -> None:
    """Raise `ConfigError` for a name that is not `known`."""
    options = set(known)
    begins = (begin for begin in _ARGUMENTS if verb.startswith(begin))
    there = sorted(options.union(*(_ARGUMENTS[begin] for begin in [*begins][:1])))
    for name in names:
        if name not in options:
            raise ConfigError(
                f"{verb} has no option {name!r}; {_hint(verb, there, name)}it has: "
                f"{', '.join(there) or 'none'}"
            )


def _hint(verb: str, there: list[str], name: str) -> str:
    if verb == "read_json" and name in ("lines", "multiLine", "multiline"):
        return "arrays and lines of objects are told apart by themselves, leave it out; "
    theirs = _SAME.get(name, name)
    if verb[:1] in "wt" and theirs == "nullstr":
        theirs = "na_rep"
    ours, line = (_READERS if verb.startswith("read") else _WRITERS).get(theirs, ("", ""))
    if ours in there:
        return f"write: {line}; "
    near = nearest(name, [*there, "separator"] if verb == "read_csv" else there)
    return f"did you mean {near!r}? " if near else ""
