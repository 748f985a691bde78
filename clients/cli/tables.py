"""Tables of jobs, tasks, agents, datasets and events, as the CLI prints them.

One job: rows and columns. On a terminal they fit its width; into a pipe every value goes whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from fabric.clients.job.status import state_of
from fabric.control import control_pb2 as pb
from fabric.control.api import STATES
from fabric.control.datasets import n_lacking, n_replicas

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from fabric.checkpoint.manifest import Manifest
    from fabric.clients.job.savepoint import StreamInfo
    from fabric.clients.session.kept_state import StateFacts

_TASKS = {
    pb.TASK_UNKNOWN: "waiting", pb.TASK_RUNNING: "running", pb.TASK_FINISHED: "finished",
    pb.TASK_FAILED: "failed", pb.TASK_CANCELLED: "cancelled",
}  # fmt: skip
_PIPE_WIDTH = 1000
_SHOWN = ("timestamp", "event", "agent", "job", "logger", "level")


def jobs_table(jobs: Iterable[pb.JobStatus]) -> Table:
    """One line a job."""
    made = table("job", "name", "state", "tasks >", "rows >", "seconds >", "error")
    for job in jobs:
        done, of = (sum(getattr(s, field) for s in job.stages) for field in ("finished", "n_tasks"))
        add(
            made, job.job_id, job.name, state_of(job), f"{done}/{of}",
            f"{job.result_rows:,}", f"{job.seconds:.2f}", job.waiting or failure(job),
        )  # fmt: skip
    return made


def tasks_table(tasks: Iterable[pb.TaskStatus]) -> Table:
    """One line an attempt of a task."""
    made = table("task", "attempt >", "node", "state", "agent", "rows >", "seconds >", "error")
    for task in tasks:
        known = task.started_s and task.ended_s  # a lost one may never have said that it began
        seconds = f"{task.ended_s - task.started_s:.3f}" if known else ""
        add(
            made, f"{task.stage}.{task.task}", str(task.attempt), task.node_path,
            _TASKS.get(task.state, "unknown"), task.agent_id, f"{task.rows_out:,}", seconds,
            failure(task),
        )  # fmt: skip
    return made


def checkpoints_table(checkpoints: Iterable[pb.CheckpointStatus]) -> Table:
    """One line a checkpoint."""
    made = table(
        "checkpoint >", "state", "begun", "seconds >", "bytes >", "files >", "in flight >", "reason"
    )
    for one in checkpoints:
        inflight = f"{one.inflight_bytes:,}" if one.unaligned else ""
        begun = datetime.fromtimestamp(one.begun_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
        add(
            made, str(one.checkpoint), one.state, begun, f"{one.seconds:.3f}", f"{one.bytes:,}",
            str(one.files), inflight, one.reason,
        )  # fmt: skip
    return made


def stored_table(found: Iterable[tuple[str, int, Manifest]]) -> Table:
    """One line a checkpoint that lies in a folder: its job, its number, what it holds."""
    made = table("job", "checkpoint >", "tasks >", "files >", "bytes >")
    for job, number, manifest in found:
        n_files = sum(len(task.files) for task in manifest.tasks)
        n_bytes = sum(task.n_bytes for task in manifest.tasks)
        add(
            made, job, str(number), str(len(manifest.tasks)), f"{n_files:,}", f"{n_bytes:,}"
        )  # fmt: skip
    return made


def parts_table(parts: Iterable[pb.CheckpointPart]) -> Table:
    """One line a task of a node in a checkpoint."""
    made = table("node", "task >", "attempt >", "files >", "bytes >", "splits >", "prepared >")
    for part in parts:
        add(
            made, part.node_path, str(part.task), str(part.attempt), str(part.files),
            f"{part.bytes:,}", str(part.splits), str(part.handles),
        )  # fmt: skip
    return made


def savepoints_table(savepoints: Iterable[pb.SavepointStatus], now_s: float) -> Table:
    """One line a savepoint."""
    made = table(
        "savepoint", "stream", "job", "checkpoint >", "taken", "age >", "rows >", "size >",
        "files >", "release", "error",
    )  # fmt: skip
    for one in savepoints:
        known = () if one.error else (
            str(one.checkpoint), moment(one.created_s), age(now_s - one.created_s),
            counted(one.rows if one.HasField("rows") else None), size(one.bytes), f"{one.files:,}",
        )  # fmt: skip
        add(
            made, one.name, one.stream, one.job_id, *(known or ("",) * 6), one.release, one.error
        )  # fmt: skip
    return made


def streams_table(streams: Iterable[StreamInfo], now_s: float) -> Table:
    """One line a stream that has a name."""
    made = table(
        "stream", "state", "checkpoint >", "taken", "age >", "rows >", "size >", "starts >", "job",
        "runs in", "error",
    )  # fmt: skip
    for one in streams:
        taken_s = one.taken.timestamp() if one.taken is not None else 0.0
        known = (
            str(one.checkpoint), moment(taken_s), age(now_s - taken_s), counted(one.rows),
            size(one.bytes),
        ) if taken_s else ("",) * 5  # fmt: skip
        starts = f"{one.starts:,}" if one.starts else ""
        add(made, one.name, one.state, *known, starts, one.job_id, one.runs_in, one.error)
    return made


def states_table(states: Iterable[StateFacts]) -> Table:
    """One line a state that can be read."""
    made = table("job", "path", "state", "checkpoint >", "keys", "columns")
    for one in states:
        columns = ", ".join(f"{field.name}: {field.type}" for field in one.schema)
        add(made, *one.path[1:], str(one.checkpoint), ", ".join(one.keys), columns)
    return made


def rows_table(rows: pa.Table) -> Table:
    """One line a row of a state."""
    made = table(*rows.column_names)
    for row in rows.to_pylist():
        add(made, *("" if value is None else str(value) for value in row.values()))
    return made


def nodes_table(manifest: Manifest) -> Table:
    """One line a node that has put something into a checkpoint."""
    made = table(
        "node", "kind", "tasks >", "key groups >", "files >", "rows >", "size >", "splits >",
        "keys", "step",
    )  # fmt: skip
    from fabric.checkpoint.manifest import rows_in

    known = {node.path: node for node in manifest.nodes}
    for path in sorted({task.node for task in manifest.tasks}):
        tasks, node = manifest.of_node(path), known.get(path)
        add(
            made, path, node.kind if node else "", str(len(tasks)),
            f"{sum(len(task.key_groups) for task in tasks):,}",
            f"{sum(len(task.files) for task in tasks):,}",
            counted(rows_in(tasks)), size(sum(task.n_bytes for task in tasks)),
            f"{len(manifest.positions(path)):,}",
            ", ".join(node.keys) if node else "", node.text if node else "",
        )  # fmt: skip
    return made


def agents_table(agents: Iterable[pb.AgentStatus]) -> Table:
    """One line an agent."""
    made = table("agent", "state", "tasks >", "slots >", "stored >", "memory >", "heard >", "at")
    for agent in agents:
        add(
            made, agent.agent_id, agent.state, str(agent.running_tasks), str(agent.slots),
            size(agent.stored_bytes), size(agent.rss_bytes), f"{agent.seen_s_ago:.1f} s ago",
            agent.address,
        )  # fmt: skip
    return made


def datasets_table(told: pb.DatasetReply) -> Table:
    """One line a dataset."""
    made = table(
        "dataset", "version >", "rows >", "partitions >", "replicas >", "lacking >", "keys"
    )
    for location in told.datasets:
        add(
            made, location.name, str(location.version), f"{location.rows:,}",
            str(location.n_partitions), str(n_replicas(location)),
            str(n_lacking(location, set(told.addresses))), ", ".join(location.keys),
        )  # fmt: skip
    return made


def events_table(events: Iterable[pb.EventRecord], *, of_one_job: bool = False) -> Table:
    """One line an event."""
    made = table("when", "what", *(() if of_one_job else ("job",)), "agent", "details")
    for event in events:
        job = () if of_one_job else (event.job_id,)
        add(made, moment(event.wall_s), event.kind, *job, event.agent_id, event.text)
    return made


def log_lines(events: Iterable[pb.EventRecord], logged: Iterable[Mapping[str, Any]]) -> list[str]:
    """Events of the coordinator and lines of agents by time, as text."""
    found = [
        (event.wall_s, "coordinator", event.kind, {"agent": event.agent_id, "": event.text})
        for event in events
    ]
    for line in logged:
        others = {name: value for name, value in line.items() if name not in _SHOWN}
        found.append((_wall_s(line), line.get("agent", "agent"), line.get("event", ""), others))
    found.sort(key=lambda one: one[0])
    return [
        plain(" ".join((moment(at), str(who), "-", str(what), *_pairs(fields))))
        for at, who, what, fields in found
    ]


def _pairs(fields: Mapping[str, Any]) -> list[str]:
    named = {name: value for name, value in fields.items() if value not in ("", None)}
    return [f"{name}={value}" if name else str(value) for name, value in named.items()]


def _wall_s(line: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(line.get("timestamp"))).timestamp()
    except ValueError:
        return 0.0


def failure(told: pb.JobStatus | pb.TaskStatus) -> str:
    """Why it failed, or nothing."""
    return f"{told.error.kind}: {told.error.message}" if told.HasField("error") else ""


def counted(n_rows: int | None) -> str:
    """A number of rows; nothing where nobody has counted them."""
    return "" if n_rows is None else f"{n_rows:,}"


def size(n_bytes: int) -> str:
    """Bytes as people read them.

    >>> size(512), size(200 << 20)
    ('512 B', '200.0 MiB')
    """
    value = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def age(seconds: float) -> str:
    """How long ago something was.

    >>> age(4.2), age(250), age(90_000), age(900_000)
    ('4 s', '4 min', '25 h', '10 d')
    """
    for unit, of_unit, most in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds < most * of_unit:
            return f"{max(0, seconds) // of_unit:.0f} {unit}"
    return f"{seconds // 86_400:.0f} d"


def moment(wall_s: float) -> str:
    """A wall time, UTC, to the millisecond.

    >>> moment(0.25)
    '1970-01-01 00:00:00.250'
    """
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def table(*columns: str) -> Table:
    """An empty table; a column whose name ends with > holds numbers."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        name, numbers, _ = column.partition(" >")
        made.add_column(name, justify="right" if numbers else "left")
    return made


def add(made: Table, *values: str) -> None:
    """One row; values are text, never markup, and stay on their line."""
    from rich.text import Text

    made.add_row(*(Text(plain(value)) for value in values))


def plain(text: str) -> str:
    """`text` without what moves a terminal's cursor or breaks its lines."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def show(made: Table, empty: str) -> None:
    """Print the table, or say that it is `empty`."""
    if not made.row_count:
        typer.echo(empty)
        return
    from rich.console import Console

    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console = Console(file=sys.stdout, width=_PIPE_WIDTH)
    console.print(made)


def states_of(names: Sequence[str]) -> list[pb.JobState]:
    """The states that people call so; `BadParameter` for another name."""
    by_name = {name: state for state, name in STATES.items()}
    if unknown := [name for name in names if name not in by_name]:
        raise typer.BadParameter(f"{unknown[0]!r} is not a state; use one of {', '.join(by_name)}")
    return [by_name[name] for name in names]
