"""The result types of the Kafka client, native and Python alike."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

from fabric._cython.codecs.results import Decoded

EARLIEST: Final = -2
"""Stands for the log start offset at the time of reading."""
LATEST: Final = -1
"""Stands for the end offset at the time of reading."""

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""A record's headers, in order; a key may occur more than once."""

COLUMNS: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("headers", HEADERS),
    ]
)
"""The columns that may be read, in order; null if the record has none (a null value is a
tombstone)."""

ALL: Final = frozenset(COLUMNS.names)

Partition = tuple[str, int]
"""A topic and a partition number."""


class Bad(NamedTuple):
    """A record that could not be decoded; it is left out of the columns."""

    offset: int
    partition: int
    value: bytes | None
    reason: str
    row: int
    """Its index among the records of its read, bad ones included."""


class Read(NamedTuple):
    """The result of one read of a partition."""

    batch: pa.RecordBatch
    bad: list[Bad]
    n_records: int
    """The number of records read, bad ones included."""
    n_bytes: int
    """The size of all keys and values, in bytes."""
    first_offset: int
    next_offset: int
    """The offset of the next read: past the last record and any control records."""


class Fault(NamedTuple):
    """An error that librdkafka reported in the background."""

    code: int
    name: str
    text: str
    fatal: bool
    """The client cannot be used any more."""
    topic: str
    """The partition's topic; empty if the error does not concern a partition."""
    partition: int


class Topic(NamedTuple):
    """A topic's metadata."""

    name: str
    partitions: list[int]
    error: str
    """The protocol's error code name, such as ``UNKNOWN_TOPIC_OR_PART``; empty if there is none."""


def wanted_columns(wants: frozenset[str]) -> pa.Schema:
    """The columns that `wants` names, in the order of `COLUMNS`.

    >>> wanted_columns(frozenset({"offset", "key"})).names
    ['key', 'offset']
    """
    if unknown := wants - ALL:
        raise ValueError(f"a Kafka record has no columns {sorted(unknown)}, only {COLUMNS.names}")
    return pa.schema([field for field in COLUMNS if field.name in wants])


def joined(columns: pa.RecordBatch, decoded: Decoded) -> pa.RecordBatch:
    """The records' own columns and those of their values, without records that have no row."""
    if decoded.origin is not None:
        columns = columns.take(pa.array(decoded.origin))
    elif decoded.bad:
        bad = {one.row for one in decoded.bad}
        columns = columns.filter(pa.array([i not in bad for i in range(columns.num_rows)]))
    rows = decoded.batch
    return pa.RecordBatch.from_arrays(
        columns.columns + rows.columns,
        schema=pa.schema(list(columns.schema) + list(rows.schema), rows.schema.metadata),
    )
