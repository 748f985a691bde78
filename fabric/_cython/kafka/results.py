"""What the Kafka client answers with, whether native or Python's."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

from fabric._cython.codecs.results import Decoded

EARLIEST: Final = -2
"""The offset of the first record there is, whichever that will be."""
LATEST: Final = -1
"""The offset behind the last record there is, whichever that will be."""

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""A record's headers, in order; a key may come more than once."""

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
"""The columns that may be read, in their order; null: the record has none (a null value is a
tombstone)."""

ALL: Final = frozenset(COLUMNS.names)

Partition = tuple[str, int]
"""A topic and the number of one of its partitions."""


class Bad(NamedTuple):
    """A record that could not be decoded; it is in no column."""

    offset: int
    partition: int
    value: bytes | None
    reason: str
    row: int
    """Its place among the records of its read, bad ones counted."""


class Read(NamedTuple):
    """What one read of a partition brought."""

    batch: pa.RecordBatch
    bad: list[Bad]
    n_records: int
    """Records that were read, bad ones counted."""
    n_bytes: int
    """Of keys and values."""
    first_offset: int
    next_offset: int
    """Where the next read begins: behind the last record, and control records behind that."""


class Fault(NamedTuple):
    """Something that went wrong behind a client's back, as librdkafka says it."""

    code: int
    name: str
    text: str
    fatal: bool
    """The client is of no use any more."""
    topic: str
    """Empty: it is no partition's."""
    partition: int


class Topic(NamedTuple):
    """A topic as a broker knows it."""

    name: str
    partitions: list[int]
    error: str
    """The protocol's word for what is wrong with it; empty: nothing is."""


def wanted_columns(wants: frozenset[str]) -> pa.Schema:
    """The columns `wants` names, in the order in which they come.

    >>> wanted_columns(frozenset({"offset", "key"})).names
    ['key', 'offset']
    """
    if unknown := wants - ALL:
        raise ValueError(f"a Kafka record has no {sorted(unknown)}, only {COLUMNS.names}")
    return pa.schema([field for field in COLUMNS if field.name in wants])


def joined(columns: pa.RecordBatch, decoded: Decoded) -> pa.RecordBatch:
    """Columns of records beside those of their values, without records that have no row."""
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
