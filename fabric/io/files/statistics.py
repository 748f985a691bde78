"""What the statistics of Parquet files say: facts of whole columns, and what a predicate excludes.

`column_facts`: nulls, smallest and largest value, exact or left out. Only integers, days and
timestamps: statistics of floats leave NaN out, those of strings may be cut.

`pruning_filter`: conditions as an Arrow expression that is true wherever they may be, as far as
statistics can tell. They know the least and the most of values that are not null and no NaN, and
whether there are nulls. NaN is the largest value here, so of floats only ``<``, ``<=`` and ``=``
count, which NaN never satisfies. Constants must be of the column's own type, or both integers. The
filter itself always runs afterwards.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as t

from fabric.io import object_files
from fabric.io.files.parquet import footer
from fabric.io.local_files import reading
from fabric.plan.expr import Call, Column, Expr, IsIn, Literal
from fabric.plan.sources import FileSource
from fabric.plan.statistics import ColumnFacts
from fabric.plan.walk import fold

_FILES_MAX = 1_000


def column_facts(
    source: FileSource, schema: pa.Schema, names: Collection[str]
) -> dict[str, ColumnFacts]:
    """Facts of those columns among `names` of which every row group of every file says all."""
    wanted = [
        name
        for name in names
        if name in schema.names and name not in source.hive.names and _says(schema.field(name))
    ]
    if source.format != "parquet" or source.schemas == "union" or not wanted:
        return {}
    footers = _footers(source)
    found = {name: _merged(name, footers) for name in wanted}
    return {name: facts for name, facts in found.items() if facts is not None}


def magnitude(source: FileSource, schema: pa.Schema, name: str) -> float:
    """The largest magnitude of an integer or decimal; infinity where a footer does not say all.

    So it is of very many files: to look at their footers costs more than what it saves.
    """
    dtype = schema.field(name).type
    if (
        source.format != "parquet"
        or source.schemas == "union"
        or len(source.paths) > _FILES_MAX
        or "." in name
        or name in source.hive.names
        or not (t.is_integer(dtype) or t.is_decimal(dtype))
    ):
        return math.inf
    facts = _merged(name, _footers(source))
    if facts is None:
        return math.inf
    return max(float(abs(facts.least or 0)), float(abs(facts.most or 0)))


def _footers(source: FileSource) -> list[pq.FileMetaData]:
    footers = []
    object_files.look_at(source.paths, source.store)
    for path in source.paths:
        with reading(path, "Parquet"):
            footers.append(footer(path, source.store).metadata)
    return footers


def _says(field: pa.Field) -> bool:
    """Whether statistics of such a column are exact; a dot in its name may be a struct's."""
    dtype = field.type
    stamp = t.is_timestamp(dtype) and dtype.unit in ("ms", "us")
    return "." not in field.name and bool(t.is_integer(dtype) or t.is_date32(dtype) or stamp)


def _merged(name: str, footers: list[pq.FileMetaData]) -> ColumnFacts | None:
    n_nulls, values = 0, []
    for chunk in _chunks(name, footers):
        known = None if chunk is None else chunk.statistics
        if chunk is None or known is None or not known.has_null_count:
            return None
        n_nulls += known.null_count
        if known.has_min_max:
            values += [known.min, known.max]
        elif known.null_count < chunk.num_values:
            return None
    least: Any = min(values, default=None)
    return ColumnFacts(n_nulls=n_nulls, least=least, most=max(values, default=None))


def _chunks(name: str, footers: list[pq.FileMetaData]) -> Iterator[pq.ColumnChunkMetaData | None]:
    """The column in every row group that has rows; None for a file that lacks it."""
    for one in footers:
        paths = [one.schema.column(place).path for place in range(one.num_columns)]
        if name not in paths:
            yield None
            continue
        index = paths.index(name)
        for number in range(one.num_row_groups):
            group = one.row_group(number)
            if group.num_rows:
                yield group.column(index)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_MIRRORED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_ON_FLOATS = ("eq", "lt", "le")
_VALUES_MAX = 100
"""Arrow walks a chain of "or" by recursion, on the stack: 20,000 values ended the process."""
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

