"""Tables of this process as sources.

One job: keep a table under a token for as long as somebody needs it, and cut it into row ranges. A
table is forgotten when the `MemorySource` that `register` gave is gone and every `retain` has had
its `release`. Reading is zero-copy.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

import pyarrow as pa

from fabric.errors import NotFoundError
from fabric.io.schemas import checked_schema
from fabric.plan.sources import MemorySource, Split

BATCH_ROWS = 65_536


@dataclass(slots=True)
class _Kept:
    table: pa.Table
    n_users: int


_KEPT: dict[str, _Kept] = {}
_LOCK = Lock()


def register(table: pa.Table) -> MemorySource:
    """Keep `table` while the returned source lives; raises `DataError` if two columns share a name.

    >>> source = register(pa.table({"a": [1, 2, 3]}))
    >>> source.n_rows, table_of(source).num_columns
    (3, 1)
    """
    from fabric.ids import new_id

    checked_schema(table.schema, "the table")
    source = MemorySource(new_id("mem"), table.num_rows)
    with _LOCK:
        _KEPT[source.token] = _Kept(table, 1)
    weakref.finalize(source, release, source.token)
    return source


def retain(token: str) -> None:
    """Keep the table of `token` until a `release` more (a job does, while it runs)."""
    with _LOCK:
        _entry(token).n_users += 1


def release(token: str) -> None:
    """Give up one use; the last one forgets the table. Unknown tokens are let pass."""
    with _LOCK:
        if (kept := _KEPT.get(token)) is None:
            return
        kept.n_users -= 1
        if kept.n_users <= 0:
            del _KEPT[token]


def table_of(source: MemorySource) -> pa.Table:
    """The table of `source`; raises `NotFoundError` where it is not (any more)."""
    with _LOCK:
        return _entry(source.token).table


def source_schema(source: MemorySource) -> pa.Schema:
    """The table's columns."""
    return checked_schema(table_of(source).schema, "the table")


def enumerate_splits(source: MemorySource, n_target: int) -> list[Split]:
    """`n_target` row ranges of nearly equal length; fewer when there are fewer rows."""
    table = table_of(source)
    n_rows, n_splits = table.num_rows, max(1, min(n_target, table.num_rows))
    row_bytes = table.nbytes / n_rows if n_rows else 0.0
    cuts = [n_rows * i // n_splits for i in range(n_splits + 1)]
    return [
        Split(source.token, begin, end, n_rows=end - begin, n_bytes=int((end - begin) * row_bytes))
        for begin, end in pairwise(cuts)
    ]


def read_split(
    source: MemorySource, schema: pa.Schema, split: Split, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """The rows of `split`, at most `BATCH_ROWS` a batch."""
    table = table_of(source)
    if columns is not None:
        table = table.select(list(columns))
    if split.end:
        table = table.slice(split.begin, split.end - split.begin)
    yield from table.to_batches(max_chunksize=BATCH_ROWS)


def _entry(token: str) -> _Kept:
    if token not in _KEPT:
        raise NotFoundError(
            f"table {token} is not in this process; keep its DataFrame until the job has ended, "
            "and on agents of another process read it from a file or a dataset"
        )
    return _KEPT[token]
