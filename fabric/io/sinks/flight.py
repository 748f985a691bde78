"""Any Arrow Flight server as a target, by `do_put`.

A fabric's agent has transactions: every task puts an attempt of its own, and `publish` commits them
all at once. Any other server takes rows as they come: there each task streams one put, and what the
server does with it is its own affair. After a restore it gets the rows since the last checkpoint
again.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from fabric._cython.shuffle.store.messages import small_messages
from fabric.checkpoint.manifest import FINAL
from fabric.errors import AuthError, FabricError, PeerLostError, PlanError
from fabric.flight.client import Client
from fabric.ids import TaskId
from fabric.io import places
from fabric.io.sinks.protocol import Epochs, Handle, SinkStart, SinkWriter, grouped
from fabric.io.sources.flight import IDLE_S, asked, client_of
from fabric.plan.targets import FlightTarget
from fabric.telemetry.logs import logger

_log = logger("fabric.flight")
BEGIN = "dataset.begin"
WITHIN_S = 10.0
"""For the server of a sink to answer."""


def open_sink(
    target: FlightTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> FlightSink:
    """One put of a task."""
    return FlightSink(target, schema, task, f"{task.job}.{task.stage}")


def open_stream(
    target: FlightTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> SinkWriter:
    """A put from each barrier to the next."""
    key = f"{task.job}.{task.stage}.{start.run}"
    return Epochs(lambda since: FlightSink(target, schema, task, f"{key}.{since}"))


class FlightSink(SinkWriter):
    """One task's put; tasks with the same `key` share a transaction, where the server has any."""

    def __init__(self, target: FlightTarget, schema: pa.Schema, task: TaskId, key: str) -> None:
        self._target = target
        places.check_host(target.uri)
        self._client = client_of(target)
        self._writer = f"task-{task.task}"
        self._attempt = task.attempt
        self._rows = 0
        try:
            self._transaction = self._begin(schema, key)
            path = list(target.path)
            if self._transaction:
                path += [self._transaction, self._writer, str(self._attempt)]
            self._put = self._client.open_put(path, schema)
        except BaseException:
            self._client.close()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Send rows, in messages of at most 4 MiB."""
        for message in small_messages(batch):
            self._put.write(message)
        self._rows += batch.num_rows

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """End the put and wait for the server's acknowledgement."""
        self._put.finish()
        self._client.close()
        facts = {
            "uri": self._target.uri,
            "token": self._target.token,
            "tls_roots": self._target.tls_roots.decode("ascii", "replace"),
            "insecure": self._target.insecure,
            "transaction": self._transaction,
            "dataset": self._target.path[1] if self._transaction else "",
            "writer": self._writer,
            "attempt": self._attempt,
            "rows": self._rows,
        }
        return Handle("flight", facts).encode()

    def abandon(self) -> None:
        """Break the put off."""
        self._put.abandon()
        self._client.close()

    def _reached(self) -> list[str]:
        """The actions that the server offers; one that can't say offers none.

        Where the plan is somebody else's, they hear nothing of a server that can't be used but
        that, see `asking`.
        """
        target = self._target

        def ask() -> list[str]:
            with client_of(target, IDLE_S.get()) as client:
                return _actions(client)

        return asked(target.uri, ask, WITHIN_S, "agent") if places.are_guarded() else ask()

    def _begin(self, schema: pa.Schema, key: str) -> str:
        """Join the transaction of `key`, where the server has such a thing."""
        target = self._target
        offered = self._reached()
        if len(target.path) != 2 or target.path[0] != "dataset" or BEGIN not in offered:
            return ""
        begun = self._client.action(
            BEGIN,
            name=target.path[1],
            schema=base64.b64encode(schema.serialize()).decode(),
            mode="append",
            idempotency_key=key,
        )
        return str(begun["transaction"])


def publish(handles: Sequence[Handle]) -> None:
    """Commit what the tasks put; may be repeated. Servers without transactions have it already."""
    for facts in _by_transaction(handles):
        first = facts[0]
        keep = ("writer", "attempt", "rows")
        parts = [{name: fact[name] for name in keep} for fact in facts]
        with _client_of(first) as client:
            client.action("dataset.commit", transaction=first["transaction"], parts=parts)


def take_back(handles: Sequence[Handle]) -> None:
    """Refused by a fabric, whose rows are seen once; any other server has seen them for good."""
    for facts in _by_transaction(handles):
        first = facts[0]
        raise PlanError(
            f"rows that were committed to dataset {first['dataset']!r} at {first['uri']} can't be "
            "taken back from here; write to the fabric's own dataset (to_dataset) where that counts"
        )
    for uri in sorted({handle.facts["uri"] for handle in handles}):
        _log.warning("rows are sent again to a server that keeps what it got", uri=uri)


def abandon(handles: Sequence[Handle]) -> None:
    """Abort what the tasks put; may be repeated."""
    for facts in _by_transaction(handles):
        first = facts[0]
        with _client_of(first) as client:
            client.action("dataset.abort", transaction=first["transaction"], name=first["dataset"])


def _client_of(facts: Mapping[str, Any]) -> Client:
    roots = str(facts.get("tls_roots", "")).encode() or None
    insecure = bool(facts.get("insecure", False))
    return Client(facts["uri"], facts["token"], tls_roots=roots, insecure=insecure)


def _actions(client: Client) -> list[str]:
    """What the server offers; one that can't say offers nothing."""
    try:
        return client.actions()
    except (AuthError, PeerLostError):
        raise
    except FabricError:
        return []


def _by_transaction(handles: Sequence[Handle]) -> list[list[dict[str, Any]]]:
    ours = (handle for handle in handles if handle.facts["transaction"])
    return grouped(ours, "uri", "transaction")
