"""The header of an edge: what rides in `app_metadata` of every message.

One job: a header as Python sees it; `fabric/_cython/shuffle/wire` turns it to and from bytes.
Whether headers follow each other rightly is checked in `check.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fabric._cython.shuffle.wire import headers
from fabric.flight import wire_pb2


class Event(IntEnum):
    """What a message is: rows, or one of the three events between them."""

    ROWS = wire_pb2.ROWS
    WATERMARK = wire_pb2.WATERMARK
    BARRIER = wire_pb2.BARRIER
    END = wire_pb2.END


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
    return headers.encode(
        job=header.job, edge=header.edge, producer=header.producer,
        attempt=header.attempt, epoch=header.epoch, sequence=header.sequence,
        partitions=header.partitions, crc32c=header.crc32c, event=header.event,
        event_value=header.event_value, total_rows=header.total_rows,
        total_bytes=header.total_bytes,
    )  # fmt: skip


def decode_header(data: bytes) -> EdgeHeader:
    """Read a header; `DataError` when it is damaged or of another version.

    Examples
    --------
    >>> decode_header(encode_header(EdgeHeader(job="j", edge=1, producer=0))).edge
    1
    """
    fields = headers.decode(data)
    return EdgeHeader(**{**fields, "event": Event(fields["event"])})
