"""The bids that every engine reads, as files.

One job: one file a core, written once by Fabric's Nexmark generator: Arrow IPC in batches of 64 Ki
rows for Fabric, and the same rows as Parquet for DuckDB and Flink. All queries here are about bids,
so persons and auctions, 4 of 50 events, are left out, and rates count bids. File i of n holds every
n-th round of 46 bids, so all files run through event time side by side, each in order. Event
times are a millisecond apart, which is as fine as Flink's are.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from bench.made import made

EVENTS_A_SECOND = 1_000
"""Of event time."""
START_EVENTS = 1_000
"""So few that a job over them takes no more than it takes to start and to end."""
BATCH_ROWS, GROUP_BATCHES = 65_536, 16
"""Of an Arrow file; and how many of them are a row group of the Parquet file."""
_EPOCH_EVENTS, _EPOCH_BIDS = 50, 46


def n_cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def n_bids(n_events: int) -> int:
    """How many of so many events are bids; events come in whole rounds of 50.

    >>> n_bids(1_000)
    920
    """
    return n_events // _EPOCH_EVENTS * _EPOCH_BIDS


def folder(n_events: int, n_files: int) -> Path:
    """Where the files lie; made when they are not there."""
    return made("nexmark", f"{n_events}-in-{n_files}", lambda at: write(at, n_events, n_files))


def paths(n_events: int, n_files: int, ending: str) -> list[str]:
    """The files of so many events, ``arrow`` or ``parquet``."""
    found = folder(n_events, n_files) / ending
    return sorted(str(path) for path in found.iterdir())


def write(at: Path, n_events: int, n_files: int) -> None:
    """Files ``arrow/bid-<i>.arrow`` and ``parquet/bid-<i>.parquet``."""
    import pyarrow.parquet as pq

    from fabric.io.readers.nexmark import BID, n_rows, rows
    from fabric.plan.sources import NexmarkStream

    source = NexmarkStream("bid", n_events=n_events, n_splits=n_files, event_rate=EVENTS_A_SECOND)
    for ending in ("arrow", "parquet"):
        (at / ending).mkdir()
    for index in range(n_files):
        name = f"bid-{index}"
        total = n_rows(source, index)
        with (
            pa.OSFile(str(at / "arrow" / f"{name}.arrow"), "wb") as file,
            pa.ipc.new_file(file, BID) as arrow,
            pq.ParquetWriter(
                at / "parquet" / f"{name}.parquet", BID, compression="none"
            ) as parquet,
        ):
            group: list[pa.RecordBatch] = []
            for begin in range(0, total, BATCH_ROWS):
                end = min(begin + BATCH_ROWS, total)
                group.append(rows(source, BID.names, index, begin, end))
                arrow.write_batch(group[-1])
                if end == total or len(group) == GROUP_BATCHES:
                    parquet.write_table(pa.Table.from_batches(group))
                    group.clear()
