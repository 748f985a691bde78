"""Run a plan on Spark.

One job: `execute`, from a checked plan to its rows. All that can be refused is refused before Spark
starts to work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from fabric.clients.spark.plan.errors import as_ours
from fabric.clients.spark.plan.explain import refuse
from fabric.clients.spark.plan.rows import restored
from fabric.clients.spark.plan.settings import prepared
from fabric.clients.spark.plan.sinks import written
from fabric.clients.spark.plan.sources import FindHome, no_home
from fabric.clients.spark.plan.translate import kept_frames, to_spark_frame
from fabric.control import control_pb2 as pb
from fabric.ids import new_id
from fabric.plan.nodes import Node, Sink
from fabric.plan.schema import schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def execute(
    root: Node,
    spark: SparkSession,
    home: FindHome = no_home,
    *,
    job: str = "",
    parallelism: int = 0,
    adaptive: pb.Adaptive | None = None,
) -> pa.Table:
    """The rows of the checked plan under `root`, in the types the plan says.

    Parameters
    ----------
    job
        The job's id: Spark's job group, by which it can be cancelled.
    parallelism
        Partitions after a shuffle; 0 leaves it to the session.
    adaptive
        What a session was configured to; the rest is left to Spark's.

    Raises
    ------
    FabricError
        Whatever goes wrong, here or in Spark; never with a traceback of the JVM.
    """
    job = job or new_id("job")
    source = root.input if isinstance(root, Sink) else root
    refuse(root)
    with (
        as_ours(root),
        prepared(spark, parallelism=parallelism, adaptive=adaptive) as inside,
        _grouped(inside, job),
        kept_frames() as kept,
    ):
        rows = to_spark_frame(source, inside, home, kept)
        if isinstance(root, Sink):
            return written(root, rows, job, home)
        return restored(rows.df.toArrow(), schema_of(root))


@contextmanager
def _grouped(spark: SparkSession, job: str) -> Iterator[None]:
    """Spark's jobs of this run are one group, called like the job."""
    context = spark.sparkContext
    keys = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
    before = [context.getLocalProperty(key) for key in keys]
    context.setJobGroup(job, f"fabric {job}", interruptOnCancel=True)
    try:
        yield
    finally:
        for key, value in zip(keys, before, strict=True):
            context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None takes it away
