"""The header of an edge: what rides in `app_metadata` of every message (design 4.2).

One job: to and from bytes. Whether headers follow each other rightly is checked in `check.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa
from google.protobuf.message import DecodeError

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric.errors import DataError
from fabric.flight import wire_pb2
from fabric.ids import PartitionId

VERSION = 1


class Event(IntEnum):
    """What a message is: rows, or one of the three events between them."""

    ROWS = wire_pb2.ROWS
    WATERMARK = wire_pb2.WATERMARK
    BARRIER = wire_pb2.BARRIER
    END = wire_pb2.END


_EVENTS = frozenset(int(event) for event in Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeHeader:
    """One message of an edge.

    `partitions` are (partition, rows) in batch order. `sequence` counts from 0 per producer task
    and receiver (materialised: per producer task and partition), END included. `total_rows` and
    `total_bytes` ride with END.
    """

    job: str
    edge: int
    producer: int
    attempt: int = 0
    epoch: int = 0
    sequence: int = 0
    partitions: tuple[tuple[int, int], ...] = ()
    crc32c: int = 0
    event: Event = Event.ROWS
    event_value: int = 0
    total_rows: int = 0
    total_bytes: int = 0


def encode_header(header: EdgeHeader) -> bytes:
    """`header` as protobuf of version 1."""
    return wire_pb2.EdgeHeader(
        version=VERSION, job_id=header.job, edge=header.edge, producer=header.producer,
        attempt=header.attempt, epoch=header.epoch, sequence=header.sequence,
        partitions=[wire_pb2.PartitionRows(partition=p, rows=n) for p, n in header.partitions],
        crc32c=header.crc32c, event=header.event.name,
        event_value=header.event_value, total_rows=header.total_rows,
        total_bytes=header.total_bytes,
    ).SerializeToString()  # fmt: skip


def decode_header(data: bytes) -> EdgeHeader:
    """Read a header; `DataError` when it is damaged or of another version.

    Examples
    --------
    >>> decode_header(encode_header(EdgeHeader(job="j", edge=1, producer=0))).edge
    1
    """
    try:
        message = wire_pb2.EdgeHeader.FromString(data)
    except DecodeError as error:
        raise DataError("a message of an edge has a damaged header") from error
    if message.version != VERSION:
        raise DataError(f"an edge header has version {message.version}, this agent reads {VERSION}")
    if int(message.event) not in _EVENTS:
        raise DataError(f"an edge header has the unknown event {message.event}")
    return EdgeHeader(
        job=message.job_id, edge=message.edge, producer=message.producer, attempt=message.attempt,
        epoch=message.epoch, sequence=message.sequence,
        partitions=tuple((entry.partition, entry.rows) for entry in message.partitions),
        crc32c=message.crc32c, event=Event(message.event), event_value=message.event_value,
        total_rows=message.total_rows, total_bytes=message.total_bytes,
    )  # fmt: skip


def rows_header(
    source: PartitionId, sequence: int, batch: pa.RecordBatch, *, checksum: bool = True
) -> bytes:
    """The header of one message of rows of one partition, checksum included but where not read."""
    return encode_header(
        EdgeHeader(
            job=source.edge.job,
            edge=source.edge.edge,
            producer=source.producer,
            attempt=source.attempt,
            sequence=sequence,
            partitions=((source.partition, batch.num_rows),),
            crc32c=batch_crc32c(batch) if checksum else 0,
        )
    )


def end_header(source: PartitionId, sequence: int, rows: int, n_bytes: int) -> bytes:
    """The header of the END event of one producer's partition, with its totals."""
    return encode_header(
        EdgeHeader(
            job=source.edge.job,
            edge=source.edge.edge,
            producer=source.producer,
            attempt=source.attempt,
            sequence=sequence,
            partitions=((source.partition, 0),),
            event=Event.END,
            total_rows=rows,
            total_bytes=n_bytes,
        )
    )
