"""Polars: mapped Arrow files, sorted into a frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from bench.harness import Case
from bench.sorting.data import SortRun, keys, parts


def run(case: Case) -> SortRun:
    """The faster of its engines: the one in memory."""
    import polars as pl

    ordered = pl.scan_ipc(parts(case, "arrow")).sort(keys(case))

    def sort() -> Any:
        return ordered.collect()

    def read() -> Iterator[pa.Table]:
        yield sort().to_arrow()

    return SortRun(sort, read)
