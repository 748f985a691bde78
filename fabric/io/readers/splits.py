"""The splits of streams, their columns, and what can be refused before a job starts.

One job: enumeration, which the coordinator may import. The id of a split is its `uri`: it stays the
same for ever, whatever the number of tasks, because checkpoints name it.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from fabric.cancellation import check_wanted
from fabric.errors import ConfigError, PlanError
from fabric.io.readers import flight, folder, generator, nexmark
from fabric.io.readers.ordered_files import FORMATS
from fabric.io.readers.replay import (
    ALL,
    NULL_SPLIT,
    encode_parts,
    order_type,
    places,
    split_ids,
)
from fabric.io.schemas import checked_schema, texts_for_nulls
from fabric.io.sources import enumerate_splits, read_split, source_schema
from fabric.plan.bounds import SPLITS_MAX
from fabric.plan.sources import (
    FileSource,
    FlightStream,
    FollowedFiles,
    GeneratorStream,
    KafkaStream,
    MemorySource,
    NexmarkStream,
    ReplayStream,
    Source,
    Split,
    StreamSource,
)

SplitsOf = Callable[[Source], list[Split]]
"""The splits of a bounded source: the coordinator knows those of datasets."""


def stream_schema(source: StreamSource) -> pa.Schema:
    """Names and types of a stream's columns.

    Raises
    ------
    NotFoundError
        Files to look at are missing.
    PlanError
        The source can't tell: its schema must be given.
    """
    match source:
        case GeneratorStream():
            return generator.SCHEMA
        case NexmarkStream():
            return nexmark.schema(source)
        case ReplayStream():
            return source_schema(source.source)
        case FollowedFiles():
            folder.check(source)
            path = folder.first_file(source)
            found = FORMATS[source.format].file_schema(path, dict(source.options))
            found = checked_schema(found, path)
            found = texts_for_nulls(found) if source.format in ("csv", "ndjson") else found
            columns = {field.name: field.type for field in found}
            outside = {field.name: field.type for field in folder.folder_columns(source)}
            return pa.schema(list((columns | outside).items()))
        case FlightStream():
            raise PlanError(
                f"the columns of Flight stream {source.name!r} can't be known before somebody puts "
                "rows; give them with schema="
            )
        case KafkaStream():
            from fabric.io.kafka.splits import kafka_schema

            return kafka_schema(source)


def enumerate_stream(source: StreamSource, splits_of: SplitsOf | None = None) -> list[Split]:
    """The splits of a stream; raises `ConfigError` for a source that can't be read."""
    match source:
        case GeneratorStream():
            generator.check(source)
            return _numbered(source.n_splits)
        case NexmarkStream():
            nexmark.check(source)
            return _numbered(source.n_splits)
        case ReplayStream():
            return _replayed(source, splits_of or _one_part)
        case FollowedFiles():
            folder.check(source)
            return _numbered(source.n_splits)
        case FlightStream():
            flight.check(source)
            return [Split(f"{source.name}-{i}") for i in range(source.n_splits)]
        case KafkaStream():
            from fabric.io.kafka.splits import enumerate_partitions

            return enumerate_partitions(source)


def _numbered(n_splits: int) -> list[Split]:
    return [Split(f"{index}-of-{n_splits}") for index in range(n_splits)]


def _one_part(source: Source) -> list[Split]:
    return enumerate_splits(source, 1)


def _replayed(source: ReplayStream, splits_of: SplitsOf) -> list[Split]:
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