Known: TypeAlias = "pc.Expression | None"
"""What rows of a useful row group must satisfy, or None when nothing is known."""


def pruning_filter(predicate: Expr | None, schema: pa.Schema) -> Known:
    """What rows of a useful row group must satisfy, or None when nothing is known."""
    if predicate is None:
        return None
    return fold(predicate, lambda part, below: _part(part, below, schema))


def _part(expr: Expr, below: tuple[Known, ...], schema: pa.Schema) -> Known:
    match expr:
        case Call(function="and"):
            known = [part for part in below if part is not None]
            return reduce(operator.and_, known) if known else None
        case Call(function="or"):
            return _either(below)
        case Call(function="is_null", args=(Column(name=name),)) if name in schema.names:
            return pc.field(name).is_null()
        case Call(function="is_not_null", args=(Column(name=name),)) if name in schema.names:
            return pc.field(name).is_valid()
        case Call(function="starts_with", args=(Column(name=name), Literal(value=str() as value))):
            return _prefix(name, value, schema)
        case Call(function=function, args=(Column(name=name), Literal() as value)):
            return _comparison(function, name, value, schema)
        case Call(function=function, args=(Literal() as value, Column(name=name))):
            return _comparison(_MIRRORED.get(function, ""), name, value, schema)
        case IsIn(input=Column(name=name), values=values) if values:
            wanted = [value for value in values if value.value is not None]
            if len(wanted) > _VALUES_MAX:
                return _between(name, wanted, schema)
            return _either([_comparison("eq", name, value, schema) for value in wanted])
        case _:
            return None


def _either(parts: tuple[Known, ...] | list[Known]) -> Known:
    """One of `parts`; nothing is known when it isn't of one of them."""
    known = [part for part in parts if part is not None]
    return reduce(operator.or_, known) if known and len(known) == len(parts) else None


def _between(column: str, values: Sequence[Literal], schema: pa.Schema) -> Known:
    """From the least of many values to the greatest."""
    first = values[0]
    if any(not v.dtype.equals(first.dtype) or v.value != v.value for v in values):
        return None
    least = min(values, key=_value)
    most = max(values, key=_value)
    ends = (_comparison("ge", column, least, schema), _comparison("le", column, most, schema))
    known = [end for end in ends if end is not None]
    return reduce(operator.and_, known) if known else None


def _value(literal: Literal) -> Any:
    return literal.value


def _comparison(name: str, column: str, value: Literal, schema: pa.Schema) -> Known:
    if name not in _OPERATORS or value.value is None or column not in schema.names:
        return None
    dtype = schema.field(column).type
    both_integers = t.is_integer(dtype) and t.is_integer(value.dtype)
    if not (both_integers or (_has_order(dtype) and dtype.equals(value.dtype))):
        return None
    if t.is_floating(dtype) and (name not in _ON_FLOATS or value.value != value.value):
        return None
    constant = pa.scalar(value.value, value.dtype)
    return _OPERATORS[name](pc.field(column), pc.scalar(constant))


def _has_order(dtype: pa.DataType) -> bool:
    """Whether statistics order values of a type as comparisons here do."""
    text = t.is_string(dtype) or t.is_large_string(dtype)
    time = t.is_date32(dtype) or t.is_timestamp(dtype)
    number = t.is_boolean(dtype) or t.is_decimal128(dtype)
    return bool(text or time or number or t.is_float32(dtype) or t.is_float64(dtype))


def _prefix(column: str, prefix: str, schema: pa.Schema) -> Known:
    """From `prefix` on, and below the first text that is behind all that begin with it."""
    dtype = None if column not in schema.names else schema.field(column).type
    if not prefix or dtype is None or not (t.is_string(dtype) or t.is_large_string(dtype)):
        return None
    least = pc.field(column) >= pc.scalar(pa.scalar(prefix, dtype))
    following = ord(prefix[-1]) + 1
    if following > _LAST_CHARACTER or following in _SURROGATES:
        return least
    behind = pa.scalar(prefix[:-1] + chr(following), dtype)
    return least & (pc.field(column) < pc.scalar(behind))
