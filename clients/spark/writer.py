"""Write a dataset from Spark: staged per task attempt, visible all at once at commit.

One job: begin a transaction on the driver, `do_put` a task's rows in a Python worker, commit or
abort on the driver. Attempts that Spark did not commit (retries, speculation) are simply not listed
in the commit, so their rows are never seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from fabric.clients.spark.connection import DatasetWriter, at_agent
from fabric.clients.spark.faults import plainly
from fabric.clients.spark.options import SparkOptions
from fabric.clients.spark.types import conform


@dataclass
class TaskWritten(WriterCommitMessage):
    """What one task attempt put: the commit lists exactly these."""

    writer: str
    attempt: int
    rows: int


class FabricWriter(DataSourceArrowWriter):
    """One write of one DataFrame."""

    def __init__(self, options: SparkOptions, schema: pa.Schema, overwrite: bool) -> None:
        self.schema = schema
        self.dataset = DatasetWriter(at_agent(options), "overwrite" if overwrite else "append")
        self.transaction = self.dataset.begin(schema)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Put one task's batches; runs in a Python worker."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        writer, attempt = f"spark-{context.partitionId()}", int(context.taskAttemptId())
        batches = (conform(batch, self.schema) for batch in iterator)
        rows = self.dataset.put(self.transaction, writer, attempt, self.schema, batches)
        return TaskWritten(writer, attempt, rows)

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the listed attempts visible, all at once."""
        parts = [(m.writer, m.attempt, m.rows) for m in messages if isinstance(m, TaskWritten)]
        self.dataset.commit(self.transaction, parts)

    @plainly
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop whatever was staged."""
        self.dataset.abort(self.transaction)
