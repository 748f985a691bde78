"""Write a dataset from Spark: staged per task attempt, visible all at once at commit.

One job: begin a transaction on the driver, put a task's rows in a Python worker, commit or abort on
the driver. Attempts that Spark did not commit (retries, speculation) are simply not listed in the
commit, so their rows are never seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from fabric.clients.spark.casts import conform
from fabric.clients.spark.faults import plainly
from fabric.clients.spark.options import SparkOptions
from fabric.clients.spark.transaction import Part, Transaction, dataset_schema
from fabric.clients.spark.types import nullable_schema, schema_to_append
from fabric.errors import ConfigError


@dataclass
class TaskWritten(WriterCommitMessage):
    """What one task attempt put; None when there was nothing to do."""

    part: Part | None


class FabricWriter(DataSourceArrowWriter):
    """One write of one DataFrame with columns `schema`."""

    def __init__(self, options: SparkOptions, schema: pa.Schema, overwrite: bool) -> None:
        self.schema = nullable_schema(schema)
        self.transaction: Transaction | None = None
        if overwrite and options.if_exists != "append":
            raise ConfigError(
                f'.option("if_exists", "{options.if_exists}") is for .mode("append"); an overwrite '
                "replaces what exists"
            )
        known = None if overwrite else dataset_schema(options)
        if known is not None and options.if_exists == "ignore":
            return
        if known is not None and options.if_exists == "error":
            raise ConfigError(
                f"dataset {options.dataset!r} exists already; append to it without if_exists, or "
                'use .mode("overwrite")'
            )
        if known is not None:
            self.schema = schema_to_append(schema, known)
        self.transaction = Transaction.begin(options, self.schema, _mode(options, overwrite))

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Put one task's batches; runs in a Python worker."""
        from pyspark import TaskContext

        if self.transaction is None:
            for _ in iterator:  # Spark has computed them and waits until they are taken
                pass
            return TaskWritten(None)
        context = TaskContext.get()
        assert context is not None
        batches = (conform(batch, self.schema) for batch in iterator)
        writer, attempt = f"spark-{context.partitionId()}", int(context.taskAttemptId())
        waits = context.attemptNumber() == 0  # once: Spark tries again after that by itself
        return TaskWritten(self.transaction.put(writer, attempt, batches, waits=waits))

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the listed attempts visible, all at once."""
        if self.transaction is not None:
            written = [m.part for m in messages if isinstance(m, TaskWritten)]
            self.transaction.commit([part for part in written if part is not None])

    @plainly
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop whatever was staged."""
        if self.transaction is not None:
            self.transaction.abort()


def _mode(options: SparkOptions, overwrite: bool) -> str:
    """The fabric's word for what Spark and `if_exists` ask."""
    if overwrite:
        return "overwrite"
    return "append" if options.if_exists == "append" else "create"
