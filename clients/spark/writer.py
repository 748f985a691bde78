"""Write a dataset from Spark: staged per task attempt, visible all at once at commit.

One job: begin a `Transaction` on the driver, put a task's rows in a Python worker, commit or abort
on the driver. Each task attempt splits its own rows by the kernel that agents use and puts them
straight to their owners. Attempts that Spark did not commit (retries, speculation) are simply not
listed in the commit, so their rows are never seen.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from fabric.clients.spark.connection import Agents, agents_of, plainly
from fabric.clients.spark.options import SparkOptions
from fabric.clients.spark.types import conform, nullable_schema, schema_to_append
from fabric.control.control_pb2 import DatasetLocation
from fabric.errors import ConfigError, NotFoundError
from fabric.flight.client import Client
from fabric.flight.descriptor import PutPath
from fabric.flight.owners import Kept, Spread, patiently
from fabric.flight.transport import PutWriter


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


@dataclass(frozen=True, slots=True)
class Part:
    """What one task attempt put: a commit lists these."""

    writer: str
    attempt: int
    rows: int


def dataset_schema(options: SparkOptions) -> pa.Schema | None:
    """The columns of the dataset that `options` name; None when there is none yet."""
    try:
        schema: pa.Schema = agents_of(options).ask(lambda client: client.info(options.path)).schema
    except NotFoundError:
        return None
    return schema


@dataclass(frozen=True, slots=True)
class Transaction:
    """An open transaction; plain values only, so that Spark can send it to its workers."""

    agents: Agents
    dataset: str
    transaction: str

    @classmethod
    def begin(cls, options: SparkOptions, schema: pa.Schema, mode: str) -> Transaction:
        """Open one; asked twice, the fabric gives the same."""
        agents, key = agents_of(options), secrets.token_hex(16)
        fields: dict[str, Any] = {
            "name": options.dataset,
            "schema": base64.b64encode(schema.serialize()).decode(),
            "keys": list(options.keys),
            "partitions": options.partitions,
            "mode": mode,
            "idempotency_key": key,
        }
        if options.replicas:
            fields["replicas"] = options.replicas
        begun = agents.ask(lambda client: client.action("dataset.begin", **fields))
        opened = cls(agents, options.dataset, str(begun["transaction"]))
        location = opened._locate()
        others = [at for at in location["addresses"].values() if at not in agents.addresses]
        known = Agents((*agents.addresses, *others), agents.credentials, agents.timeout_s)
        return cls(known, opened.dataset, opened.transaction)

    def put(
        self, writer: str, attempt: int, batches: Iterable[pa.RecordBatch], *, waits: bool = True
    ) -> Part:
        """Split one attempt's rows and put them to their owners; returns once they lie there.

        An owner that starts again is waited for, as long as agents may be silent (`timeout_s`) and
        the first rows are still here.
        """
        kept, path = Kept(batches), PutPath(self.dataset, self.transaction, writer, attempt)
        return patiently(
            lambda: self._put(path, kept),
            self.agents.timeout_s if waits else 0.0,
            may_repeat=lambda: kept.is_whole,
        )

    def _put(self, path: PutPath, batches: Iterable[pa.RecordBatch]) -> Part:
        found = self._locate()
        location = DatasetLocation(
            name=self.dataset,
            schema=base64.b64decode(found["schema"]),
            keys=found["keys"],
            n_partitions=found["partitions"],
            owners=found["owners"],
            replicas=found["replicas"],
        )
        with self.agents.client() as client:
            spread = Spread(path, location, _ToOwners(client), found["addresses"])
            try:
                for batch in batches:
                    spread.write(batch)
                rows = spread.seal().rows
            finally:
                spread.abandon()
        return Part(path.writer, path.attempt, rows)

    def commit(self, parts: Sequence[Part]) -> None:
        """Publish the listed attempts, all at once; may be repeated."""
        listed = [asdict(part) for part in parts]
        patiently(
            lambda: self.agents.ask(
                lambda client: client.action(
                    "dataset.commit", transaction=self.transaction, parts=listed
                )
            ),
            self.agents.timeout_s,
        )

    def abort(self) -> None:
        """Forget the transaction and what lies at the owners."""
        self.agents.ask(
            lambda client: client.action(
                "dataset.abort", transaction=self.transaction, name=self.dataset
            )
        )

    def _locate(self) -> dict[str, Any]:
        """Where its rows go now: an owner that was started again has another address."""
        return self.agents.ask(
            lambda client: client.action(
                "dataset.locate", transaction=self.transaction, name=self.dataset
            )
        )


@dataclass(frozen=True, slots=True)
class _ToOwners:
    """How `Spread` reaches the owners."""

    client: Client

    def open_put(self, address: str, put: PutPath, schema: pa.Schema) -> PutWriter:
        return self.client.open_owner_put(address, put, schema)
