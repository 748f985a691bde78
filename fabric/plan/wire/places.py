"""Sources and targets as protobuf and back.

One job: both directions for `fabric.plan.sources`. Choices (format, mode) are checked on the way
in.
"""

from __future__ import annotations

from fabric.plan import plan_pb2 as pb
from fabric.plan.sources import (
    EMPTY_SCHEMA,
    BlackholeTarget,
    DatasetMode,
    DatasetSource,
    DatasetTarget,
    FileFormat,
    FileMode,
    FileSource,
    FileTarget,
    FlightSource,
    FlightTarget,
    GateTarget,
    KafkaTarget,
    LiveTarget,
    MemorySource,
    PostgresMode,
    PostgresTarget,
    Schemas,
    Source,
    StreamFileTarget,
    StreamMode,
    Target,
)
from fabric.plan.wire.kafka_places import read_kafka_target, write_kafka_target
from fabric.plan.wire.tables import choice, small
from fabric.plan.wire.values import (
    read_options,
    read_settings,
    schema_from_bytes,
    schema_to_bytes,
    write_options,
    write_settings,
)


def write_source(source: Source) -> pb.Source:
    """`source` as protobuf."""
    match source:
        case FileSource(format, paths, options, hive, schemas):
            file = pb.FileSource(
                format=format,
                paths=paths,
                options=write_options(options),
                hive=schema_to_bytes(hive) if len(hive) else b"",
                schemas=schemas,
            )
            return pb.Source(file=file)
        case MemorySource(token=token, n_rows=n_rows):
            return pb.Source(memory=pb.MemorySource(token=token, n_rows=n_rows))
        case DatasetSource(name=name, version=version):
            return pb.Source(dataset=pb.DatasetSource(name=name, version=version))
        case FlightSource() as given:
            flight = pb.FlightSource(
                uri=given.uri,
                path=given.path,
                command=given.command,
                token=given.token,
                tls_roots=given.tls_roots,
                insecure=given.insecure,
            )
            return pb.Source(flight=flight)


def read_source(message: pb.Source) -> Source:
    """The source in `message`."""
    match message.WhichOneof("kind"):
        case "file":
            file = message.file
            format = choice(file.format, FileFormat, "format")
            hive = schema_from_bytes(file.hive) if file.hive else EMPTY_SCHEMA
            schemas = choice(file.schemas, Schemas, "schemas")
            return FileSource(format, tuple(file.paths), read_options(file.options), hive, schemas)
        case "memory":
            return MemorySource(message.memory.token, message.memory.n_rows)
        case "dataset":
            return DatasetSource(message.dataset.name, message.dataset.version)
        case "flight":
            flight = message.flight
            return FlightSource(
                flight.uri,
                tuple(flight.path),
                flight.command,
                flight.token,
                flight.tls_roots,
                flight.insecure,
            )
    raise ValueError("a scan without a source")


def write_target(target: Target) -> pb.Target:
    """`target` as protobuf."""
    match target:
        case FileTarget():
            return pb.Target(file=_file(target))
        case DatasetTarget(name, keys, n_partitions, mode, replicas, kind):
            return pb.Target(
                dataset=pb.DatasetTarget(
                    name=name, keys=keys, n_partitions=n_partitions, mode=mode, replicas=replicas,
                    kind=kind,
                )
            )  # fmt: skip
        case FlightTarget() as given:
            flight = pb.FlightTarget(
                uri=given.uri,
                path=given.path,
                token=given.token,
                tls_roots=given.tls_roots,
                insecure=given.insecure,
            )
            return pb.Target(flight=flight)
        case GateTarget(name=name):
            return pb.Target(gate=pb.GateTarget(name=name))
        case StreamFileTarget():
            return pb.Target(stream_file=_stream_file(target))
        case BlackholeTarget():
            return pb.Target(blackhole=pb.BlackholeTarget())
        case LiveTarget(name=name):
            return pb.Target(live=pb.LiveTarget(name=name))
        case KafkaTarget():
            return pb.Target(kafka=write_kafka_target(target))
        case PostgresTarget():
            return pb.Target(postgres=_postgres(target))


def _file(target: FileTarget) -> pb.FileTarget:
    return pb.FileTarget(
        format=target.format,
        path=target.path,
        single=target.single,
        mode=target.mode,
        options=write_options(target.options),
        partition_by=target.partition_by,
        rows_max=target.rows_max,
        force=target.force,
    )


def _stream_file(target: StreamFileTarget) -> pb.StreamFileTarget:
    return pb.StreamFileTarget(
        format=target.format,
        path=target.path,
        roll_bytes=target.roll_bytes,
        roll_rows=target.roll_rows,
        roll_s=target.roll_s,
        compact_bytes=target.compact_bytes,
        compact_s=target.compact_s,
        options=write_options(target.options),
        mode=target.mode,
        partition_by=target.partition_by,
    )


def _postgres(target: PostgresTarget) -> pb.PostgresTarget:
    return pb.PostgresTarget(
        table=target.table,
        schema=target.schema,
        key=target.key,
        mode=target.mode,
        kind=target.kind,
        staging=target.staging,
        settings=write_settings(target.settings),
        secrets=write_settings(target.secrets),
        insecure=target.insecure,
    )


def read_target(message: pb.Target) -> Target:
    """The target in `message`."""
    match message.WhichOneof("kind"):
        case "file":
            return _read_file(message.file)
        case "dataset":
            data = message.dataset
            mode = choice(data.mode, DatasetMode, "mode")
            keys = tuple(data.keys)
            return DatasetTarget(data.name, keys, data.n_partitions, mode, data.replicas, data.kind)
        case "flight":
            flight = message.flight
            return FlightTarget(
                flight.uri, tuple(flight.path), flight.token, flight.tls_roots, flight.insecure
            )
        case "gate":
            return GateTarget(message.gate.name)
        case "stream_file":
            return _read_stream_file(message.stream_file)
        case "blackhole":
            return BlackholeTarget()
        case "live":
            return LiveTarget(message.live.name)
        case "kafka":
            return read_kafka_target(message.kafka)
        case "postgres":
            return _read_postgres(message.postgres)
    raise ValueError("a sink without a target")


def _read_file(message: pb.FileTarget) -> FileTarget:
    return FileTarget(
        choice(message.format, FileFormat, "format"),
        message.path,
        message.single,
        choice(message.mode, FileMode, "mode"),
        read_options(message.options),
        tuple(message.partition_by),
        small(message.rows_max),
        message.force,
    )


def _read_stream_file(message: pb.StreamFileTarget) -> StreamFileTarget:
    return StreamFileTarget(
        choice(message.format, FileFormat, "format"),
        message.path,
        small(message.roll_bytes),
        small(message.roll_rows),
        message.roll_s,
        small(message.compact_bytes),
        message.compact_s,
        read_options(message.options),
        choice(message.mode, StreamMode, "mode"),
        tuple(message.partition_by),
    )


def _read_postgres(message: pb.PostgresTarget) -> PostgresTarget:
    return PostgresTarget(
        message.table,
        message.schema,
        tuple(message.key),
        choice(message.mode, PostgresMode, "mode"),
        message.kind,
        message.staging,
        read_settings(message.settings),
        read_settings(message.secrets),
        message.insecure,
    )
