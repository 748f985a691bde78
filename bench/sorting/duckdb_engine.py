"""DuckDB: mapped Arrow files, sorted into an Arrow table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa

from bench.harness import Case
from bench.sorting.data import SortRun, keys, mapped, parts


def run(case: Case) -> SortRun:
    """On all processors."""
    import duckdb

    stack = ExitStack()
    connection = stack.enter_context(duckdb.connect())
    rows = pa.concat_tables([mapped(path) for path in parts(case, "arrow")])
    connection.register("rows", rows)

    def sort() -> pa.Table:
        ordered = connection.sql(f"select * from rows order by {', '.join(keys(case))}")
        return ordered.to_arrow_table()

    def read() -> Iterator[pa.Table]:
        yield sort()

    return SortRun(sort, read, stack)
