"""The persons, auctions and bids that every engine reads, as files; and the side input of q13.

One job: the tables, each written once by Fabric's Nexmark generator: 1 person, 3 auctions and 46
bids of 50 events. Arrow IPC in batches of 64 Ki rows for Fabric, a file a core and table; and the
same rows as Parquet for DuckDB and Flink, there persons and auctions in one file each: Flink gives
small files to whichever task asks first, and rows of a second file would be late. File i of n holds
every n-th round of 50 events, so all files run through event time side by side, each in order.
Event times are a millisecond apart, which is as fine as Flink's are. An auction is open for at
most 3.4 s (`OPEN_S`), and its first bids may come before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.made import made

if TYPE_CHECKING:
    from fabric.plan.sources import NexmarkTable

TABLES: tuple[NexmarkTable, ...] = ("person", "auction", "bid")
SIDE = "side"
"""The side input: a text for each of so many keys."""
SIDE_ROWS = 10_000
OPEN_S = 4
"""Seconds of event time after which any auction is over."""
EVENTS_A_SECOND = 1_000
"""Of event time."""
START_EVENTS = 1_000
"""So few that a job over them takes no more than it takes to start and to end."""
BATCH_ROWS, GROUP_BATCHES = 65_536, 16
"""Of an Arrow file; and how many of them are a row group of the Parquet file."""
_EPOCH_EVENTS = 50
_EPOCH_ROWS = {"person": 1, "auction": 3, "bid": 46}


def n_cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def n_rows(table: str, n_events: int) -> int:
    """How many of so many events are of a table; events come in whole rounds of 50.

    >>> [n_rows(table, 1_000) for table in TABLES]
    [20, 60, 920]
    """
    if table == SIDE:
        return SIDE_ROWS
    return n_events // _EPOCH_EVENTS * _EPOCH_ROWS[table]


def folder(n_events: int, n_files: int) -> Path:
    """Where the files lie; made when they are not there."""
    name = f"{n_events}-in-{n_files}-of-{len(TABLES)}-tables"
    return made("nexmark", name, lambda at: write(at, n_events, n_files))


def paths(n_events: int, n_files: int, table: str, ending: str) -> list[str]:
    """The files of a table of so many events, ``arrow`` or ``parquet``."""
    found = folder(n_events, n_files) / ending / table
    return sorted(str(path) for path in found.iterdir())


def write(at: Path, n_events: int, n_files: int) -> None:
    """Files ``arrow/bid/0.arrow`` and ``parquet/bid/0.parquet``, and so on."""
    arrow, parquet = at / "arrow", at / "parquet"
    for table in (*TABLES, SIDE):
        (arrow / table).mkdir(parents=True)
        (parquet / table).mkdir(parents=True)
    for index in range(n_files):
        for table in TABLES:
            _write_arrow(arrow / table / f"{index}.arrow", _made(table, n_events, n_files, index))
        _write_parquet(parquet / "bid" / f"{index}.parquet", _made("bid", n_events, n_files, index))
    for table in TABLES[:2]:
        _write_parquet(parquet / table / "0.parquet", _made(table, n_events, 1, 0))
    keys = range(SIDE_ROWS)
    side = pa.record_batch(
        {"key": pa.array(keys, pa.int64()), "value": [f"side {key}" for key in keys]}
    )
    _write_arrow(arrow / SIDE / "0.arrow", iter([side]))
    _write_parquet(parquet / SIDE / "0.parquet", iter([side]))


def _made(table: NexmarkTable, n_events: int, n_files: int, index: int) -> Iterator[pa.RecordBatch]:
    from fabric.io.readers import nexmark
    from fabric.plan.sources import NexmarkStream

    source = NexmarkStream(table, n_events=n_events, n_splits=n_files, event_rate=EVENTS_A_SECOND)
    total, names = nexmark.n_rows(source, index), nexmark.SCHEMAS[table].names
    for begin in range(0, total, BATCH_ROWS):
        yield nexmark.rows(source, names, index, begin, min(begin + BATCH_ROWS, total))


def _write_arrow(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _write_parquet(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    import pyarrow.parquet as pq

    group = [next(batches)]
    with pq.ParquetWriter(path, group[0].schema, compression="none") as writer:
        for batch in batches:
            if len(group) == GROUP_BATCHES:
                writer.write_table(pa.Table.from_batches(group))
                group.clear()
            group.append(batch)
        writer.write_table(pa.Table.from_batches(group))
