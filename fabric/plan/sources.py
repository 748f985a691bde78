"""Where a scan reads and where a sink writes: frozen descriptions, no I/O.

One job: name an input or output so that it can travel. Reading and writing is `fabric/io`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pyarrow as pa

FileFormat = Literal["parquet", "csv", "ipc", "json"]
StreamFormat = Literal["parquet", "csv", "ipc", "ndjson"]
Until = Literal["", "now"]
OnUnreadable = Literal["fail", "skip", "side"]
Acknowledge = Literal["received", "checkpoint"]
NexmarkTable = Literal["event", "person", "auction", "bid"]
FileMode = Literal["error", "overwrite", "append"]
Schemas = Literal["strict", "union"]
DatasetMode = Literal["create", "append", "overwrite", "view"]
StreamMode = Literal["error", "append"]
PostgresMode = Literal["create", "append", "upsert", "overwrite"]
OptionValue: TypeAlias = str | bool | int | tuple[str, ...] | pa.Schema
"""A reader's or writer's option, in its own type."""
Options: TypeAlias = tuple[tuple[str, OptionValue], ...]
"""Sorted by name, e.g. (("delimiter", ";"), ("header", False))."""
Settings: TypeAlias = tuple[tuple[str, str], ...]
"""A client library's own settings, sorted by name, e.g. (("socket.keepalive.enable", "true"),)."""
RowFormatName = Literal["json", "avro", "protobuf", "csv", "text", "raw", "ipc"]
SubjectStrategy = Literal["topic", "record", "topic_record"]
KafkaStart = Literal["earliest", "latest", "time", "offsets"]
OnExpired = Literal["fail", "earliest", "latest"]
Isolation = Literal["read_committed", "read_uncommitted"]
KafkaPart = Literal["topic", "partition", "offset", "timestamp", "headers"]
Guarantee = Literal["exactly_once", "at_least_once", "at_most_once"]
EMPTY_SCHEMA = pa.schema([])


@dataclass(frozen=True, slots=True)
class FileSource:
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


@dataclass(frozen=True, slots=True, weakref_slot=True)
class MemorySource:
    """A table of the calling process, kept by `fabric.io.memory` under `token`.

    Only embedded agents can read it; a client of a remote fabric uploads it as a dataset first.
    """

    token: str
    n_rows: int


@dataclass(frozen=True, slots=True, weakref_slot=True)
class DatasetSource:
    """A dataset of this fabric; version 0 means the newest at submission."""

    name: str
    version: int = 0


@dataclass(frozen=True, slots=True)
class FlightSource:
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


Source = FileSource | MemorySource | DatasetSource | FlightSource
"""Whatever a scan can read."""


@dataclass(frozen=True, slots=True)
class GeneratorStream:
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


@dataclass(frozen=True, slots=True)
class NexmarkStream:
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


@dataclass(frozen=True, slots=True)
class ReplayStream:
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


@dataclass(frozen=True, slots=True)
class FollowedFiles:
    """The files of the folder `path` as they come, each once; or one file that `grows`, by lines.

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


@dataclass(frozen=True, slots=True)
class FlightStream:
    """What clients put to ``["stream", name]`` of any agent.

    A message is acknowledged when it was `received`, or once a `checkpoint` holds it: then a client
    that puts again what was not acknowledged loses and doubles nothing.
    """

    name: str
    acknowledge: Acknowledge = "checkpoint"
    n_splits: int = 1
    buffer_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How one row, or its key, is written as bytes.

    `schema_text` is the schema in the format's own language (Avro's JSON, a .proto file, JSON
    Schema) where there is one; `message` names the message of a .proto file. With a `registry`, a
    URL, each value begins with the id of its writer's schema; new schemas are registered under
    `subject`, or by `strategy` when that is empty. `registry_secrets` are the registry's user,
    password, token or PEMs.
    """

    name: RowFormatName
    options: Options = ()
    schema_text: str = ""
    message: str = ""
    registry: str = ""
    subject: str = ""
    strategy: SubjectStrategy = "topic"
    registry_settings: Settings = ()
    registry_secrets: Settings = field(default=(), repr=False)


RAW = RowFormat("raw")


@dataclass(frozen=True, slots=True)
class KafkaStream:
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
    value: RowFormat = RowFormat("json")
    key: tuple[str, ...] = ()
    key_format: RowFormat = RAW
    columns: tuple[tuple[KafkaPart, str], ...] = ()
    start: KafkaStart = "earliest"
    start_ms: int = 0
    offsets: tuple[tuple[str, int, int], ...] = ()
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


