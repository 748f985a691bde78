"""Fabric: two warm agents that read mapped Arrow files; ranges of the order lie in their stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa

from bench.harness import Case
from bench.sorting.data import SortRun, folder, keys

N_AGENTS = 2


def run(case: Case) -> SortRun:
    """A coordinator and its agents."""
    import fabric
    from tests.support.local import local_fabric

    stack = ExitStack()
    local = stack.enter_context(local_fabric(N_AGENTS))
    session = stack.enter_context(fabric.connect(f"fabric://{local.address}", token=local.token))
    ordered = session.read_ipc(str(folder(case.rows) / "*.arrow")).sort(*keys(case))

    def sort() -> object:
        with session.submit(ordered) as job:
            return job.wait()

    def read() -> Iterator[pa.RecordBatch]:
        with session.submit(ordered) as job:
            yield from job.iter_batches()

    return SortRun(sort, read, stack)
