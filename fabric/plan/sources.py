"""Where a scan reads: sources with an end, sources of streams, and their splits.

Each class says what a plan knows of a source: see `Place`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

import pyarrow as pa

from fabric.plan import bounds
from fabric.plan.durations import DURATION_US_MAX
from fabric.plan.faults import quoted
from fabric.plan.places import (
    JSON,
    RAW,
    FileFormat,
    FilePlace,
    Options,
    Place,
    RowFormat,
    Settings,
    StreamPlace,
    argument,
    given,
)
from fabric.plan.stream import BAD_RECORD_SCHEMA, UNREADABLE, UNREADABLE_SCHEMA

StreamFormat = Literal["parquet", "csv", "ipc", "ndjson"]
Until = Literal["", "now"]
OnUnreadable = Literal["fail", "skip", "side"]
Acknowledge = Literal["received", "checkpoint"]
NexmarkTable = Literal["event", "person", "auction", "bid"]
Schemas = Literal["strict", "union"]
KafkaStart = Literal["earliest", "latest", "time", "offsets"]
OnExpired = Literal["fail", "earliest", "latest"]
Isolation = Literal["read_committed", "read_uncommitted"]
KafkaPart = Literal["topic", "partition", "offset", "timestamp", "headers"]
RecordColumns: TypeAlias = tuple[tuple[KafkaPart, str], ...]
"""Parts of a Kafka record, and the name of the column of each."""
Offsets: TypeAlias = tuple[tuple[str, int, int], ...]
"""Topic, partition and offset."""
EMPTY_SCHEMA = pa.schema([])


@dataclass(frozen=True, slots=True)
class FileSource(FilePlace):
    """Files of one format; `paths` are absolute and already expanded from folders and patterns.

    `hive` are the columns that folders named ``column=value`` give, in the order of the path. With
    `schemas` "strict" all files have the same columns, with "union" a missing one is null and a
    narrower one is widened.
    """

    format: FileFormat
    paths: tuple[str, ...]
    options: Options = ()
    hive: pa.Schema = EMPTY_SCHEMA
    schemas: Schemas = "strict"

    WIRE: ClassVar[str] = "file"

    def text(self) -> str:
        """``read_parquet("a.parquet" and 2 more)``."""
        paths = self.paths
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        return f"read_{self.format}({quoted(paths[0]) if paths else ''}{more})"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class MemorySource(Place):
    """A table of the calling process, kept by `fabric.io.sources.memory` under `token`.

    Only embedded agents can read it; a client of a remote fabric uploads it as a dataset first.
    """

    token: str
    n_rows: int

    WIRE: ClassVar[str] = "memory"
    BOUNDS: ClassVar[Mapping[str, float]] = {"n_rows": bounds.ANY}

    def text(self) -> str:
        """``DataFrame(3 rows)``."""
        return f"DataFrame({self.n_rows} rows)"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class DatasetSource(Place):
    """A dataset of this fabric; version 0 means the newest at submission."""

    name: str
    version: int = 0

    WIRE: ClassVar[str] = "dataset"
    BOUNDS: ClassVar[Mapping[str, float]] = {"version": bounds.ANY}

    def text(self) -> str:
        """``read_dataset("name")``."""
        version = f", version={self.version}" if self.version else ""
        return f"read_dataset({quoted(self.name)}{version})"


@dataclass(frozen=True, slots=True)
class FlightSource(Place):
    """A stream of any Arrow Flight server: one split an endpoint.

    `tls_roots` is the PEM of who may have signed its certificate, empty for those that the system
    trusts; `insecure` lets the token go in the clear to other machines.
    """

    uri: str
    path: tuple[str, ...] = ()
    command: bytes = b""
    token: str = field(default="", repr=False)
    tls_roots: bytes = field(default=b"", repr=False)
    insecure: bool = False

    WIRE: ClassVar[str] = "flight"

    def text(self) -> str:
        """``read_flight("grpc://host:1")``."""
        return f"read_flight({quoted(self.uri)})"


Source = FileSource | MemorySource | DatasetSource | FlightSource
"""Whatever a scan can read."""


@dataclass(frozen=True, slots=True)
class GeneratorStream(StreamPlace):
    """Made-up rows (split, row, key, value, ts), for ever the same by (seed, split, row).

    `rows_per_s` and `n_rows` count over all splits; 0: as fast as they are read, and without end.
    Times are `1 / rows_per_s` apart (a millisecond at 0), from `start_us` on (0: from when they are
    first read), each up to `disorder_us` earlier.
    """

    rows_per_s: int = 0
    n_rows: int = 0
    n_keys: int = 1_000
    n_splits: int = 4
    seed: int = 0
    start_us: int = 0
    disorder_us: int = 0

    WIRE: ClassVar[str] = "generator"
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "rows_per_s": bounds.ROWS_PER_S_MAX, "n_rows": bounds.ANY, "n_keys": bounds.KEYS_MAX,
        "n_splits": bounds.SPLITS_MAX, "seed": bounds.ANY, "start_us": bounds.ANY,
        "disorder_us": DURATION_US_MAX,
    }  # fmt: skip
    MAY_CHANGE: ClassVar[tuple[str, ...]] = (
        "rows_per_s", "n_rows", "n_keys", "n_splits", "seed", "start_us", "disorder_us",
    )  # fmt: skip

    def text(self) -> str:
        """``streams.generator(n_rows=10)``."""
        return f"streams.generator({given(self)})"

    @property
    def is_open(self) -> bool:
        """Whether no number of rows is given."""
        return not self.n_rows


@dataclass(frozen=True, slots=True)
class NexmarkStream(StreamPlace):
    """Nexmark's auctions: of 50 events 1 person, 3 auctions, 46 bids, the same by (seed, number).

    `table` "event" is all three as nullable structs, any other only its own rows. `events_per_s`
    and `n_events` count over all splits; 0: as fast as they are read, and without end. Event time
    begins at `start_us` and runs at `event_rate` events a second.
    """

    table: NexmarkTable = "event"
    events_per_s: int = 0
    n_events: int = 0
    n_splits: int = 4
    seed: int = 0
    start_us: int = 1_600_000_000_000_000
    event_rate: int = 10_000

    WIRE: ClassVar[str] = "nexmark"
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "events_per_s": bounds.ROWS_PER_S_MAX, "n_events": bounds.ANY,
        "n_splits": bounds.SPLITS_MAX, "seed": bounds.ANY, "start_us": bounds.ANY,
        "event_rate": bounds.ROWS_PER_S_MAX,
    }  # fmt: skip
    MAY_CHANGE: ClassVar[tuple[str, ...]] = (
        "events_per_s", "n_events", "n_splits", "seed", "start_us", "event_rate",
    )  # fmt: skip

    def text(self) -> str:
        """``streams.nexmark("bid", n_events=100)``."""
        return f"streams.nexmark({given(self, 'table')})"

    @property
    def is_open(self) -> bool:
        """Whether no number of events is given."""
        return not self.n_events


@dataclass(frozen=True, slots=True)
class ReplayStream(StreamPlace):
    """The rows of a bounded source by growing `order_by`, once; nulls come last.

    One split for each value of the column `split_by`, else, `by_file`, one for each file (which
    must be in order), else a single one. `speed` is how many times faster than `order_by` (a
    timestamp) says; 0: as fast as they are read.
    """

    source: Source
    order_by: str
    split_by: str = ""
    by_file: bool = False
    speed: float = 0.0

    WIRE: ClassVar[str] = "replay"
    BOUNDS: ClassVar[Mapping[str, float]] = {"speed": bounds.SPEED_MAX}
    MAY_CHANGE: ClassVar[tuple[str, ...]] = ("speed",)

    def text(self) -> str:
        """``streams.replay(read_parquet("a.parquet"), order_by="ts")``."""
        rest = given(self, "order_by", leave=("source",))
        return f"streams.replay({self.source.text()}, {rest})"

    @property
    def is_open(self) -> bool:
        """False: the rows of its source end."""
        return False


@dataclass(frozen=True, slots=True)
class FollowedFiles(StreamPlace, FilePlace):
    """Files of the folder or prefix `path` as they come, each once; or one that `grows`, by lines.

    A file is there at once, whole, by a rename; names that begin with "." or "_" are passed over.
    `settle_s`: leave those alone that changed less than this ago. `until` "now" ends with what was
    there at the start. Files go to `n_splits` splits by their name. A growing file is CSV or NDJSON
    and ends each row by a newline that is in no value; `until` its length at the start.

    What can't be read (a line of a growing file, else the rest of a file) fails the task, is left
    out and counted ("skip"), or goes to side "unreadable" ("side").
    """

    format: StreamFormat
    path: str
    grows: bool = False
    until: Until = ""
    n_splits: int = 1
    poll_s: float = 1.0
    settle_s: float = 0.0
    options: Options = ()
    on_bad: OnUnreadable = "fail"

    WIRE: ClassVar[str] = "files"
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "n_splits": bounds.SPLITS_MAX,
        "poll_s": bounds.WAIT_S_MAX,
        "settle_s": bounds.WAIT_S_MAX,
    }
    MAY_CHANGE: ClassVar[tuple[str, ...]] = (
        "until", "n_splits", "poll_s", "settle_s", "options", "on_bad", "settings",
    )  # fmt: skip

    def text(self) -> str:
        """``read_stream("folder", format="csv")``."""
        return f"read_stream({given(self, 'path', leave=('options',))})"

    @property
    def is_open(self) -> bool:
        """Whether files may come for ever."""
        return not self.until

    def side_schemas(self) -> Mapping[str, pa.Schema]:
        """Parts of files that can't be read."""
        return {UNREADABLE: UNREADABLE_SCHEMA} if self.on_bad == "side" else {}


