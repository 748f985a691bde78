"""Sources of streams as protobuf and back.

One job: both directions for the streams of `fabric.plan.sources`. Choices and numbers are checked
on the way in.
"""

from __future__ import annotations

from fabric.plan import plan_pb2 as pb
from fabric.plan.sources import (
    Acknowledge,
    FlightStream,
    FollowedFiles,
    GeneratorStream,
    KafkaStream,
    NexmarkStream,
    NexmarkTable,
    OnUnreadable,
    ReplayStream,
    StreamFormat,
    StreamSource,
    Until,
)
from fabric.plan.wire.kafka_places import read_kafka_stream, write_kafka_stream
from fabric.plan.wire.places import read_source, write_source
from fabric.plan.wire.tables import choice, small
from fabric.plan.wire.values import read_options, write_options


def write_stream_source(source: StreamSource) -> pb.StreamSource:
    """`source` as protobuf."""
    match source:
        case GeneratorStream():
            return pb.StreamSource(generator=_generator(source))
        case NexmarkStream():
            return pb.StreamSource(nexmark=_nexmark(source))
        case ReplayStream():
            return pb.StreamSource(replay=_replay(source))
        case FollowedFiles():
            return pb.StreamSource(files=_files(source))
        case FlightStream():
            return pb.StreamSource(flight=_flight(source))
        case KafkaStream():
            return pb.StreamSource(kafka=write_kafka_stream(source))


def read_stream_source(message: pb.StreamSource) -> StreamSource:
    """The source in `message`; raises `ValueError`."""
    match message.WhichOneof("kind"):
        case "generator":
            return _read_generator(message.generator)
        case "nexmark":
            return _read_nexmark(message.nexmark)
        case "replay":
            return _read_replay(message.replay)
        case "files":
            return _read_files(message.files)
        case "flight":
            return _read_flight(message.flight)
        case "kafka":
            return read_kafka_stream(message.kafka)
    raise ValueError("a stream without a source")


def _generator(source: GeneratorStream) -> pb.GeneratorStream:
    return pb.GeneratorStream(
        rows_per_s=source.rows_per_s,
        n_rows=source.n_rows,
        n_keys=source.n_keys,
        n_splits=source.n_splits,
        seed=source.seed,
        start_us=source.start_us,
        disorder_us=source.disorder_us,
    )


def _read_generator(message: pb.GeneratorStream) -> GeneratorStream:
    return GeneratorStream(
        small(message.rows_per_s),
        small(message.n_rows),
        small(message.n_keys),
        message.n_splits,
        message.seed,
        message.start_us,
        small(message.disorder_us),
    )


def _nexmark(source: NexmarkStream) -> pb.NexmarkStream:
    return pb.NexmarkStream(
        table=source.table,
        events_per_s=source.events_per_s,
        n_events=source.n_events,
        n_splits=source.n_splits,
        seed=source.seed,
        start_us=source.start_us,
        event_rate=source.event_rate,
    )


def _read_nexmark(message: pb.NexmarkStream) -> NexmarkStream:
    return NexmarkStream(
        choice(message.table, NexmarkTable, "table"),
        small(message.events_per_s),
        small(message.n_events),
        message.n_splits,
        message.seed,
        message.start_us,
        small(message.event_rate),
    )


def _replay(source: ReplayStream) -> pb.ReplayStream:
    return pb.ReplayStream(
        source=write_source(source.source),
        order_by=source.order_by,
        split_by=source.split_by,
        by_file=source.by_file,
        speed=source.speed,
    )


def _read_replay(message: pb.ReplayStream) -> ReplayStream:
    return ReplayStream(
        read_source(message.source),
        message.order_by,
        message.split_by,
        message.by_file,
        message.speed,
    )


def _files(source: FollowedFiles) -> pb.FollowedFiles:
    return pb.FollowedFiles(
        format=source.format,
        path=source.path,
        grows=source.grows,
        until=source.until,
        n_splits=source.n_splits,
        poll_s=source.poll_s,
        settle_s=source.settle_s,
        options=write_options(source.options),
        on_bad=source.on_bad,
    )


def _read_files(message: pb.FollowedFiles) -> FollowedFiles:
    return FollowedFiles(
        choice(message.format, StreamFormat, "format"),
        message.path,
        message.grows,
        choice(message.until, Until, "until"),
        message.n_splits,
        message.poll_s,
        message.settle_s,
        read_options(message.options),
        choice(message.on_bad, OnUnreadable, "on_bad"),
    )


def _flight(source: FlightStream) -> pb.FlightStream:
    return pb.FlightStream(
        name=source.name,
        acknowledge=source.acknowledge,
        n_splits=source.n_splits,
        buffer_bytes=source.buffer_bytes,
    )


def _read_flight(message: pb.FlightStream) -> FlightStream:
    return FlightStream(
        message.name,
        choice(message.acknowledge, Acknowledge, "acknowledge"),
        message.n_splits,
        small(message.buffer_bytes),
    )
