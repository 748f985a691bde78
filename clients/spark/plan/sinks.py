"""Writes on Spark.

One job: a `Sink` node. Rows are written by Fabric's own sinks inside Spark's Python workers: files
aside and renamed, datasets in one transaction, split by our kernel and put to their owners; nobody
sees a part before all of them are there, and what failed leaves nothing. Tasks that Spark tried
twice count once: only what the job's result names is published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame as SparkFrame

from fabric.clients.spark.connection import plainly_each
from fabric.clients.spark.options import parse_options
from fabric.clients.spark.plan.relation import Relation
from fabric.clients.spark.plan.rows import restored_batches
from fabric.clients.spark.plan.sources import DatasetHome, FindHome
from fabric.clients.spark.writer import Part, Transaction
from fabric.ids import TaskId
from fabric.io import sinks
from fabric.plan.nodes import Node, Sink, Sort
from fabric.plan.targets import DatasetTarget, FileTarget, PostgresTarget, Target
from fabric.plan.walk import walk

_WRITTEN = pa.schema([("handle", pa.binary()), ("rows", pa.int64())])
_STAGE = 0


class Writing(Protocol):
    """One write: what Spark's workers do, and what the driver does at the end."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What each Spark task does with its rows: one row out, its handle."""

    def publish(self, handles: list[bytes]) -> None:
        """Show what the tasks of `handles` wrote, all at once."""

    def abandon(self) -> None:
        """Remove whatever was written."""


def written(node: Sink, rows: Relation, job: str, home: FindHome) -> pa.Table:
    """Write `rows`; one row a task with how many it wrote, like the sink node itself."""
    frame = _as_one(node, rows.df) if _is_single(node.target) else rows.df
    writing = _writing(node.target, rows.schema, job, home)
    try:
        done = frame.mapInArrow(writing, "handle binary, rows bigint").toArrow().cast(_WRITTEN)
        writing.publish(done.column(0).to_pylist())
    except BaseException:
        writing.abandon()
        raise
    return done.select(["rows"])


def _is_single(target: Target) -> bool:
    return isinstance(target, FileTarget) and target.single


def _as_one(node: Sink, frame: SparkFrame) -> SparkFrame:
    """All rows in one partition, in their order if the plan sorts."""
    is_ordered = any(isinstance(part, Sort) for part in walk(node))
    return frame.coalesce(1) if is_ordered else frame.repartition(1)


def _writing(target: Target, schema: pa.Schema, job: str, home: FindHome) -> Writing:
    if isinstance(target, DatasetTarget):
        return _DatasetWriting.begin(target, schema, home())
    sinks.check_target(target, schema)
    return _SinkWriting(target, schema, job)


@dataclass(frozen=True)
class _SinkWriting:
    """Files, Flight servers, tables of PostgreSQL, gates: each task writes its partition aside."""

    target: Target
    schema: pa.Schema
    job: str

    @plainly_each
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        task = TaskId(self.job, _STAGE, number, int(context.taskAttemptId()))
        sink = sinks.open_sink(self.target, self.schema, task, n_tasks=1)
        n_rows = 0
        try:
            for batch in restored_batches(batches, self.schema):
                sink.write(batch)
                n_rows += batch.num_rows
            if not n_rows and number:  # the first one writes an empty part, the others nothing
                sink.abandon()
                return
            handle = sink.prepare()
        except BaseException:
            sink.abandon()
            raise
        yield pa.record_batch([[handle], [n_rows]], schema=_WRITTEN)

    def publish(self, handles: list[bytes]) -> None:
        sinks.publish(handles, self.target)

    def abandon(self) -> None:
        if isinstance(self.target, FileTarget | PostgresTarget):
            sinks.discard(self.target, self.job, _STAGE)


@dataclass(frozen=True)
class _DatasetWriting:
    """A dataset of a fabric: each task puts its rows to their owners."""

    transaction: Transaction
    schema: pa.Schema

    @classmethod
    def begin(cls, target: DatasetTarget, schema: pa.Schema, home: DatasetHome) -> _DatasetWriting:
        """Open the transaction, in the plan's own types."""
        given = {**home.options, "dataset": target.name}
        options = parse_options(given, writing=True)
        options = replace(
            options, keys=target.keys, partitions=target.n_partitions, replicas=target.replicas
        )
        return cls(Transaction.begin(options, schema, target.mode), schema)

    @plainly_each
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        writer, attempt = f"spark-{context.partitionId()}", int(context.taskAttemptId())
        part = self.transaction.put(writer, attempt, restored_batches(batches, self.schema))
        handle = json.dumps(asdict(part)).encode()
        yield pa.record_batch([[handle], [part.rows]], schema=_WRITTEN)

    def publish(self, handles: list[bytes]) -> None:
        self.transaction.commit([Part(**json.loads(handle)) for handle in handles])

    def abandon(self) -> None:
        self.transaction.abort()


def wrote(root: Node, result: pa.Table) -> int:
    """Rows of a result, or rows that a sink wrote."""
    if not isinstance(root, Sink):
        return int(result.num_rows)
    return sum(result.column("rows").to_pylist())
