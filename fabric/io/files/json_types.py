"""Types of JSON columns that Arrow's parser does not find, or not right.

One job: `found_types`. A time with a zone is an instant (UTC), one without is none; where both
stand in a column it is text. Fractions of seconds are kept: microseconds, nanoseconds for more than
six digits. Integers beyond int64 are uint64 or decimal(38,0), whichever holds all, an error beyond
that; beside numbers with a point they are doubles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.io.files.json_input import written
from fabric.io.files.text_values import exact_type, may_be_rounded

Parse = Callable[[pa.Schema], pa.Table]
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d(:?\d\d(:?\d\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?"
)
_LONG = re.compile(r"(?<![\w.+-])-?\d{19,}(?![\d.eE])")
_MICRO = 6
_TOO_LONG = (
    "integers of column {0!r} are longer than any type of numbers, or than the numbers beside them "
    'let them be; read it as text: types={{"{0}": "string"}}'
)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def found_types(data: bytes, table: pa.Table, parse: Parse) -> pa.Schema:
    """The columns of `table` (what the parser found in `data`) in types that lose nothing.

    `parse` reads the same lines with the given types for some columns.
    """
    columns = dict(zip(table.schema.names, table.schema.types, strict=True))
    told = {name: _timeless(dtype) for name, dtype in columns.items()}
    # Of lists only the type is good: pyarrow 25 loses a null that comes first in one.
    again = [name for name, dtype in columns.items() if told[name] != dtype or t.is_nested(dtype)]
    if again:
        others = parse(pa.schema([(name, told[name]) for name in again]))
        table = table.drop_columns(again)
        for name in again:
            table = table.append_column(name, others[name])
    for name, column in _by_name(table).items():
        columns[name] = _with_times(column)
        doubted = [t.is_float64(leaf.type) and may_be_rounded(leaf) for leaf in leaves(column)]
        if any(doubted):
            columns[name] = _exact(written(data, name), (name, columns[name]), doubted, parse)
    return pa.schema(list(columns.items()))


def _by_name(table: pa.Table) -> dict[str, pa.Array]:
    columns = (column.combine_chunks() for column in table.columns)
    return dict(zip(table.schema.names, columns, strict=True))


def _timeless(dtype: pa.DataType) -> pa.DataType:
    return _mapped(dtype, lambda leaf: pa.string() if t.is_timestamp(leaf) else leaf)


def _mapped(dtype: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with each type inside it changed that holds no others."""
    if t.is_struct(dtype):
        fields = (dtype.field(place) for place in range(dtype.num_fields))
        return pa.struct([(field.name, _mapped(field.type, change)) for field in fields])
    if t.is_list(dtype):
        return pa.list_(_mapped(dtype.value_type, change))
    return change(dtype)


def leaves(column: pa.Array) -> Iterator[pa.Array]:
    """What the column holds at the bottom, from left to right; nulls above it are left out."""
    if t.is_struct(column.type):
        for part in column.flatten():
            yield from leaves(part)
    elif hasattr(column, "flatten"):
        yield from leaves(column.flatten())
    else:
        yield column


def _with_times(column: pa.Array) -> pa.DataType:
    parts = leaves(column)

    def typed(dtype: pa.DataType) -> pa.DataType:
        leaf = next(parts)
        return time_type(leaf) or dtype if t.is_string(dtype) else dtype

    return _mapped(column.type, typed)


def time_type(texts: pa.Array) -> pa.DataType | None:
    """The type of times that all of these are; None: there is none.

    >>> time_type(pa.array(["2024-01-01", "2024-01-01T10:00:00"]))
    TimestampType(timestamp[s])
    >>> time_type(pa.array(["2024-01-01T10:00:00.5Z", "2024-01-01T10:00:00+02:00"]))
    TimestampType(timestamp[us, tz=UTC])
    >>> time_type(pa.array(["2024-01-01T10:00:00Z", "2024-01-01T10:00:00"])) is None
    True
    """
    texts = texts.drop_null()
    if not len(texts) or not _TIME.fullmatch(texts[0].as_py()):
        return None
    fractions = pc.struct_field(pc.extract_regex(texts, r"\.(?P<digits>\d+)"), "digits")
    n_digits = pc.max(pc.utf8_length(fractions)).as_py() or 0
    unit = "us" if 0 < n_digits <= _MICRO else "ns" if n_digits else "s"
    for zone in (None, "UTC"):
        dtype = pa.timestamp(unit, zone)
        try:
            texts.cast(dtype)
            return dtype
        except pa.ArrowInvalid:
            continue
    return None


def _exact(
    values: list[str], column: tuple[str, pa.DataType], doubted: list[bool], parse: Parse
) -> pa.DataType:
    """The type of `column` with one that holds all digits in place of each double that does not."""
    name, dtype = column
    if t.is_float64(dtype):
        found = exact_type(pa.array(values, pa.string())) or dtype
        if not t.is_string(found):
            return found
        raise ValueError(_TOO_LONG.format(name))
    if not any(_LONG.search(_STRING.sub("", value)) for value in values):
        return dtype
    before = dtype
    for place in range(len(doubted)):
        for exact in (pa.uint64(), pa.decimal128(38, 0)) if doubted[place] else ():
            tried = _replaced(dtype, place, exact)
            try:
                parse(pa.schema([(name, tried)]))
            except ValueError:
                continue
            dtype = tried
            break
    if dtype != before:
        return dtype
    raise ValueError(_TOO_LONG.format(name))


def _replaced(dtype: pa.DataType, place: int, exact: pa.DataType) -> pa.DataType:
    """The type with its leaf number `place` replaced."""
    numbers = count()
    return _mapped(dtype, lambda leaf: exact if next(numbers) == place else leaf)