StreamSource = (
    GeneratorStream | NexmarkStream | ReplayStream | FollowedFiles | FlightStream | KafkaStream
)
"""Whatever a stream can be read from."""


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Write files aside, then rename. `path` is one file when `single`, else a folder of parts.

    Parts lie in folders ``column=value`` of `partition_by`, whose columns are left out of the
    files, and hold at most `rows_max` rows (0: no limit). A folder that is overwritten holds
    nothing but data, unless by `force`.
    """

    format: FileFormat
    path: str
    single: bool
    mode: FileMode = "error"
    options: Options = ()
    partition_by: tuple[str, ...] = ()
    rows_max: int = 0
    force: bool = False


@dataclass(frozen=True, slots=True)
class DatasetTarget:
    """Write a dataset of this fabric, hash-partitioned by `keys` (none: round-robin).

    Each partition is written to `replicas` agents; 0: those the dataset has, else 1. A "view" is
    the newest row of each key while its job runs; column `kind` says how a row changes it.
    """

    name: str
    keys: tuple[str, ...] = ()
    n_partitions: int = 0
    mode: DatasetMode = "create"
    replicas: int = 0
    kind: str = ""


@dataclass(frozen=True, slots=True)
class FlightTarget:
    """``do_put`` to any Arrow Flight server under a path descriptor; see `FlightSource`."""

    uri: str
    path: tuple[str, ...]
    token: str = field(default="", repr=False)
    tls_roots: bytes = field(default=b"", repr=False)
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class GateTarget:
    """For tests: hold the job at its sink until `fabric.testing.Gate` opens `name` (a file)."""

    name: str


@dataclass(frozen=True, slots=True)
class StreamFileTarget:
    """Files in the folder `path`, seen once the checkpoint that they belong to is complete.

    A file ends with its checkpoint, or before at `roll_bytes`, `roll_rows` or `roll_s` (0: never).
    Smaller ones than `compact_bytes` are merged: those of one checkpoint, and with `compact_s`
    those of several, which nobody sees for so long. Files lie in folders ``column=value`` of
    `partition_by`, whose columns are left out of them. With mode "error" nobody else's files may
    lie there.
    """

    format: FileFormat
    path: str
    roll_bytes: int = 128 << 20
    roll_rows: int = 0
    roll_s: float = 0.0
    compact_bytes: int = 16 << 20
    compact_s: float = 0.0
    options: Options = ()
    mode: StreamMode = "error"
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BlackholeTarget:
    """Nowhere: rows of a stream are made, counted and dropped, to measure what makes them."""


@dataclass(frozen=True, slots=True)
class LiveTarget:
    """A reader in the process that the tasks run in, by the name it is open under there."""

    name: str


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """Records of the Kafka topic `topic`, or of the topic that each row names in `topic_column`.

    `key` names the columns of a record's key, in the format `key_format`; `columns` those of its
    value, in the format `value` (empty: all that are not used otherwise). `partition_column` has
    the partition of each row, by default the hash of its key (murmur2, like the Java client).
    `headers` and `timestamp` name columns. `kind` is the column of row kinds of changing results:
    these are upserts by `key`, and a withdrawn row is a null value.

    "exactly_once" publishes complete checkpoints in transactions whose ids start with
    `transactional_prefix` (empty: the job's id), each with a record in the topic `markers`.
    A transaction may take `transaction_timeout_s` (0: publishing plus 30 seconds), publishing
    `publish_timeout_s`. `settings` are librdkafka's; secret ones are only in `secrets`.
    """

    servers: str
    topic: str = ""
    topic_column: str = ""
    value: RowFormat = RowFormat("json")
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    key_format: RowFormat = RAW
    partition_column: str = ""
    headers: str = ""
    timestamp: str = ""
    kind: str = ""
    guarantee: Guarantee = "exactly_once"
    transactional_prefix: str = ""
    markers: str = "fabric-markers"
    transaction_timeout_s: float = 0.0
    publish_timeout_s: float = 60.0
    settings: Settings = ()
    secrets: Settings = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class PostgresTarget:
    """Rows of the table `table` in `schema` of a PostgreSQL database.

    "create" creates the table, with `key` as its primary key, and fails if it exists; the other
    modes write to an existing table: "append" adds rows, "upsert" replaces those with the same
    `key`, "overwrite" replaces all of them at once. `kind` is the column of row kinds of changing
    results: withdrawn rows are deleted by `key`. Rows are staged in the schema `staging` until
    their checkpoint is complete. `settings` are libpq's parameters; secret ones are only in
    `secrets`, and `insecure` allows unencrypted connections to other machines.
    """

    table: str
    schema: str = "public"
    key: tuple[str, ...] = ()
    mode: PostgresMode = "create"
    kind: str = ""
    staging: str = "fabric_sink"
    settings: Settings = ()
    secrets: Settings = field(default=(), repr=False)
    insecure: bool = False


StreamTarget = (
    StreamFileTarget | DatasetTarget | FlightTarget | BlackholeTarget | LiveTarget | KafkaTarget
    | PostgresTarget
)  # fmt: skip
"""Whatever the sink of a stream can write."""

Target = StreamTarget | FileTarget | GateTarget
"""Whatever a sink can write."""


WITH_CREDENTIALS: tuple[type, ...] = (KafkaTarget, PostgresTarget)
"""Targets with secrets: whoever publishes is given them with the plan, handles never hold them."""


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
