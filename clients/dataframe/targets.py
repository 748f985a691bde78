"""What rows are written to: folders, files, datasets, topics, tables, Flight servers.

One job: `to_files`, `to_dataset` and their like for ``write_stream``, whose rows are seen when the
checkpoint that holds them is complete, each once; `file_target` and `dataset_target` for rows that
end; `postgres_target` for both. The targets of Kafka are made by `verbs/kafka.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TypeAlias, get_args

from typing_extensions import Unpack

from fabric.clients.dataframe.arguments import (
    FileOption,
    StorageOptions,
    file_options,
    roots_of,
)
from fabric.clients.dataframe.durations import Length, maybe_us
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.names import choice, column_names, whole
from fabric.clients.dataframe.verbs.kafka import KafkaOptions, kafka_target, upserted
from fabric.errors import PlanError
from fabric.ids import check_name
from fabric.io.files.folders import ENDINGS, local_path
from fabric.io.local_files import PACKINGS
from fabric.io.object_options import set_apart
from fabric.io.postgres.access import parameters_of
from fabric.io.postgres.table import check_name as check_identifier
from fabric.io.sinks import encoders
from fabric.io.sinks.encoders import OPTIONS, check_options
from fabric.object_urls import is_object_url, split_url
from fabric.plan.faults import quoted
from fabric.plan.nodes import Node
from fabric.plan.places import FileFormat, RowFormat
from fabric.plan.stream_facts import stream_of
from fabric.plan.targets import (
    BlackholeTarget,
    DatasetMode,
    DatasetTarget,
    FileMode,
    FileTarget,
    FlightTarget,
    KafkaTarget,
    PostgresMode,
    PostgresTarget,
    StreamFileTarget,
    StreamMode,
    StreamTarget,
)
from fabric.plan.walk import walk

Target: TypeAlias = str | Path | StreamTarget
_PACKED = re.compile(r"\.(gz|bz2|zst|lz4|xz|zip|snappy|br)", re.IGNORECASE)
_SIZES = StreamFileTarget("parquet", "")


def to_files(
    path: str | Path,
    *,
    format: FileFormat = "parquet",
    roll_bytes: int = _SIZES.roll_bytes,
    roll_rows: int = _SIZES.roll_rows,
    roll: Length | None = None,
    compact_bytes: int = _SIZES.compact_bytes,
    compact: Length | None = None,
    partition_by: str | Iterable[str] = (),
    storage_options: StorageOptions = None,
    **options: FileOption,
) -> StreamFileTarget:
    """Files in the folder `path`, each there at once and whole.

    It may be the URL of a prefix, ``s3://bucket/clicks``: see ``docs/object_stores.md``.

    Parameters
    ----------
    roll_bytes, roll_rows, roll
        A file ends with its checkpoint, or before at so many bytes or rows, or at this age.
    compact_bytes, compact
        Smaller files are merged: those of one checkpoint, and those of several within `compact`,
        which nobody sees for so long.
    partition_by
        Columns whose values become folders, ``path/day=2024-01-31/…``, as in `DataFrame
        .write_parquet`; files of one folder are merged with each other alone.
    storage_options
        Of the store, as in `fabric.read_parquet`.
    options
        Of the writer: ``compression`` …

    Examples
    --------
    >>> to_files("/data/out", format="ipc", roll="1 minute").roll_s
    60.0
    """
    choice(format, ("parquet", "csv", "ipc", "json"), "to_files", "format")
    place = _place(path, "to_files")
    if is_object_url(place):
        if compact is not None or compact_bytes not in (0, _SIZES.compact_bytes):
            raise PlanError(
                f"files in object stores are not merged ({place}); leave out compact= and "
                "compact_bytes=, and make checkpoints less often for larger files"
            )
        compact_bytes = 0
    settings, secrets = set_apart(storage_options, [place], "to_files")
    given = file_options(options, "to_files", OPTIONS[format])
    check_options(format, given, "to_files")
    return StreamFileTarget(
        format,
        place,
        whole(roll_bytes, 0, "to_files", "roll_bytes"),
        whole(roll_rows, 0, "to_files", "roll_rows"),
        (maybe_us(roll, "roll", least=1) or 0) / 1e6,
        whole(compact_bytes, 0, "to_files", "compact_bytes"),
        (maybe_us(compact, "compact", least=1) or 0) / 1e6,
        given,
        partition_by=column_names(partition_by, "to_files: partition_by"),
        settings=settings,
        secrets=secrets,
    )


def to_dataset(
    name: str, *, keys: str | list[str] | tuple[str, ...] = (), n_partitions: int = 0
) -> DatasetTarget:
    """A dataset of the fabric, a transaction a checkpoint.

    `ConfigError` where `name` is not letters, digits, ``.``, ``-`` and ``_``.

    >>> to_dataset("clicks", keys="user").keys
    ('user',)
    """
    return dataset_target(name, keys=keys, n_partitions=n_partitions)


def to_flight(
    uri: str,
    *path: str,
    token: str = "",
    tls_roots: str | Path | None = None,
    insecure: bool = False,
) -> FlightTarget:
    """``do_put`` to any Flight server under the path descriptor `path`, a stream a checkpoint.

    See `read_flight` for `tls_roots` and `insecure`. `PlanError` without a `path`.

    >>> to_flight("grpc+tcp://localhost:815", "clicks").path
    ('clicks',)
    """
    if not path:
        raise PlanError('to_flight needs a path: to_flight("grpc+tcp://host:port", "name")')
    roots = roots_of(uri, tls_roots, token, insecure)
    return FlightTarget(uri, tuple(path), token, roots, insecure)


def to_kafka(
    topic: str | Expr,
    *,
    servers: str,
    key: str | Iterable[str] = (),
    format: str | RowFormat = "json",
    **given: Unpack[KafkaOptions],
) -> KafkaTarget:
    """A Kafka topic as the target of ``write_stream``; see `DataFrame.write_kafka`.

    >>> to_kafka("orders", servers="kafka:9092", key="id").topic
    'orders'
    """
    return kafka_target("to_kafka", topic, servers=servers, key=key, format=format, **given)


def to_postgres(
    table: Table,
    *,
    dsn: str,
    key: str | Iterable[str] = (),
    mode: PostgresMode | None = None,
    password: str = "",
    staging: str = "fabric_sink",
    insecure: bool = False,
) -> PostgresTarget:
    """A PostgreSQL table as the target of ``write_stream``, one transaction per checkpoint.

    See `DataFrame.write_postgres`.

    >>> to_postgres("sales.orders", dsn="postgresql://ann:secret@localhost/shop", key="id")
    PostgresTarget(table='orders', schema='sales', key=('id',), mode='upsert', kind='', \
staging='fabric_sink', settings=(('dbname', 'shop'), ('host', 'localhost'), ('user', 'ann')), \
insecure=False)
    """
    return postgres_target(
        table, dsn, key=key, mode=mode, password=password, staging=staging, insecure=insecure,
        verb="to_postgres",
    )  # fmt: skip


def to_blackhole() -> BlackholeTarget:
    """Nowhere: rows are made, counted and dropped, which shows how fast a stream can be made.

    >>> to_blackhole()
    BlackholeTarget()
    """
    return BlackholeTarget()


def stream_target(
    given: Target, format: FileFormat, mode: StreamMode, storage_options: StorageOptions
) -> StreamTarget:
    """What ``write_stream(given)`` means: a path is a folder of files."""
    choice(mode, get_args(StreamMode), "write_stream", "mode")
    if isinstance(given, str | Path):
        target: StreamTarget = to_files(given, format=format, storage_options=storage_options)
    elif storage_options is None:
        target = given
    else:
        raise PlanError(
            "write_stream: storage_options are for a URL; give them to the target: "
            'streams.to_files("s3://…", storage_options={…})'
        )
    if isinstance(target, StreamFileTarget):
        return replace(target, mode=mode)
    if isinstance(target, DatasetTarget):
        return replace(target, mode="append" if mode == "append" else "create")
    if isinstance(target, PostgresTarget) and target.mode == "create" and mode == "append":
        return replace(target, mode="upsert" if target.key else "append")
    if isinstance(target, StreamTarget):
        if mode != "error" and isinstance(target, KafkaTarget):
            raise PlanError("a Kafka topic is always appended to; leave mode= out")
        return target
    raise PlanError(
        f"write_stream takes a folder, or streams.to_files, to_dataset, to_kafka, to_postgres, "
        f"to_flight or to_blackhole, got {given!r}"
    )


def file_target(
    format: FileFormat,
    path: str | Path,
    *,
    mode: FileMode = "error",
    partition_by: str | Iterable[str] = (),
    rows_max: int = 0,
    force: bool = False,
    storage_options: StorageOptions = None,
    **options: FileOption,
) -> FileTarget:
    """Where `path` says that files go: one file by its ending, else a folder of parts."""
    verb = f"write_{format}"
    place = _place(path, verb)
    name = PurePosixPath(place)
    choice(mode, ("error", "overwrite", "append"), verb, "mode")
    single = name.name.lower().endswith(ENDINGS[format])
    if _PACKED.fullmatch(name.suffix) and not (single and name.suffix.islower()):
        raise _packed(place, name.suffix, format)
    settings, secrets = set_apart(storage_options, [place], verb)
    given = file_options(options, verb, OPTIONS[format])
    check_options(format, given)
    return FileTarget(
        format, place, single, mode, given, column_names(partition_by, f"{verb}: partition_by"),
        whole(rows_max, 0, verb, "max_rows_per_file"), _forced(force, mode, verb),
        settings=settings, secrets=secrets,
    )  # fmt: skip


def _forced(force: bool, mode: FileMode, verb: str) -> bool:
    if not isinstance(force, bool):
        raise PlanError(f"{verb} needs force to be True or False, got {force!r}")
    if force and mode != "overwrite":
        raise PlanError(f'{verb} takes force=True with mode="overwrite" only')
    return force


def _place(path: str | Path, verb: str) -> str:
    """A path in full, or the URL of an object or a prefix."""
    if not isinstance(path, str | os.PathLike) or not is_object_url(path):
        return str(local_path(path, verb, writes=True, stores=True))
    root, key = split_url(path)
    if not key:
        raise PlanError(f"{verb} can't write a whole bucket; name a prefix in it: '{root}/rows'")
    return f"{root}/{key}"


def _packed(path: str, suffix: str, format: FileFormat) -> PlanError:
    """Neither a folder of that name nor text in it is what was meant."""
    plain = path.removesuffix(suffix)
    plain += "" if plain.lower().endswith(ENDINGS[format]) else f".{encoders.ENDINGS[format]}"
    if format in ("csv", "json"):
        return PlanError(
            f"{path} can't be written: text is compressed where its name ends with "
            f"{', '.join(PACKINGS)}; write: {plain + '.gz'!r}"
        )
    codec = "gzip" if format == "parquet" and suffix == ".gz" else "zstd"
    return PlanError(
        f"{path} can't be written: {format} is compressed inside; write: {plain!r}, "
        f'compression="{codec}"'
    )


def dataset_target(
    name: str,
    *,
    keys: str | list[str] | tuple[str, ...] = (),
    n_partitions: int = 0,
    mode: DatasetMode = "create",
    replicas: int | None = None,
) -> DatasetTarget:
    """The dataset `name` of the fabric, hash-partitioned by `keys`."""
    if replicas is not None:
        whole(replicas, 1, "write_dataset", "replicas")
    choice(mode, ("create", "append", "overwrite"), "write_dataset", "mode")
    chosen = (keys,) if isinstance(keys, str) else tuple(keys)
    return DatasetTarget(
        check_name(name, "dataset name"), chosen,
        whole(n_partitions, 0, "write_dataset", "n_partitions"), mode, replicas or 0,
    )  # fmt: skip


PUBLIC = "public"
Table = str | tuple[str, str]
"""A name, or a schema and a name; ``schema.name`` is both."""


def postgres_target(
    table: Table,
    dsn: str,
    *,
    key: str | Iterable[str] = (),
    mode: PostgresMode | None = None,
    password: str = "",
    staging: str = "fabric_sink",
    insecure: bool = False,
    verb: str = "write_postgres",
) -> PostgresTarget:
    """The target table given by these arguments; see `DataFrame.write_postgres`."""
    schema, name = _named(table, verb)
    keys = column_names(key, f"{verb}: key")
    chosen = mode or ("upsert" if keys else "create")
    choice(chosen, get_args(PostgresMode), verb, "mode")
    settings, secrets = parameters_of(dsn, password, insecure=insecure, verb=verb)
    return PostgresTarget(name, schema, keys, chosen, "", staging, settings, secrets, insecure)


def by_changes(node: Node, target: PostgresTarget) -> tuple[Node, PostgresTarget]:
    """Add the row kind, which the target needs, to changing results; other rows are unchanged.

    All changes of a key must come from one task, so the results must be grouped by no other
    columns: otherwise it would be unknown which of two changes is the last.
    """
    stream = stream_of(node)
    if stream is None or not stream.changes or target.kind:
        return node, target
    grouped = _grouping(node)
    if not target.key or not set(grouped) <= set(target.key):
        names = ", ".join(map(quoted, grouped))
        raise PlanError(
            "these results change, so the table needs a key to keep the last row of; write: "
            f".write_postgres({quoted(target.table)}, key=[{names}])"
        )
    return upserted(node, target)


def _grouping(node: Node) -> list[str]:
    """The grouping columns of the last step with changing results."""
    for step in walk(node):
        keys = getattr(step, "keys", ())
        stream = stream_of(step)
        if keys and stream is not None and stream.changes:
            return [name for name in map(_name_of, keys) if name]
    return []


def _name_of(key: object) -> str:
    return str(getattr(key, "name", ""))


def _named(table: Table, verb: str) -> tuple[str, str]:
    parts = table.split(".") if isinstance(table, str) else list(table)
    schema, name = (PUBLIC, parts[0]) if len(parts) == 1 else (parts[0], parts[-1])
    if len(parts) > 2 or not all(isinstance(part, str) for part in parts):
        raise PlanError(
            f'{verb}: table must be "name" or "schema.name", or ("schema", "na.me") for a name '
            f"that contains a dot; got {table!r}"
        )
    return check_identifier(schema, f"{verb}: the schema"), check_identifier(
        name, f"{verb}: the table"
    )
