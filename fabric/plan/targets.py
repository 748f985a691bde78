"""Where a sink writes: targets of rows with an end, and of streams.

Each class says what a plan knows of a target: see `Place`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from fabric.plan.bounds import (
    DATASET_PARTITIONS_MAX,
    FILE_BYTES_MAX,
    REPLICAS_MAX,
    WAIT_S_MAX,
)
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
    argument,
    given,
)

FileMode = Literal["error", "overwrite", "append"]
DatasetMode = Literal["create", "append", "overwrite", "view"]
StreamMode = Literal["error", "append"]
PostgresMode = Literal["create", "append", "upsert", "overwrite"]
Guarantee = Literal["exactly_once", "at_least_once", "at_most_once"]


@dataclass(frozen=True, slots=True)
class FileTarget(FilePlace):
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

    WIRE: ClassVar[str] = "file"

    def text(self) -> str:
        """``write_parquet("folder", mode="overwrite")``."""
        mode = "" if self.mode == "error" else f", mode={quoted(self.mode)}"
        mode += ", force=True" if self.force else ""
        by = self.partition_by
        listed = f", partition_by=[{', '.join(map(quoted, by))}]" if by else ""
        return f"write_{self.format}({quoted(self.path)}{listed}{mode})"


@dataclass(frozen=True, slots=True)
class DatasetTarget(Place):
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

    WIRE: ClassVar[str] = "dataset"
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "n_partitions": DATASET_PARTITIONS_MAX,
        "replicas": REPLICAS_MAX,
    }

    def text(self) -> str:
        """``write_dataset("name", keys=["id"])``, or ``materialize("name", key=["id"])``."""
        keys = f"[{', '.join(map(quoted, self.keys))}]"
        if self.mode == "view":
            return f"materialize({quoted(self.name)}, key={keys})"
        listed = f", keys={keys}" if self.keys else ""
        copies = f", replicas={self.replicas}" if self.replicas else ""
        return f"write_dataset({quoted(self.name)}{listed}{copies})"


@dataclass(frozen=True, slots=True)
class FlightTarget(Place):
    """``do_put`` to any Arrow Flight server under a path descriptor; see `FlightSource`."""

    uri: str
    path: tuple[str, ...]
    token: str = field(default="", repr=False)
    tls_roots: bytes = field(default=b"", repr=False)
    insecure: bool = False

    WIRE: ClassVar[str] = "flight"

    def text(self) -> str:
        """``write_flight("grpc://host:1")``."""
        return f"write_flight({quoted(self.uri)})"


@dataclass(frozen=True, slots=True)
class GateTarget(Place):
    """For tests: hold the job at its sink until `fabric.testing.Gate` opens `name` (a file)."""

    name: str

    WIRE: ClassVar[str] = "gate"

    def text(self) -> str:
        """``write_gate("name")``."""
        return f"write_gate({quoted(self.name)})"


@dataclass(frozen=True, slots=True)
class StreamFileTarget(FilePlace):
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

    WIRE: ClassVar[str] = "stream_file"
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "roll_bytes": FILE_BYTES_MAX,
        "roll_s": WAIT_S_MAX,
        "compact_bytes": FILE_BYTES_MAX,
        "compact_s": WAIT_S_MAX,
    }

    def text(self) -> str:
        """``write_stream("folder", format="parquet")``."""
        append = ', mode="append"' if self.mode == "append" else ""
        return f"write_stream({quoted(self.path)}, format={quoted(self.format)}{append})"


@dataclass(frozen=True, slots=True)
class BlackholeTarget(Place):
    """Nowhere: rows of a stream are made, counted and dropped, to measure what makes them."""

    WIRE: ClassVar[str] = "blackhole"

    def text(self) -> str:
        """``write_stream(streams.to_blackhole())``."""
        return "write_stream(streams.to_blackhole())"


@dataclass(frozen=True, slots=True)
class LiveTarget(Place):
    """A reader in the process that the tasks run in, by the name it is open under there."""

    name: str

    WIRE: ClassVar[str] = "live"

    def text(self) -> str:
        """``iter_batches()``."""
        return "iter_batches()"


@dataclass(frozen=True, slots=True)
class KafkaTarget(Place):
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
    value: RowFormat = JSON
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

    WIRE: ClassVar[str] = "kafka"
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "transaction_timeout_s": WAIT_S_MAX,
        "publish_timeout_s": WAIT_S_MAX,
    }

    def text(self) -> str:
        """``write_kafka("orders", servers="host:9092")``."""
        return f"write_kafka({given(self, *(['topic'] if self.topic else []))})"


@dataclass(frozen=True, slots=True)
class PostgresTarget(Place):
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

    WIRE: ClassVar[str] = "postgres"

    def text(self) -> str:
        """``write_postgres("table", key="id", mode="upsert")``."""
        name = self.table if self.schema == "public" else f"{self.schema}.{self.table}"
        listed = f", key={argument(self.key)}" if self.key else ""
        return f"write_postgres({quoted(name)}{listed}, mode={quoted(self.mode)})"


StreamTarget = (
    StreamFileTarget | DatasetTarget | FlightTarget | BlackholeTarget | LiveTarget | KafkaTarget
    | PostgresTarget
)  # fmt: skip
"""Whatever the sink of a stream can write."""
Target = StreamTarget | FileTarget | GateTarget
"""Whatever a sink can write."""
TARGETS: tuple[type[Place], ...] = get_args(Target)


def has_credentials(target: Target) -> bool:
    """Whether who publishes is given the target with the plan: handles never hold its secrets."""
    is_opened = isinstance(target, FilePlace) and bool(target.store)
    return is_opened or isinstance(target, KafkaTarget | PostgresTarget)
