"""What SQL can see of a record: real columns beside its bytes.

`TABLES_SQL` has the columns of each table and how they follow from a record: pure, so that
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
Columns = Mapping[str, tuple[str, Callable[[str, Any], Value]]]
_ENDED = frozenset((pb.TASK_FINISHED, pb.TASK_FAILED, pb.TASK_CANCELLED))
_JOB_ENDED = frozenset((pb.JOB_FINISHED, pb.JOB_FAILED, pb.JOB_CANCELLED, pb.JOB_RELEASED))


@dataclass(frozen=True, slots=True)
class TableColumns:
    """`key` is the primary key's column; the others, beside ``record``, follow in order.

    Each has its SQL type, and its value by a record's key and what `read` makes of the record.
    """

    key: str
    columns: Columns
    read: Callable[[bytes], Any] = bytes

    @property
    def types(self) -> dict[str, str]:
        """The SQL types of the columns, but for key and record."""
        return {name: kind for name, (kind, _) in self.columns.items()}


def _as(kind: type[Any]) -> Callable[[bytes], Any]:
    """A record as a message of that kind, an empty one when it is none."""

    def read(record: bytes) -> Any:
        message: Message = kind()
        try:
            message.ParseFromString(record)
        except DecodeError:
            return kind()
        return message

    return read


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


def _job_end(stored: pb.StoredJob) -> datetime | None:
    job = stored.status
    ended_s = stored.ended_s or job.submitted_s + job.seconds
    return _moment(ended_s if job.state in _JOB_ENDED else 0.0)


def _place(address: str) -> tuple[str | None, int | None]:
    """Host and port."""
    try:
        found = urlsplit(address)
        return found.hostname, found.port
    except ValueError:
        return None, None


_TEXT, _BIGINT, _TIME = "text", "bigint", "timestamptz"
_JOB_ID: Columns = {"job_id": (_TEXT, lambda key, _: _text(key.partition("/")[0]))}
_TASK: Columns = {
    **_JOB_ID,
    "operator_id": (_TEXT, lambda _, task: _text(task.node_path)),
    "agent_id": (_TEXT, lambda _, task: _text(task.agent_id)),
    "status": (_TEXT, lambda _, task: _word(pb.TaskState, task.state, "TASK_")),
    "started_at": (_TIME, lambda _, task: _moment(task.started_s)),
    "completed_at": (_TIME, lambda _, task: _moment(task.ended_s if task.state in _ENDED else 0)),
    "stage": (_BIGINT, lambda _, task: task.stage),
    "task": (_BIGINT, lambda _, task: task.task),
    "attempt": (_BIGINT, lambda _, task: task.attempt),
    "epoch": (_BIGINT, lambda _, task: _number(task.epoch)),
    "error": (_TEXT, lambda _, task: _error(task.error)),
}
_STORED_TASK = _as(pb.StoredTask)

TABLES_SQL: Mapping[Table, TableColumns] = {
    "jobs": TableColumns(
        "job_id",
        {
            "job_name": (_TEXT, lambda _, job: _text(job.status.name)),
            "status": (_TEXT, lambda _, job: _word(pb.JobState, job.status.state, "JOB_")),
            "created_at": (_TIME, lambda _, job: _moment(job.status.submitted_s)),
            "completed_at": (_TIME, lambda _, job: _job_end(job)),
            "client_key": (_TEXT, lambda _, job: _text(job.status.client_key)),
            "run": (_BIGINT, lambda _, job: job.status.run),
            "error": (_TEXT, lambda _, job: _error(job.status.error)),
        },
        _as(pb.StoredJob),
    ),
    "plans": TableColumns("plan_id", _JOB_ID),
    "tasks": TableColumns("task_id", _TASK, lambda record: _STORED_TASK(record).status),
    "attempts": TableColumns("attempt_id", _TASK, _as(pb.TaskStatus)),
    "agents": TableColumns(
        "agent_id",
        {
            "host": (_TEXT, lambda _, a: _text(_place(a.hello.address)[0] or a.hello.host)),
            "port": (_BIGINT, lambda _, agent: _place(agent.hello.address)[1]),
            "status": (_TEXT, lambda _, agent: _text(agent.state)),
            "last_heartbeat": (_TIME, lambda _, agent: _moment(agent.seen_s)),
            "address": (_TEXT, lambda _, agent: _text(agent.hello.address)),
            "slots": (_BIGINT, lambda _, agent: agent.hello.slots),
            "version": (_TEXT, lambda _, agent: _text(agent.hello.version)),
        },
        _as(pb.StoredAgent),
    ),
    "datasets": TableColumns(
        "name",
        {
            "version": (_BIGINT, lambda _, dataset: _number(dataset.version)),
            "n_partitions": (_BIGINT, lambda _, dataset: dataset.n_partitions),
            "n_rows": (_BIGINT, lambda _, dataset: _number(dataset.rows)),
        },
        _as(pb.DatasetLocation),
    ),
    "transactions": TableColumns("transaction_id", {}),
    "events": TableColumns(
        "event_id",
        {
            "happened_at": (_TIME, lambda _, event: _moment(event.wall_s)),
            "kind": (_TEXT, lambda _, event: _text(event.kind)),
            "job_id": (_TEXT, lambda _, event: _text(event.job_id)),
            "agent_id": (_TEXT, lambda _, event: _text(event.agent_id)),
            "who": (_TEXT, lambda _, event: _text(event.who)),
            "message": (_TEXT, lambda _, event: _text(event.text)),
            "epoch": (_BIGINT, lambda _, event: _number(event.epoch)),
        },
        _as(pb.EventRecord),
    ),
    "checkpoints": TableColumns("checkpoint_id", _JOB_ID),
}


def row_of(table: Table, key: str, record: bytes) -> tuple[Value | bytes, ...]:
    """Key, record and the other columns of one row.

    >>> job = pb.StoredJob(status=pb.JobStatus(name="by k", state=pb.JOB_RUNNING))
    >>> row_of("jobs", "job-1", job.SerializeToString())[2:]
    ('by k', 'running', None, None, None, 0, None)
    """
    table_columns = TABLES_SQL[table]
    read = table_columns.read(record)
    return (key, record, *(value(key, read) for _, value in table_columns.columns.values()))
