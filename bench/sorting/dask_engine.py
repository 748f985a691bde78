"""Dask: two worker processes that hold the rows; the sorted parts stay with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import pyarrow as pa

from bench.harness import Case
from bench.sorting.data import SortRun, keys, mapped, parts

N_WORKERS = 2


def run(case: Case) -> SortRun:
    """One thread a worker process, as an agent has one slot a core."""
    dd: Any = import_module("dask.dataframe")
    distributed: Any = import_module("distributed")

    stack = ExitStack()
    cluster = stack.enter_context(
        distributed.LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=None)
    )
    stack.enter_context(distributed.Client(cluster))
    rows = dd.from_map(_frame, parts(case, "arrow")).persist()
    distributed.wait(rows)

    def sort() -> Any:
        ordered = rows.sort_values(keys(case)).persist()
        distributed.wait(ordered)
        return ordered

    def read() -> Iterator[pa.Table]:
        for part in sort().to_delayed():
            yield pa.Table.from_pandas(part.compute(), preserve_index=False)

    return SortRun(sort, read, stack)


def _frame(path: str) -> Any:
    return mapped(path).to_pandas()
