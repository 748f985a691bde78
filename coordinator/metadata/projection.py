"""What SQL can see of a record: real columns beside its bytes.

One job: `TABLES_SQL`, the columns of each table and how they follow from a record: pure, so that
writing a record twice changes nothing. They are for people and dashboards; a coordinator itself
reads nothing but the record. Where a record says nothing, or is none, a column is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError, Message

from fabric.control import control_pb2 as pb
from fabric.coordinator.metadata.store import Table

Value = str | int | datetime | None
_ENDED = frozenset((pb.TASK_FINISHED, pb.TASK_FAILED, pb.TASK_CANCELLED))
_JOB_ENDED = frozenset((pb.JOB_FINISHED, pb.JOB_FAILED, pb.JOB_CANCELLED, pb.JOB_RELEASED))


@dataclass(frozen=True, slots=True)
class TableColumns:
    """`key` is the primary key's column; `types` are the others, beside ``record``, in order."""

    key: str
    types: Mapping[str, str]
    project: Callable[[str, bytes], tuple[Value, ...]]


def _job(_: str, record: bytes) -> tuple[Value, ...]:
    stored = _parsed(pb.StoredJob, record)
    job = stored.status
    ended_s = stored.ended_s or job.submitted_s + job.seconds
    return (
        _text(job.name),
        _word(pb.JobState, job.state, "JOB_"),
        _moment(job.submitted_s),
        _moment(ended_s if job.state in _JOB_ENDED else 0.0),
        _text(job.client_key),
        job.run,
        _error(job.error),
    )


def _task(key: str, record: bytes) -> tuple[Value, ...]:
    return _task_columns(_parsed(pb.StoredTask, record).status, key)


def _attempt(key: str, record: bytes) -> tuple[Value, ...]:
    return _task_columns(_parsed(pb.TaskStatus, record), key)


def _task_columns(task: pb.TaskStatus, key: str) -> tuple[Value, ...]:
    return (
        _text(key.partition("/")[0]),
        _text(task.node_path),
        _text(task.agent_id),
        _word(pb.TaskState, task.state, "TASK_"),
        _moment(task.started_s),
        _moment(task.ended_s if task.state in _ENDED else 0.0),
        task.stage,
        task.task,
        task.attempt,
        _number(task.epoch),
        _error(task.error),
    )


def _agent(_: str, record: bytes) -> tuple[Value, ...]:
    stored = _parsed(pb.StoredAgent, record)
    agent = stored.hello
    try:
        address = urlsplit(agent.address)
        host, port = address.hostname, address.port
    except ValueError:
        host, port = None, None
    return (
        _text(host or agent.host),
        port,
        _text(stored.state),
        _moment(stored.seen_s),
        _text(agent.address),
        agent.slots,
        _text(agent.version),
    )


def _dataset(_: str, record: bytes) -> tuple[Value, ...]:
    found = _parsed(pb.DatasetLocation, record)
    return (_number(found.version), found.n_partitions, _number(found.rows))


def _event(_: str, record: bytes) -> tuple[Value, ...]:
    event = _parsed(pb.EventRecord, record)
    return (
        _moment(event.wall_s),
        _text(event.kind),
        _text(event.job_id),
        _text(event.agent_id),
        _text(event.who),
        _text(event.text),
        _number(event.epoch),
    )


def _of_job(key: str, _: bytes) -> tuple[Value, ...]:
    return (_text(key.partition("/")[0]),)


def _nothing(_: str, __: bytes) -> tuple[Value, ...]:
    return ()


_TASK_TYPES = {
    "job_id": "text", "operator_id": "text", "agent_id": "text", "status": "text",
    "started_at": "timestamptz", "completed_at": "timestamptz", "stage": "bigint",
    "task": "bigint", "attempt": "bigint", "epoch": "bigint", "error": "text",
}  # fmt: skip

TABLES_SQL: Mapping[Table, TableColumns] = {
    "jobs": TableColumns(
        "job_id",
        {
            "job_name": "text", "status": "text", "created_at": "timestamptz",
            "completed_at": "timestamptz", "client_key": "text", "run": "bigint", "error": "text",
        },
        _job,
    ),
    "plans": TableColumns("plan_id", {"job_id": "text"}, _of_job),
    "tasks": TableColumns("task_id", _TASK_TYPES, _task),
    "attempts": TableColumns("attempt_id", _TASK_TYPES, _attempt),
    "agents": TableColumns(
        "agent_id",
        {
            "host": "text", "port": "bigint", "status": "text", "last_heartbeat": "timestamptz",
            "address": "text", "slots": "bigint", "version": "text",
        },
        _agent,
    ),
    "datasets": TableColumns(
        "name", {"version": "bigint", "n_partitions": "bigint", "n_rows": "bigint"}, _dataset
    ),
    "transactions": TableColumns("transaction_id", {}, _nothing),
    "events": TableColumns(
        "event_id",
        {
            "happened_at": "timestamptz", "kind": "text", "job_id": "text", "agent_id": "text",
            "who": "text", "message": "text", "epoch": "bigint",
        },
        _event,
    ),
    "checkpoints": TableColumns("checkpoint_id", {"job_id": "text"}, _of_job),
}  # fmt: skip


def row_of(table: Table, key: str, record: bytes) -> tuple[Value | bytes, ...]:
    """Key, record and the other columns of one row.

    >>> job = pb.StoredJob(status=pb.JobStatus(name="by k", state=pb.JOB_RUNNING))
    >>> row_of("jobs", "job-1", job.SerializeToString())[2:]
    ('by k', 'running', None, None, None, 0, None)
    """
    return (key, record, *TABLES_SQL[table].project(key, record))


def _parsed(kind: type[Any], record: bytes) -> Any:
    """The record as a message, an empty one when it is none."""
    message: Message = kind()
    try:
        message.ParseFromString(record)
    except DecodeError:
        return kind()
    return message


def _text(text: str) -> str | None:
    """PostgreSQL's texts can't hold NUL."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}") or None


def _number(value: int) -> int | None:
    """One that a bigint can hold."""
    return value if value < 1 << 63 else None


def _moment(wall_s: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(wall_s, UTC) if wall_s else None
    except (OverflowError, ValueError, OSError):
        return None


def _word(enum: Any, value: int, prefix: str) -> str:
    """``JOB_RUNNING`` as ``running``, a state of a later version as its number."""
    name: str = enum.Name(value) if value in enum.values() else str(value)
    return name.removeprefix(prefix).lower()


def _error(error: pb.ErrorDetail) -> str | None:
    return _text(f"{error.kind}: {error.message}") if error.kind else None
