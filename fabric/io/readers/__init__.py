"""Streams as sources: what comes without end, from generators, tables, files and clients.

One job: finding the module that serves a source. The module has the name of the source on the wire
(`WIRE` of its class) and three functions: `stream_schema`, its columns; `enumerate_splits`, what
its tasks read, whose ids stay the same for ever, because checkpoints name them; and `open_reader`.
The coordinator calls the first two. Sinks of streams are in `fabric/io/sinks`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyarrow as pa

from fabric.clock import Clock, SystemClock
from fabric.errors import PlanError
from fabric.io.readers.protocol import ALL_OF_IT, Share, SplitsOf
from fabric.io.readers.reader import StreamReader
from fabric.io.sources import enumerate_splits
from fabric.plan.sources import STREAM_SOURCES, Source, Split, StreamSource


def stream_schema(source: StreamSource) -> pa.Schema:
    """Names and types of a stream's columns.

    Raises
    ------
    NotFoundError
        Files to look at are missing.
    PlanError
        The source can't tell: its schema must be given.
    """
    found: pa.Schema = serving(source).stream_schema(source)
    return found


def enumerate_stream(source: StreamSource, splits_of: SplitsOf | None = None) -> list[Split]:
    """The splits of a stream; raises `ConfigError` for a source that can't be read."""
    return list(serving(source).enumerate_splits(source, splits_of or _one_part))


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
    opened = serving(source).open_reader
    reader: StreamReader = opened(source, schema, clock or SystemClock(), full or schema, share)
    return reader


def serving(source: StreamSource) -> Any:
    """The module of `source`, imported when the first such source comes.

    >>> from fabric.plan.sources import NexmarkStream
    >>> serving(NexmarkStream()).__name__
    'fabric.io.readers.nexmark'
    """
    if not isinstance(source, STREAM_SOURCES):
        raise PlanError(f"nothing here can read a {type(source).__name__}")
    return import_module(f"{__name__}.{source.WIRE}")


def _one_part(source: Source) -> list[Split]:
    return enumerate_splits(source, 1)
