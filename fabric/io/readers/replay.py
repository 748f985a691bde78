"""A bounded table as a stream, in the order of one of its columns.

One job: the splits of a `ReplayStream`, and its reader. Its cursors are in `ordered_rows.py`, and
for files that are in order already in `ordered_files.py`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from fabric.cancellation import check_wanted
from fabric.clock import Clock
from fabric.errors import ConfigError
from fabric.io.readers.ordered_files import FileReplayCursor
from fabric.io.readers.ordered_rows import (
    ALL,
    NULL_SPLIT,
    ReplayCursor,
    Rows,
    Tempo,
    encode_parts,
    first_us,
    order_type,
    places,
    split_ids,
)
from fabric.io.readers.protocol import Cursor, OpenCursor, SplitsOf
from fabric.io.readers.reader import StreamReader
from fabric.io.sources import read_split, source_schema
from fabric.plan.bounds import SPLITS_MAX
from fabric.plan.sources import FileSource, MemorySource, ReplayStream, Split


def stream_schema(source: ReplayStream) -> pa.Schema:
    """The columns of the table."""
    return source_schema(source.source)


def enumerate_splits(source: ReplayStream, splits_of: SplitsOf) -> list[Split]:
    """One a value of `split_by`, one a file, or a single one."""
    schema = source_schema(source.source)
    dtype = order_type(schema, source.order_by)
    if source.speed < 0:
        raise ConfigError(f"speed of a replay can't be negative, got {source.speed}")
    if source.speed and not (pa.types.is_timestamp(dtype) or pa.types.is_date(dtype)):
        raise ConfigError(
            f"a replay with a speed needs a timestamp to go by; {source.order_by!r} is {dtype}"
        )
    if source.by_file:
        return _by_file(source)
    parts = splits_of(source.source)
    names, first = [ALL], None
    if source.split_by or source.speed:
        names, first = _looked_through(source, schema, parts)
    ticket = encode_parts(parts, first if source.speed else None)
    return [Split(name, ticket=ticket) for name in names]


def open_reader(source: ReplayStream, schema: pa.Schema, clock: Clock, *_: object) -> StreamReader:
    """A reader with one cursor per split."""
    return StreamReader("replay", _replaying(source, schema, clock), clock)


def _replaying(source: ReplayStream, schema: pa.Schema, clock: Clock) -> OpenCursor:
    tempo = Tempo(source.speed, clock)
    found = source_schema(source.source)
    # What the plan says about a column counts: a CSV file's types are found anew each time.
    full = pa.schema([schema.field(f.name) if f.name in schema.names else f for f in found])
    if source.by_file:
        return lambda split: FileReplayCursor(source, schema, full, split.uri, tempo)
    rows = Rows(source, schema, full)

    def opened(split: Split) -> Cursor:
        rows.want(split)
        tempo.base_us = first_us(split)
        return ReplayCursor(rows, source, schema, split.uri, tempo)

    return opened


def _by_file(source: ReplayStream) -> list[Split]:
    if source.split_by or not isinstance(source.source, FileSource):
        raise ConfigError("a replay by_file is one of files, without split_by")
    if source.speed:
        raise ConfigError("a replay by_file has no speed: its files are read as they are")
    return [Split(path) for path in source.source.paths]


def _looked_through(
    source: ReplayStream, schema: pa.Schema, parts: list[Split]
) -> tuple[list[str], float | None]:
    """The values of `split_by`, and the first place in the order."""
    if not isinstance(source.source, FileSource | MemorySource):
        raise ConfigError(
            "a replay with split_by or speed looks through its rows before it starts, which it can "
            "do with files and tables only"
        )
    wanted = [source.order_by] + ([source.split_by] if source.split_by else [])
    if source.split_by:
        order_type(schema, source.split_by)
    found: set[str] = set()
    first = float("inf")
    for part in parts:
        for batch in read_split(source.source, schema, part, wanted):
            check_wanted()
            if batch.num_rows:
                column = pa.chunked_array([batch.column(0)])
                first = min(first, float(places(column).min()))
            if source.split_by:
                found.update(pc.unique(split_ids(batch.column(1))).to_pylist())
            if len(found) > SPLITS_MAX:
                raise ConfigError(
                    f"column {source.split_by!r} has more than {SPLITS_MAX} values; a "
                    "replay has that many splits at most"
                )
    # No rows at all: one split that ends at once.
    names = sorted(found) or [NULL_SPLIT if source.split_by else ALL]
    return names, None if first == float("inf") else first
