"""Files that benchmarks read, made once and kept.

One job: `made`, a folder that is there wholly or not at all, and how tables are written into it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

_BATCH_ROWS = 65_536


def made(benchmark: str, name: str, write: Callable[[Path], object]) -> Path:
    """Where the files lie; `write` fills a folder when they are not there."""
    root = Path(tempfile.gettempdir()) / f"fabric-bench-{os.getuid()}" / benchmark
    found = root / name
    if not found.exists():
        root.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=root))
        write(aside)
        aside.rename(found)
    return found


def write_arrow(path: Path, table: pa.Table) -> None:
    """An Arrow IPC file that can be mapped."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=_BATCH_ROWS)


def write_both(path: Path, table: pa.Table) -> None:
    """An Arrow IPC file and a Parquet file beside it."""
    import pyarrow.parquet as pq

    write_arrow(path, table)
    pq.write_table(table, path.with_suffix(".parquet"))
