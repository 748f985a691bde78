"""Spark: repartition by key of a cached frame, in one process or on executors."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from bench.harness import Case
from bench.shuffling.data import parts
from bench.shuffling.run import ShuffleRun


def local_run(case: Case) -> ShuffleRun:
    """Spark local[2]."""
    from bench.spark_session import local_session

    return _run(case, local_session())


def cluster_run(case: Case) -> ShuffleRun:
    """Two executors of one core each."""
    from bench.spark_session import cluster_session

    return _run(case, cluster_session())


def _run(case: Case, spark: Any) -> ShuffleRun:
    from pyspark.sql import functions as sf

    rows = spark.read.parquet(*parts(case, "parquet")).cache()
    rows.count()
    stack = ExitStack()
    stack.callback(rows.unpersist)
    moved = rows.repartition(case.parameters["workers"], "k")
    length = sf.sum(sf.length("s")) if case.parameters["strings"] else sf.lit(0)
    totals = [sf.count("*").alias("n"), *(sf.sum(name).alias(name) for name in ("k", "v", "w")),
              length.alias("s")]  # fmt: skip
    by_partition = moved.groupBy(sf.spark_partition_id().alias("p"))

    def partitions() -> list[dict[str, Any]]:
        found = by_partition.agg(*totals, sf.count_distinct("k").alias("keys")).collect()
        return [row.asDict() for row in found]

    return ShuffleRun(lambda: by_partition.agg(*totals).collect(), partitions, stack)
