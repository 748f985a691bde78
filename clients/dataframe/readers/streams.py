"""Where streams begin: files as they come, generators, tables once more, Flight clients.

One job: a `StreamScan` with its schema. Rows have event time only after ``.with_watermark(…)``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from fabric.clients.dataframe.arguments import FileOption, StorageOptions, file_options
from fabric.clients.dataframe.durations import Length, us
from fabric.clients.dataframe.expressions.literal import SchemaLike, to_schema
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.dataframe.names import choice, column_name, number, unknown_name, whole
from fabric.clients.dataframe.session import Session
from fabric.errors import PlanError
from fabric.io.files.folders import ENDINGS, local_path
from fabric.object_urls import is_object_url, split_url
from fabric.plan import sources
from fabric.plan.nodes import Node, Scan, StreamScan
from fabric.plan.places import Settings

__all__ = ["files", "flight", "generator", "nexmark", "read_stream", "replay"]

_NEXMARK, _FLIGHT = sources.NexmarkStream(), sources.FlightStream("")
_SEED_MAX = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMATS = {
    "parquet": "parquet", "csv": "csv", "ipc": "ipc", "json": "ndjson", "ndjson": "ndjson",
}  # fmt: skip


def read_stream(
    source: str | Path | sources.StreamSource,
    *,
    session: Session | None = None,
    **options: FileOption | Length,
) -> DataFrame:
    """Endless rows: files as they appear in a folder or an object store (`files`), or a stream
    described elsewhere.

    Generators, replays and Flight streams are in `fabric.streams`.

    Parameters
    ----------
    source
        A folder, the URL of a prefix as ``s3://bucket/in``, or the description of a stream.
    options
        Of a folder those of `files`; of a description its ``schema``.

    Examples
    --------
    >>> import fabric, tempfile
    >>> from fabric.plan.sources import NexmarkStream
    >>> fabric.read_stream(NexmarkStream("person", n_events=100)).columns[:2]
    ['id', 'name']
    """
    if isinstance(source, str | Path):
        given: dict[str, Any] = dict(options)
        if not is_object_url(source):
            source = local_path(source, "read_stream", stores=True)
        return files(source, session=session, **given)
    if not isinstance(source, sources.StreamSource):
        raise PlanError(
            f"read_stream takes a folder or a stream's description, got {type(source).__name__}; "
            "a table becomes a stream by fabric.streams.replay(…), and what fabric.streams gives "
            "is one already"
        )
    schema: Any = options.pop("schema", None)
    return _stream(source, schema, session)


def files(
    path: str | Path,
    *,
    format: sources.StreamFormat | Literal["json"] | None = None,
    schema: SchemaLike | None = None,
    grows: bool = False,
    until: sources.Until = "",
    n_splits: int = 1,
    poll: Length = "1 second",
    settle: Length = "0 seconds",
    on_bad: sources.OnUnreadable = "fail",
    storage_options: StorageOptions = None,
    session: Session | None = None,
    **options: FileOption,
) -> DataFrame:
    """Files of a folder or prefix as they come, each once; or with `grows` one file as it grows.

    Parameters
    ----------
    path
        Of a folder, those files are read that have an ending of the format (as ``.csv``,
        ``.csv.gz``, ``.jsonl``), but for names that begin with a dot or underscore. Folders named
        ``column=value`` are followed, too, and give columns as in `fabric.read_parquet`; other
        folders in it are not. A file is read once: write it under another name and rename it when
        it is whole, or set `settle`; one that is longer later is an error. A file that `grows`
        must stay: when it was moved, replaced or cut, the job fails. The URL of a prefix is
        followed as a folder is (``docs/object_stores.md``).
    format
        ``parquet``, ``csv``, ``ipc`` or ``json`` (``ndjson``); by default what names end with.
    schema
        The columns; by default those of the first file there is.
    until
        ``now`` ends the stream with what is there at the start.
    n_splits
        Among so many splits the files are dealt by their names.
    poll, settle
        How often to look, and how long a file must have been left alone.
    on_bad
        What can't be read, or has other columns: ``fail`` names file and place; ``skip`` leaves out
        the line of a growing file, of others the rest; ``side`` also puts each out as a row of
        ``.side_output("unreadable")``: its ``file``, ``offset``, ``data`` and ``error``.
    storage_options
        Of the store of a URL, as in `fabric.read_parquet`.
    options
        Of the reader, as in `fabric.read_csv`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> log = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = log.write_text("a,b\\n1,x\\n2\\n3,y\\n")
    >>> columns = {"a": "int64", "b": "string"}
    >>> rows = files(log, grows=True, until="now", on_bad="side", schema=columns)
    >>> rows.collect()["a"].to_pylist()
    [1, 3]
    >>> rows.side_output("unreadable").select("offset", "data").collect().to_pylist()
    [{'offset': 8, 'data': b'2\\n'}]
    """
    from fabric.io.readers.ordered_files import FORMATS  # for start-up time

    place = _place(path, format, storage_options)
    given: dict[str, Any] = {
        "grows": grows, "until": choice(until, ("", "now"), "files", "until"),
        "n_splits": whole(n_splits, 1, "files", "n_splits"),
        "poll_s": us(poll, "poll", least=1) / 1e6, "settle_s": us(settle, "settle") / 1e6,
        "options": file_options(options, "read_stream", FORMATS[place.format].OPTIONS),
        "on_bad": choice(on_bad, ("fail", "skip", "side"), "files", "on_bad"),
    }  # fmt: skip
    return _stream(replace(place, **given), schema, session)


def _place(
    path: str | Path, format: str | None, storage_options: StorageOptions
) -> sources.FollowedFiles:
    """Where the files are, and their format as a plan says it."""
    from fabric.io.object_options import set_apart  # for start-up time

    settings, secrets = set_apart(storage_options, [path], "files")
    if isinstance(path, str | os.PathLike) and is_object_url(path):
        where = "/".join(filter(None, split_url(path)))
    else:
        where = str(local_path(path, "files", stores=True))
    store = tuple(sorted(settings + secrets))
    named = choice(format or _format_of(where, store), tuple(_FORMATS), "files", "format")
    kind: Any = _FORMATS[named]
    return sources.FollowedFiles(kind, where, settings=settings, secrets=secrets)


def _format_of(path: str, store: Settings) -> str:
    """The format that a path, or the first file in it, ends with."""
    from fabric.io.readers.followed import followed  # for start-up time

    is_place = is_object_url(path) or os.path.isdir(path)
    names = sorted(followed(path, store=store).names(whole=True)) if is_place else []
    for name in [os.path.basename(path), *names]:
        for format in _FORMATS:
            if name.lower().endswith(ENDINGS[format]):
                return format
    is_there = is_place or os.path.exists(path)
    why = "there is nothing of a known ending in it" if is_there else "it is not there yet"
    raise PlanError(
        f"read_stream can't tell the format of {path}: {why}; write: "
        'format="parquet", or "csv", "ipc", "json"'
    )


def generator(
    *,
    rows_per_s: int = 0,
    n_rows: int = 0,
    n_keys: int = 1_000,
    n_splits: int = 4,
    seed: int = 0,
    start: datetime | None = None,
    disorder: Length = "0 seconds",
    session: Session | None = None,
) -> DataFrame:
    """Made-up rows (split, row, key, value, ts), the same for the same `seed` and `start`.

    Parameters
    ----------
    rows_per_s, n_rows
        Of all splits together; 0: as fast as they are read, and without end.
    start
        The first time (naive: UTC); by default when they are first read.
    disorder
        By how much times may be earlier than those before.

    Examples
    --------
    >>> from fabric import streams
    >>> streams.generator(n_rows=10).columns
    ['split', 'row', 'key', 'value', 'ts']
    """
    source = sources.GeneratorStream(
        whole(rows_per_s, 0, "generator", "rows_per_s"),
        whole(n_rows, 0, "generator", "n_rows"),
        whole(n_keys, 1, "generator", "n_keys"),
        whole(n_splits, 1, "generator", "n_splits"),
        whole(seed, -_SEED_MAX, "generator", "seed"),
        _start(start, 0, "generator"),
        us(disorder, "disorder"),
    )
    return _stream(source, None, session)


def nexmark(
    table: sources.NexmarkTable = "event",
    *,
    events_per_s: int = 0,
    n_events: int = 0,
    n_splits: int = 4,
    seed: int = 0,
    start: datetime | None = None,
    event_rate: int = _NEXMARK.event_rate,
    session: Session | None = None,
) -> DataFrame:
    """Nexmark's auctions: ``person``, ``auction``, ``bid``, or all three as structs, ``event``.

    `events_per_s` and `n_events` count all splits and tables together; 0: as fast as they are read,
    and without end. Event time runs at `event_rate` events a second.

    >>> from fabric import streams
    >>> streams.nexmark("bid").columns[:3]
    ['auction', 'bidder', 'price']
    """
    choice(table, ("event", "person", "auction", "bid"), "nexmark", "table")
    source = sources.NexmarkStream(
        table,
        whole(events_per_s, 0, "nexmark", "events_per_s"),
        whole(n_events, 0, "nexmark", "n_events"),
        whole(n_splits, 1, "nexmark", "n_splits"),
        whole(seed, -_SEED_MAX, "nexmark", "seed"),
        _start(start, _NEXMARK.start_us, "nexmark"),
        whole(event_rate, 1, "nexmark", "event_rate"),
    )
    return _stream(source, None, session)


def replay(
    frame: DataFrame,
    time: str,
    *,
    split_by: str = "",
    by_file: bool = False,
    speed: float = 0.0,
) -> DataFrame:
    """The rows of a table once more, in the order of column `time`; the stream ends with them.

    Parameters
    ----------
    frame
        Just read: ``fabric.read_parquet(…)``, `read_dataset`, a `DataFrame` of this process.
    split_by
        One split for each value of this column, each in order by itself.
    by_file
        One split a file; each must be in order.
    speed
        How many times faster than `time` says; 0: as fast as they are read.

    Examples
    --------
    >>> import datetime, fabric
    >>> from fabric import streams
    >>> table = fabric.DataFrame({"ts": [datetime.datetime(2024, 1, 1)], "v": [1]})
    >>> streams.replay(table, "ts").with_watermark("ts", "1 minute").columns
    ['ts', 'v']
    """
    node = _just_read(frame)
    source = sources.ReplayStream(
        node.source, column_name(time, "replay"), column_name(split_by, "replay"), by_file,
        number(speed, "replay", "speed"),
    )  # fmt: skip
    names = node.schema.names
    for column in filter(None, (time, split_by)):
        if column not in names:
            raise unknown_name(column, names, "replay")
    return DataFrame.of(StreamScan(source, node.schema), session=frame.given_session)


def _just_read(frame: Any) -> Scan:
    """The scan of a frame that is nothing but that."""
    node: Node | None = frame.plan.root if isinstance(frame, DataFrame) else None
    if isinstance(node, Scan) and node.columns is None and node.predicate is None:
        return node
    raise PlanError(
        "replay takes what was just read, and its steps come after: "
        'streams.replay(fabric.read_parquet(…), "ts").filter(…)'
    )


def flight(
    name: str,
    schema: SchemaLike,
    *,
    acknowledge: sources.Acknowledge = "checkpoint",
    n_splits: int = 1,
    buffer_bytes: int = _FLIGHT.buffer_bytes,
    session: Session | None = None,
) -> DataFrame:
    """What Flight clients ``do_put`` to ``["stream", name]`` of an agent whose task reads it.

    Another agent refuses with `NotFoundError`; `job.tasks()` says where they are. A message is
    acknowledged once a ``checkpoint`` holds it, or when it was ``received``.

    >>> from fabric import streams
    >>> streams.flight("clicks", {"at": "timestamp[us]", "page": "string"}).columns
    ['at', 'page']
    """
    choice(acknowledge, ("received", "checkpoint"), "flight", "acknowledge")
    source = sources.FlightStream(
        name, acknowledge, whole(n_splits, 1, "flight", "n_splits"),
        whole(buffer_bytes, 1, "flight", "buffer_bytes"),
    )  # fmt: skip
    return _stream(source, to_schema(schema, "flight"), session)


def _start(start: datetime | None, default: int, verb: str) -> int:
    if start is None:
        return default
    if not isinstance(start, datetime):
        raise PlanError(
            f"{verb}: start is a datetime, got {start!r}; write: start={_as_datetime(start)!r}"
        )
    aware = start if start.tzinfo else start.replace(tzinfo=UTC)
    return (aware - _EPOCH) // (datetime.resolution)


def _as_datetime(start: object) -> datetime:
    """What was most likely meant."""
    try:
        return datetime.fromisoformat(str(start))
    except ValueError:
        return datetime(2024, 1, 1)


def _stream(
    source: sources.StreamSource, schema: SchemaLike | None, session: Session | None
) -> DataFrame:
    if schema is None:
        from fabric.io.readers import stream_schema  # for start-up time

        schema = stream_schema(source)
    return DataFrame.of(StreamScan(source, to_schema(schema, "read_stream")), session=session)
