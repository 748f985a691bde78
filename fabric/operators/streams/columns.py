"""What stream operators read from the columns of a batch, and put into them.

One job: times as integers, columns that users see, kinds of changes, rows by number: small
conversions between Arrow columns and numpy that several of these operators need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.kernels.take import take
from fabric.errors import DataError
from fabric.event_time import END_OF_TIME
from fabric.operators.contract import Batches
from fabric.plan.stream import HIDDEN, WATERMARK
from fabric.state.column_stores import stored_type

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ROWS_MAX = 65_536
"""Rows of one batch that is put out."""
INSERT, BEFORE, AFTER, DELETE = range(4)
"""Kinds, as positions in `fabric.plan.stream.KINDS`."""
_PER_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_NS = 1_000


def told_as(fields: Iterable[pa.Field]) -> pa.Schema:
    """Columns of state as others read them: under plain types.

    >>> told_as([pa.field("k", pa.dictionary(pa.int8(), pa.string()))])
    k: string
    """
    return pa.schema([field.with_type(stored_type(field.type)) for field in fields])


def us(times: pa.Array, null: int = END_OF_TIME) -> Ints:
    """Timestamps as microseconds since the epoch, `null` where there is none; rounded down.

    What int64 microseconds can't hold is as far away as they can say.

    >>> us(pa.array([1, None], pa.timestamp("ms", "Europe/Berlin")), null=0).tolist()
    [1000, 0]
    >>> us(pa.array([-1], pa.timestamp("ns"))).tolist()
    [-1]
    """
    plain = times.view(pa.int64())
    found: Ints = (pc.fill_null(plain, 0) if times.null_count else plain).to_numpy()
    unit = times.type.unit
    if unit == "ns":
        found = found // _NS
    elif (factor := _PER_US[unit]) != 1:
        furthest = END_OF_TIME // factor
        found = np.clip(found, -furthest, furthest) * factor
    if times.null_count:
        found = np.where(times.is_valid().to_numpy(zero_copy_only=False), found, null)
    return found


def event_times(batch: pa.RecordBatch, name: str) -> Ints:
    """The time of each row in microseconds.

    Raises
    ------
    DataError
        If a row has none.
    """
    column = batch.column(name)
    if column.null_count:
        raise DataError(
            f"{column.null_count} rows have no time in {name!r}, so they are in no window; "
            f"filter them with col({name!r}).is_not_null(), or fill the time in"
        )
    return us(column)


def shown(schema: pa.Schema) -> pa.Schema:
    """The fields that users see.

    >>> shown(pa.schema([("a", pa.int8()), ("__watermark", pa.int64())])).names
    ['a']
    """
    return pa.schema([field for field in schema if field.name not in HIDDEN])


def only(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The columns called `names`, in that order."""
    return batch if batch.schema.names == list(names) else batch.select(names)


def row_watermarks(batch: pa.RecordBatch) -> Ints | None:
    """What each row knew of event time, where rows carry it."""
    if WATERMARK not in batch.schema.names:
        return None
    found: Ints = batch.column(WATERMARK).to_numpy()
    return found


def hashes_of_rows(batch: pa.RecordBatch, keys: Sequence[str]) -> NDArray[np.uint64]:
    """The hash of each row's keys, by which rows go to tasks; without keys 0, the first's."""
    if not keys:
        return np.zeros(batch.num_rows, np.uint64)
    found: NDArray[np.uint64] = hash_columns([batch.column(name) for name in keys])
    return found


def rows_of(batch: pa.RecordBatch, rows: Ints | Bools) -> pa.RecordBatch:
    """The rows with these numbers, or those where a mask is true; `batch` itself for all."""
    places: Ints = (
        np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
    )
    n = len(places)
    if n == batch.num_rows and n and places[0] == 0 and (np.diff(places) == 1).all():
        return batch
    return gathered(batch, places)


def gathered(batch: pa.RecordBatch, rows: Ints) -> pa.RecordBatch:
    """Row i of the result is row ``rows[i]``; a half of what Arrow's own takes with texts.

    >>> gathered(pa.record_batch({"a": ["x", "y"]}), np.array([1, 1, 0])).column(0).to_pylist()
    ['y', 'y', 'x']
    """
    narrow = rows.astype(np.uint32)
    if not batch.num_columns:  # only it knows how many rows there are
        return batch.take(pa.array(narrow))
    columns = [take(column, narrow) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def sliced(rows: pa.RecordBatch) -> Batches:
    """The rows in batches of at most `ROWS_MAX`; none for no rows."""
    return [rows.slice(begin, ROWS_MAX) for begin in range(0, rows.num_rows, ROWS_MAX)]
