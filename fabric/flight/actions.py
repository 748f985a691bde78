"""DoAction: what any Flight client can ask for besides rows.

One job: a table of actions. Bodies and answers are JSON objects (one answer each), so that a client
in any language can call them; an unknown field is refused. `dataset.begin` takes the schema as
base64 of an Arrow IPC schema message.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fabric._cython.shuffle.wire.headers import unpacked_bytes
from fabric.control import control_pb2 as pb
from fabric.control.datasets import all_owners, n_lacking, n_replicas
from fabric.errors import ConfigError, DataError, NotFoundError
from fabric.flight.backend import Backend
from fabric.flight.directory import Directory, Puts
from fabric.security.callers import Caller, calling
from fabric.security.tokens import Claims, Scope
from fabric.telemetry.logs import lines_of

BODY_BYTES_MAX = 960 << 10
"""Below what a stranger may send before its token is seen (`flight/server.cpp`)."""
UNPACKED_BYTES_MAX = 8 << 20
"""Of keys that are looked up."""
JOBS_TOLD = 1000
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ActionKind:
    """One action: who may call it, what its body may hold, what it does."""

    name: str
    scope: Scope
    description: str
    fields: Mapping[str, type]
    run: Callable[[Fields, Claims], dict[str, object]]


class Actions:
    """The actions of one server."""

    def __init__(self, backend: Backend, puts: Puts, version: str) -> None:
        self._backend, self._puts, self._version = backend, puts, version
        self._directory = Directory(backend)
        kinds = [
            ActionKind("healthcheck", "read", "{}: agent, version", {}, self._health),
            ActionKind("job.list", "read", "{}: the newest jobs, state, result", {}, self._jobs),
            ActionKind(
                "job.logs", "read", "{job}: what this agent logged about it lately",
                {"job": str}, self._logs,
            ),
            ActionKind(
                "dataset.list", "read",
                "{}: datasets, their versions, how many partitions lack a replica", {}, self._list,
            ),
            ActionKind(
                "dataset.begin", "write",
                "{name, schema (base64 IPC), keys, partitions, replicas, "
                "mode create|append|overwrite, idempotency_key}: transaction",
                {"name": str, "schema": str, "keys": list, "partitions": int, "replicas": int,
                 "mode": str, "idempotency_key": str}, self._begin,
            ),
            ActionKind(
                "dataset.locate", "write",
                "{name, transaction}: schema, keys, owners of an open transaction's partitions, "
                "replicas for each, one partition after the other",
                {"name": str, "transaction": str}, self._locate,
            ),
            ActionKind(
                "dataset.commit", "write",
                "{transaction, parts: [{writer, attempt, rows}]}: version; may be repeated",
                {"transaction": str, "parts": list}, self._commit,
            ),
            ActionKind(
                "dataset.abort", "write", "{transaction, name}: forget it if it is still open",
                {"transaction": str, "name": str}, self._abort,
            ),
            ActionKind("dataset.drop", "write", "{name}: remove it", {"name": str}, self._drop),
            ActionKind(
                "view.get", "read",
                "{name, partition, keys (base64 IPC stream), live 0 or 1}: rows (base64 IPC "
                "stream) of these keys, of a view that this agent keeps a partition of",
                {"name": str, "partition": int, "keys": str, "live": int}, self._view_get,
            ),
            ActionKind(
                "state.get", "read",
                "{job, path, state, keys (base64 IPC stream)}: rows (base64 IPC stream) of these "
                "keys, of what a stream keeps, as of its newest complete checkpoint",
                {"job": str, "path": str, "state": str, "keys": str}, self._state_get,
            ),
            ActionKind(
                "dataset.discard", "agent", "{name, transaction}: agents remove files here",
                {"name": str, "transaction": str}, self._discard,
            ),
        ]  # fmt: skip
        self._kinds = {kind.name: kind for kind in kinds}

    def offered(self, claims: Claims) -> list[tuple[str, str]]:
        """Name and description of what the caller may call."""
        return [(k.name, k.description) for k in self._kinds.values() if claims.allows(k.scope)]

    def run(self, claims: Claims, name: str, body: bytes) -> bytes:
        """Call one action."""
        kind = self._kinds.get(name)
        if kind is None:
            known = ", ".join(name for name, _ in self.offered(claims))
            raise NotFoundError(f"there is no action {name[:80]!r}; known: {known}")
        claims.require(kind.scope, f"action {name}")
        with calling(Caller(claims)):
            return json.dumps(kind.run(_fields(kind, body), claims)).encode()

    def _health(self, _fields: Fields, _claims: Claims) -> dict[str, object]:
        return {"status": "ok", "agent": self._backend.agent_id, "version": self._version}

    def _jobs(self, _fields: Fields, _claims: Claims) -> dict[str, object]:
        jobs = self._backend.control.list_jobs(pb.ListRequest(limit=JOBS_TOLD)).jobs
        return {
            "jobs": [
                {
                    "job": job.job_id,
                    "name": job.name,
                    "state": pb.JobState.Name(job.state).removeprefix("JOB_").lower(),
                    "result": job.result_path,
                    "rows": job.result_rows,
                }
                for job in jobs
            ]
        }

    def _logs(self, fields: Fields, _claims: Claims) -> dict[str, object]:
        return {"agent": self._backend.agent_id, "lines": lines_of(_needed(fields, "job"))}

    def _list(self, _fields: Fields, _claims: Claims) -> dict[str, object]:
        reply = self._ask(pb.DatasetRequest(list=pb.DatasetList()))
        attached = set(reply.addresses)
        return {
            "datasets": [
                {**_about(location), "partitions_lacking": n_lacking(location, attached)}
                for location in reply.datasets
            ]
        }

    def _begin(self, fields: Fields, claims: Claims) -> dict[str, object]:
        name = _needed(fields, "name")
        mode = fields.get("mode", "create")
        if "schema" in fields:
            schema = _base64(fields["schema"])
        elif mode == "append":
            schema = self._directory.dataset(name).schema
        else:
            raise ConfigError(f"dataset.begin with mode {mode!r} needs a schema")
        begin = pb.DatasetBegin(
            name=name,
            schema=schema,
            keys=_texts(fields.get("keys", [])),
            n_partitions=_count(fields.get("partitions", 0), "partitions"),
            mode=mode,
            idempotency_key=fields.get("idempotency_key", ""),
            subject=claims.key_owner,
            replicas=_replicas(fields),
        )
        reply = self._ask(pb.DatasetRequest(begin=begin))
        return {"transaction": reply.transaction, **_about(reply.location)}

    def _locate(self, fields: Fields, _claims: Claims) -> dict[str, object]:
        name, transaction = _needed(fields, "name"), _needed(fields, "transaction")
        location = self._directory.transaction(name, transaction)
        known = self._backend.locations.addresses()
        owners = list(location.owners)
        return {
            **_about(location),
            "schema": base64.b64encode(location.schema).decode(),
            "owners": owners,
            "addresses": {o: known[o] for o in all_owners(location) if o in known},
        }

    def _commit(self, fields: Fields, _claims: Claims) -> dict[str, object]:
        transaction = _needed(fields, "transaction")
        parts = [_part(transaction, part) for part in fields.get("parts", [])]
        commit = pb.DatasetCommit(transaction=transaction, parts=parts)
        reply = self._ask(pb.DatasetRequest(commit=commit))
        self._backend.locations.merge(pb.Locations(datasets=[reply.location]))
        return _about(reply.location)

    def _abort(self, fields: Fields, _claims: Claims) -> dict[str, object]:
        transaction, name = _needed(fields, "transaction"), _needed(fields, "name")
        try:
            location = self._directory.transaction(name, transaction)
        except NotFoundError:
            return {"transaction": transaction, "aborted": False}
        self._puts.undo(transaction, location.SerializeToString())
        return {"transaction": transaction, "aborted": True}

    def _drop(self, fields: Fields, _claims: Claims) -> dict[str, object]:
        location = self._directory.dataset(_needed(fields, "name"))
        self._ask(pb.DatasetRequest(drop=pb.DatasetDrop(name=location.name)))
        for transaction in sorted({part.transaction for part in location.parts}):
            self._puts.discard(transaction, location)
        self._backend.locations.forget_dataset(location.name)
        return {"name": location.name}

    def _view_get(self, fields: Fields, _claims: Claims) -> dict[str, object]:
        name, keys = _needed(fields, "name"), _base64(_needed(fields, "keys"), "keys")
        partition = _count(fields.get("partition", 0), "partition")
        schema, found = self._backend.datasets.views.get(
            name, partition, _stream(keys), live=bool(fields.get("live"))
        )
        return _rows(schema, found)

    def _state_get(self, fields: Fields, _claims: Claims) -> dict[str, object]:
        job, path, state = (_needed(fields, name) for name in ("job", "path", "state"))
        if self._backend.states is None:
            raise NotFoundError("there are no states of streams here; ask an agent")
        keys = _stream(_base64(_needed(fields, "keys"), "keys"))
        return _rows(*self._backend.states.get(job, path, state, keys))

    def _discard(self, fields: Fields, _claims: Claims) -> dict[str, object]:
        name, transaction = _needed(fields, "name"), _needed(fields, "transaction")
        self._backend.datasets.discard(name, transaction)
        return {}

    def _ask(self, request: pb.DatasetRequest) -> pb.DatasetReply:
        reply = self._backend.control.dataset(request)
        if reply.addresses:
            self._backend.locations.merge(pb.Locations(addresses=dict(reply.addresses)))
        return reply


def _fields(kind: ActionKind, body: bytes) -> Fields:
    """The body as a JSON object with known fields of the right types; an empty one is {}."""
    if len(body) > BODY_BYTES_MAX:
        raise ConfigError(f"the body of {kind.name} has at most {BODY_BYTES_MAX} bytes")
    try:
        fields = json.loads(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the body of {kind.name} must be JSON: {kind.description}") from error
    if not isinstance(fields, dict):
        raise ConfigError(f"the body of {kind.name} must be a JSON object: {kind.description}")
    for name, value in fields.items():
        wanted = kind.fields.get(name)
        if wanted is None:
            raise ConfigError(f"{kind.name} has no field {name[:80]!r}: {kind.description}")
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ConfigError(f"field {name!r} of {kind.name} must be {wanted.__name__}")
    return fields


def _needed(fields: Fields, name: str) -> str:
    if not fields.get(name):
        raise ConfigError(f"field {name!r} is missing")
    return str(fields[name])


def _texts(values: list[object]) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise ConfigError("field 'keys' must be a list of column names")
    return [str(value) for value in values]


def _stream(data: bytes) -> pa.Table:
    """A small Arrow IPC stream, which may be compressed: what it comes to is known before."""
    try:
        n_bytes = sum(
            unpacked_bytes(each.metadata.to_pybytes(), each.body.to_pybytes())
            for each in pa.ipc.MessageReader.open_stream(data)
            if each.type != "schema"
        )
        if n_bytes <= UNPACKED_BYTES_MAX:
            return pa.ipc.open_stream(data).read_all()
    except (pa.ArrowException, OSError, ValueError, DataError) as error:
        raise ConfigError("field 'keys' must be base64 of an Arrow IPC stream") from error
    raise ConfigError(
        f"field 'keys' has {n_bytes} bytes once decompressed, at most {UNPACKED_BYTES_MAX}"
    )


def _rows(schema: pa.Schema, found: Iterable[pa.RecordBatch]) -> dict[str, object]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for rows in found:
            writer.write_batch(rows)
    return {"rows": base64.b64encode(sink.getvalue()).decode()}


def _count(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 31:
        raise ConfigError(f"field {what!r} must be a number from 0, got {str(value)[:40]}")
    return value


def _replicas(fields: Fields) -> int:
    """0 when it is left out: those the dataset has, else 1."""
    replicas = _count(fields.get("replicas", 1), "replicas")
    if replicas < 1:
        raise ConfigError("field 'replicas' must be at least 1, got 0")
    return replicas if "replicas" in fields else 0


def _part(transaction: str, part: object) -> pb.CommittedPart:
    if not isinstance(part, dict) or not isinstance(part.get("writer"), str):
        raise ConfigError("field 'parts' must be a list of {writer, attempt, rows}")
    rows = part.get("rows", 0)
    if not isinstance(rows, int) or isinstance(rows, bool) or not 0 <= rows < 1 << 63:
        raise ConfigError("field 'rows' of a part must be a number from 0")
    return pb.CommittedPart(
        transaction=transaction,
        writer=part["writer"],
        attempt=_count(part.get("attempt", 0), "attempt"),
        rows=rows,
    )


def _base64(text: str, what: str = "schema") -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        form = "schema message" if what == "schema" else "stream"
        raise ConfigError(f"field {what!r} must be base64 of an Arrow IPC {form}") from error


def _about(location: pb.DatasetLocation) -> dict[str, object]:
    return {
        "name": location.name,
        "version": location.version,
        "rows": location.rows,
        "keys": list(location.keys),
        "partitions": location.n_partitions,
        "replicas": n_replicas(location),
    }
