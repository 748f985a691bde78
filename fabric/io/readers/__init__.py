"""Streams as sources: what comes without end, from generators, tables, files and clients.

One job: `open_reader`, and the words of the protocol. `splits.py` says which splits and columns a
stream has; sinks of streams are in `fabric/io/sinks`.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.clock import Clock, SystemClock
from fabric.errors import PlanError
from fabric.io.readers.folder import FolderCursor
from fabric.io.readers.generator import GeneratorCursor
from fabric.io.readers.nexmark import NexmarkCursor
from fabric.io.readers.ordered_files import FileReplayCursor
from fabric.io.readers.protocol import (
    ALL_OF_IT,
    END,
    IDLE,
    Cursor,
    Ended,
    OpenCursor,
    Poll,
    Polled,
    Share,
)
from fabric.io.readers.reader import StreamReader
from fabric.io.readers.replay import ReplayCursor, Rows, Tempo, first_us
from fabric.io.readers.splits import enumerate_stream, stream_schema
from fabric.io.readers.tail import GrowingCursor
from fabric.io.sources import source_schema
from fabric.plan.sources import (
    FlightStream,
    FollowedFiles,
    GeneratorStream,
    KafkaStream,
    NexmarkStream,
    ReplayStream,
    Split,
    StreamSource,
)

__all__ = [
    "END",
    "IDLE",
    "Ended",
    "Poll",
    "Polled",
    "StreamReader",
    "enumerate_stream",
    "open_reader",
    "stream_schema",
]


def open_reader(
    source: StreamSource,
    schema: pa.Schema,
    clock: Clock | None = None,
    *,
    full: pa.Schema | None = None,
    share: Share = ALL_OF_IT,
) -> StreamReader:
    """One task's reader of `source`, which gives the columns of `schema` and no others.

    `full` are all columns that the source has (None: the same), `share` says which of splits that
    are found while it runs are the task's.

    Examples
    --------
    >>> from fabric.plan.sources import GeneratorStream
    >>> source = GeneratorStream(n_rows=3, n_splits=1)
    >>> reader = open_reader(source, stream_schema(source))
    >>> reader.open(enumerate_stream(source))
    >>> reader.poll(2, 0.0).batch.num_rows, reader.poll(2, 0.0).batch.num_rows
    (2, 1)
    >>> reader.poll(2, 0.0), reader.poll(2, 0.0)
    (Ended(split='0-of-1'), <Poll.END: 'end'>)
    """
    clock = clock or SystemClock()
    match source:
        case GeneratorStream():
            return StreamReader(
                "generator",
                lambda split, wake: GeneratorCursor(source, schema, split, clock),
                clock,
            )
        case NexmarkStream():
            return StreamReader(
                "nexmark", lambda split, wake: NexmarkCursor(source, schema, split, clock), clock
            )
        case ReplayStream():
            return StreamReader("replay", _replaying(source, schema, clock), clock)
        case FollowedFiles(grows=True):
            return StreamReader("growing", lambda split, wake: GrowingCursor(source, schema), clock)
        case FollowedFiles():
            return StreamReader(
                "folder", lambda split, wake: FolderCursor(source, schema, split, clock), clock
            )
        case FlightStream():
            from fabric.flight.backend import streams_of
            from fabric.io.dataset.access import current
            from fabric.io.readers.flight import FlightCursor

            streams = streams_of(current().agent_id)
            return StreamReader(
                "flight", lambda split, wake: FlightCursor(source, schema, split, streams), clock
            )
        case KafkaStream():
            from fabric.io.kafka.source import KafkaReader

            return KafkaReader(source, schema, full or schema, share, clock)
        case _:
            raise PlanError(f"nothing here can read a {type(source).__name__}")


def _replaying(source: ReplayStream, schema: pa.Schema, clock: Clock) -> OpenCursor:
    tempo = Tempo(source.speed, clock)
    found = source_schema(source.source)
    # What the plan says about a column counts: a CSV file's types are found anew each time.
    full = pa.schema([schema.field(f.name) if f.name in schema.names else f for f in found])
    if source.by_file:
        return lambda split, wake: FileReplayCursor(source, schema, full, split.uri, tempo)
    rows = Rows(source, schema, full)

    def opened(split: Split, wake: object) -> Cursor:
        rows.want(split)
        tempo.base_us = first_us(split)
        return ReplayCursor(rows, source, schema, split.uri, tempo)

    return opened
