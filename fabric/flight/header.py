"""The header of an edge: what rides in `app_metadata` of every message.

A header as Python sees it; `fabric/_cython/shuffle/wire` turns it to and from bytes, and checks
whether headers follow each other rightly.
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


def decode_header(data: bytes) -> EdgeHeader:
    """Read a header; `DataError` when it is damaged or of another version.

    >>> decode_header(headers.encode(job="j", edge=1, producer=0)).edge
    1
    """
    fields = headers.decode(data)
    return EdgeHeader(**{**fields, "event": Event(fields["event"])})
