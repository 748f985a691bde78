"""Spark local[2]: a cached frame; every row of the sorted one is looked at, and none is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Case
from bench.sorting.data import SortRun, keys, parts


def run(case: Case) -> SortRun:
    """Ranges of the order, as many as it has partitions after a shuffle."""
    from bench.spark_session import local_session

    rows = local_session().read.parquet(*parts(case, "parquet")).cache()
    rows.count()
    stack = ExitStack()
    stack.callback(rows.unpersist)
    ordered = rows.orderBy(*keys(case))

    def sort() -> object:
        return ordered.write.format("noop").mode("overwrite").save()

    def read() -> Iterator[pa.Table]:
        # By way of files, one a partition and in their order: 50 M rows do not fit into a driver.
        with TemporaryDirectory(prefix="fabric-bench-") as folder:
            ordered.write.mode("overwrite").parquet(folder)
            for part in sorted(Path(folder).glob("part-*.parquet")):
                yield pq.read_table(part)

    return SortRun(sort, read, stack)
