"""What Parquet footers say of whole columns.

One job: `column_facts`: nulls, smallest and largest value, exact or left out. Only integers, days
and timestamps: statistics of floats leave NaN out, those of strings may be cut.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as t

from fabric.io.faults import reading
from fabric.io.files.footers import footer
from fabric.plan.sources import FileSource
from fabric.plan.statistics import ColumnFacts

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
    footers = []
    for path in source.paths:
        with reading(path, "Parquet"):
            footers.append(footer(path).metadata)
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
    footers = []
    for path in source.paths:
        with reading(path, "Parquet"):
            footers.append(footer(path).metadata)
    facts = _merged(name, footers)
    if facts is None:
        return math.inf
    return max(float(abs(facts.least or 0)), float(abs(facts.most or 0)))


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
