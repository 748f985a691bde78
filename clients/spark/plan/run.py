"""Run a plan on Spark.

One job: `execute`, from a checked plan to its rows. All that can be refused is refused before Spark
starts to work. The Spark session a plan runs in (`prepared`) is a new one over the caller's
`SparkContext`, so nothing of the caller's session is changed and two threads may run plans at once;
the caller's own SQL settings go with it, except those that would change what an expression means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from pyspark.sql import SparkSession

from fabric.clients.spark.plan.errors import as_ours
from fabric.clients.spark.plan.explain import refuse
from fabric.clients.spark.plan.rows import restored
from fabric.clients.spark.plan.sinks import written
from fabric.clients.spark.plan.sources import FindHome, no_home
from fabric.clients.spark.plan.translate import kept_frames, to_spark_frame
from fabric.clients.spark.source import FabricDataSource
from fabric.control import control_pb2 as pb
from fabric.ids import new_id
from fabric.plan.nodes import Node, Sink
from fabric.plan.schema import schema_of


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


SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.timeType.enabled": "true",
    # fields of structs may differ in case only
    "spark.sql.caseSensitive": "true",
    # else a right side of AND that is written twice is evaluated on every row
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # Parquet statistics leave NaN out: floats inside structs would be compared by them
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.arrow.pyspark.selfDestruct.enabled": "false",
}
"""What a plan's meaning depends on."""

# Small tables of the driver would be computed by the optimizer, row by row on one thread.
_NOT_FOR_PLANS = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
_SQL = "spark.sql."
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_PARTITIONS = "spark.sql.shuffle.partitions"
_ADAPTIVE = {
    "enabled": ("adaptive.enabled",),
    "broadcast_bytes": ("autoBroadcastJoinThreshold", "adaptive.autoBroadcastJoinThreshold"),
    "target_bytes": (
        "adaptive.advisoryPartitionSizeInBytes",
        "adaptive.skewJoin.skewedPartitionThresholdInBytes",
    ),
    "tiny_bytes": ("adaptive.coalescePartitions.minPartitionSize",),
    "skew_factor": ("adaptive.skewJoin.skewedPartitionFactor",),
}
"""Spark's words, after ``spark.sql.``, for those of `AdaptiveConfig`."""
_OURS: WeakSet[SparkSession] = WeakSet()
"""Sessions made here: another thread's run may have left one active."""


@contextmanager
def prepared(
    spark: SparkSession, *, parallelism: int = 0, adaptive: pb.Adaptive | None = None
) -> Iterator[SparkSession]:
    """A session over the same context in which plans mean what they say.

    `parallelism` is the number of partitions after a shuffle; 0 leaves the caller's setting, as
    does what `adaptive` does not say.
    """
    given = _sql_settings(spark)
    session = spark.newSession()
    for name, value in given.items():
        if ".legacy." in name:
            session.conf.unset(name)
        elif session.conf.isModifiable(name) and session.conf.get(name) != value:
            session.conf.set(name, value)
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    excluded = [rule for rule in (given.get(_EXCLUDED), _NOT_FOR_PLANS) if rule]
    session.conf.set(_EXCLUDED, ",".join(excluded))
    if parallelism:
        session.conf.set(_PARTITIONS, str(parallelism))
    for field, value in adaptive.ListFields() if adaptive is not None else ():
        for name in _ADAPTIVE[field.name]:  # a threshold of 0 would still broadcast what is empty
            wanted = -1 if field.name == "broadcast_bytes" and not value else value
            session.conf.set(f"spark.sql.{name}", str(wanted).lower())
    _OURS.add(session)
    with _thread_kept(spark) as jvm:
        jvm.SparkSession.setActiveSession(session._jsparkSession)  # who is asked for taken names
        session.dataSource.register(FabricDataSource)
        yield session


def _sql_settings(spark: SparkSession) -> dict[str, str]:
    """The caller's, by one call of the JVM: `spark.conf.getAll` makes three for each setting."""
    settings = spark._jsparkSession.conf().getAllAsJava()
    jvm: Any = spark._jvm
    text = jvm.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(settings)
    return {name: value for name, value in json.loads(text).items() if name.startswith(_SQL)}


@contextmanager
def _thread_kept(spark: SparkSession) -> Iterator[Any]:
    """The active session stays the caller's: PySpark changes it as it makes frames."""
    kind: Any = type(spark)
    active, jvm = kind._activeSession, spark._jvm
    assert jvm is not None
    before = jvm.SparkSession.getActiveSession()  # the JVM's is one a thread, Python's one in all
    try:
        yield jvm
    finally:
        kind._activeSession = spark if active in _OURS else active
        if before.isDefined():
            jvm.SparkSession.setActiveSession(before.get())
        else:
            jvm.SparkSession.clearActiveSession()
