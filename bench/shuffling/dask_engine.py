"""Dask: P2P shuffle between worker processes, the rows held by them beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import pyarrow as pa

from bench.harness import Case
from bench.shuffling.data import mapped, parts, placed, sums
from bench.shuffling.run import ShuffleRun


def run(case: Case) -> ShuffleRun:
    """One thread a worker process, as an agent has one slot a core."""
    dask: Any = import_module("dask")
    dd: Any = import_module("dask.dataframe")
    distributed: Any = import_module("distributed")

    dask.config.set({"dataframe.convert-string": True})
    n_workers = case.parameters["workers"]
    stack = ExitStack()
    cluster = stack.enter_context(
        distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None)
    )
    client = stack.enter_context(distributed.Client(cluster))
    rows = dd.from_map(_frame, parts(case, "arrow")).persist()
    client.run(lambda: None)
    moved = rows.shuffle(on="k", npartitions=n_workers, shuffle_method="p2p")

    def arrived(what: Any) -> list[Mapping[str, Any]]:
        delayed = [dask.delayed(what)(part) for part in moved.to_delayed()]
        found: list[Mapping[str, Any]] = list(dask.compute(*delayed))
        return found

    return ShuffleRun(lambda: arrived(_sums), lambda: arrived(_placed), stack)


def _frame(path: str) -> Any:
    import pandas as pd

    return mapped(path).to_pandas(types_mapper={pa.string(): pd.ArrowDtype(pa.string())}.get)


def _sums(frame: Any) -> dict[str, float]:
    return sums(pa.Table.from_pandas(frame, preserve_index=False))


def _placed(frame: Any) -> dict[str, float]:
    return placed(pa.Table.from_pandas(frame, preserve_index=False))
