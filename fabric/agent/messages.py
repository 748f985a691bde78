"""Sizes of what travels: many small slices become messages, none over 4 MiB.

One job: turn the slices of one partition into messages. A slice is a view of a reordered batch; a
message is a batch of its own buffers (or one slice, when it is big enough alone). Cost: one copy of
every row that shares its message with another slice, about as much as sending it; so a slice of
256 KiB goes as it is, although messages of 1 MiB would travel a little faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from fabric.flight.compact import needed_bytes

MESSAGE_BYTES = 256 << 10
"""A message is sent as soon as it holds this much."""
LOCAL_BYTES = 64 << 10
"""Within a process, a batch is handed on as soon as it holds this much."""
MESSAGE_BYTES_MAX = (4 << 20) - (128 << 10)
"""No message holds more, unless it is a single row; the rest of 4 MiB is for framing."""


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows.

    >>> empty_batch(pa.schema([("a", pa.int64())])).num_rows
    0
    """
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def pieces(batch: pa.RecordBatch, bytes_max: int = MESSAGE_BYTES_MAX) -> Iterator[pa.RecordBatch]:
    """`batch` halved until every piece fits `bytes_max` or is one row; order is kept.

    Where halves need as much as the whole, cutting would only repeat it.
    """
    waiting = [(batch, needed_bytes(batch))]
    while waiting:
        piece, size = waiting.pop()
        if piece.num_rows <= 1 or size <= bytes_max:
            yield piece
            continue
        half = piece.num_rows // 2
        halves = [(part, needed_bytes(part)) for part in (piece.slice(half), piece.slice(0, half))]
        if sum(n_bytes for _, n_bytes in halves) > size + size // 2:
            yield piece
        else:
            waiting += halves


def coalesce(
    slices: Iterable[pa.RecordBatch],
    bytes_min: int = MESSAGE_BYTES,
    bytes_max: int = MESSAGE_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """Messages of at least `bytes_min` (but the last) and at most `bytes_max`, rows in order.

    Slices of no rows vanish. A row larger than `bytes_max` travels alone.
    """
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for piece in (p for s in slices if s.num_rows for p in pieces(s, bytes_max)):
        size = needed_bytes(piece)
        if held and held_bytes + size > bytes_max:
            yield _joined(held)
            held, held_bytes = [], 0
        held.append(piece)
        held_bytes += size
        if held_bytes >= bytes_min:
            yield _joined(held)
            held, held_bytes = [], 0
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