@dataclass(frozen=True, slots=True)
class FlightStream(StreamPlace):
    """What clients put to ``["stream", name]`` of any agent.

    A message is acknowledged when it was `received`, or once a `checkpoint` holds it: then a client
    that puts again what was not acknowledged loses and doubles nothing.
    """

    name: str
    acknowledge: Acknowledge = "checkpoint"
    n_splits: int = 1
    buffer_bytes: int = 64 << 20

    WIRE: ClassVar[str] = "flight"
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "n_splits": bounds.SPLITS_MAX,
        "buffer_bytes": bounds.BUFFER_BYTES_MAX,
    }
    MAY_CHANGE: ClassVar[tuple[str, ...]] = ("acknowledge", "n_splits", "buffer_bytes")

    def text(self) -> str:
        """``streams.flight("name")``."""
        return f"streams.flight({given(self, 'name')})"


@dataclass(frozen=True, slots=True)
class KafkaStream(StreamPlace):
    """The records of Kafka topics; a split is a partition, named ``topic-partition``.

    Either `topics` are given, or `pattern`, a regular expression for whole topic names. `start` is
    where a partition without a position in a checkpoint starts: "time" at `start_ms` (since the
    epoch); "offsets" at the given (topic, partition, offset), with partition -1 for all other
    partitions of a topic, and at the earliest offset elsewhere. Partitions that are discovered
    while the job runs always start at the earliest offset. `until` "now" ends the stream at the end
    offsets as of the submission.

    `key` names the columns of the record's key, in the format `key_format`; `columns` are pairs of
    another part of a record and the name of its column; all other columns come from the value, in
    the format `value`. The offsets of complete checkpoints are committed to `group`, and never
    read. `settings` are librdkafka's; secret ones are only in `secrets`.
    """

    servers: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    value: RowFormat = JSON
    key: tuple[str, ...] = ()
    key_format: RowFormat = RAW
    columns: RecordColumns = ()
    start: KafkaStart = "earliest"
    start_ms: int = 0
    offsets: Offsets = ()
    until: Until = ""
    on_expired: OnExpired = "fail"
    on_bad: OnUnreadable = "fail"
    isolation: Isolation = "read_committed"
    group: str = ""
    discover_s: float = 30.0
    rows_per_s: int = 0
    bytes_per_s: int = 0
    buffer_bytes: int = 64 << 20
    settings: Settings = ()
    secrets: Settings = field(default=(), repr=False)

    WIRE: ClassVar[str] = "kafka"
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "start_ms": bounds.ANY, "discover_s": bounds.WAIT_S_MAX,
        "rows_per_s": bounds.ROWS_PER_S_MAX, "bytes_per_s": bounds.FILE_BYTES_MAX,
        "buffer_bytes": bounds.BUFFER_BYTES_MAX,
    }  # fmt: skip
    MAY_CHANGE: ClassVar[tuple[str, ...]] = (
        "servers", "value", "key", "key_format", "columns", "start", "start_ms", "offsets",
        "until", "on_expired", "on_bad", "isolation", "group", "discover_s", "rows_per_s",
        "bytes_per_s", "buffer_bytes", "settings",
    )  # fmt: skip
    FINDS_SPLITS: ClassVar[bool] = True

    def text(self) -> str:
        """``read_kafka("orders", servers="host:9092")``."""
        parts = [f"{part}={quoted(name)}" for part, name in self.columns]
        first = [argument(self.topics)] if self.topics else []
        rest = given(self, leave=("topics", "columns"))
        return f"read_kafka({', '.join([*first, rest, *parts])})"

    @property
    def is_open(self) -> bool:
        """Whether records may come for ever."""
        return not self.until

    def side_schemas(self) -> Mapping[str, pa.Schema]:
        """Records that can't be read."""
        return {UNREADABLE: BAD_RECORD_SCHEMA} if self.on_bad == "side" else {}


StreamSource = (
    GeneratorStream | NexmarkStream | ReplayStream | FollowedFiles | FlightStream | KafkaStream
)
"""Whatever a stream can be read from."""
SOURCES: tuple[type[Place], ...] = get_args(Source)
STREAM_SOURCES: tuple[type[StreamPlace], ...] = get_args(StreamSource)


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source that one task reads alone.

    `uri` is a file path, a memory token or a Flight location; `begin:end` are row groups, record
    batches or rows as the source counts them (0:0 means all); `ticket` is for Flight and datasets.
    `n_rows` and `n_bytes` are estimates, 0 when unknown.
    """

    uri: str
    begin: int = 0
    end: int = 0
    ticket: bytes = b""
    n_rows: int = 0
    n_bytes: int = 0
