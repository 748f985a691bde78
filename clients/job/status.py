"""What a coordinator said of a job, as people read it.

One job: `Status`, a `JobStatus` message that prints its stages as lines, `headline`, its first, and
`html`, the same for a notebook.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from fabric.control import control_pb2 as pb
from fabric.control.api import STATES
from fabric.event_time import shown
from fabric.plan.stream import LATE, STILL_LEFT, STILL_RIGHT
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


BACKPRESSURE_SHOWN = 0.005
"""The smallest share of waiting for consumers that is told."""

if TYPE_CHECKING:
    _Message = pb.JobStatus
else:
    _Message = object


def where_from(status: pb.JobStatus) -> str | None:
    """The lines that say where a named stream continues, and with what changes; None: it begins.

    >>> origin = pb.StreamOrigin(name="clicks", start=1)
    >>> where_from(pb.JobStatus(stream=origin))
    'stream clicks begins again from its start: no checkpoint of it was complete'
    """
    origin = status.stream
    if not origin.start and not origin.checkpoint:
        return None
    if not origin.checkpoint:
        return f"stream {origin.name} begins again from its start: no checkpoint of it was complete"
    from rich.filesize import decimal  # few need it

    begun = datetime.fromtimestamp(origin.begun_s)
    day = "" if begun.date() == datetime.now().date() else f"{begun:%Y-%m-%d} "
    states = f"{origin.states or 'no'} state{'' if origin.states == 1 else 's'}"
    if origin.states and origin.HasField("rows"):
        states += f", {rows_shortly(origin.rows)}"
    savepoint = f"savepoint {origin.savepoint}, " if origin.savepoint else ""
    first = (
        f"stream {origin.name} goes on from {savepoint}checkpoint {origin.checkpoint} of {day}"
        f"{begun:%H:%M:%S}, {states}, {decimal(origin.bytes)}"
    )
    return "\n".join([first, *(f"  {change}" for change in origin.changes)])


def rows_shortly(n_rows: int) -> str:
    """A number of rows, for a glance.

    >>> rows_shortly(1), rows_shortly(950), rows_shortly(31_900), rows_shortly(1_234_567)
    ('1 row', '950 rows', '31.9 k rows', '1.2 M rows')
    """
    from rich.filesize import pick_unit_and_suffix

    unit, letter = pick_unit_and_suffix(n_rows, ["", "k", "M", "G", "T"], 1000)
    number = f"{n_rows / unit:,.1f} {letter}" if letter else str(n_rows)
    return f"{number} row{'' if n_rows == 1 else 's'}"


class Status(_Message):
    """A job's status; its fields are those of the message ``JobStatus`` of ``control.proto``.

    >>> stage = pb.StageStatus(node_path="scan_1", n_tasks=2, finished=1, rows=1000, bytes=8000)
    >>> print(Status(pb.JobStatus(job_id="job-1", state=pb.JOB_RUNNING, stages=[stage])))
    job-1: running, 1 of 2 tasks done
      stage 0 scan_1: 1 of 2 tasks, 1,000 rows, 8,000 bytes
    """

    def __init__(self, message: pb.JobStatus) -> None:
        self.message = message

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name == "message":  # while it is copied, there is none yet
                raise AttributeError(name)
            return getattr(self.message, name)

    def __eq__(self, other: object) -> bool:
        return self.message == (other.message if isinstance(other, Status) else other)

    __hash__ = None  # type: ignore[assignment]  # the message changes

    def __str__(self) -> str:
        lines = [headline(self.message)]
        for s in self.message.stages:
            lines.append(
                f"  stage {s.stage} {s.node_path}: {s.finished} of {s.n_tasks} tasks, "
                f"{stage_rows(s) or '0 rows'}, {s.bytes:,} bytes{_backpressure(s)}"
            )
            lines += [f"    {why}" for why in [*s.adapted, *standing(s)]]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"JobStatus({headline(self.message)})"


def state_of(status: pb.JobStatus) -> str:
    """What people call its state.

    >>> state_of(pb.JobStatus(state=pb.JOB_FINISHED, stopped_at=41))
    'stopped at checkpoint 41'
    """
    if status.state == pb.JOB_FINISHED and status.stopped_at:
        return f"stopped at checkpoint {status.stopped_at}"
    return STATES.get(status.state, "unknown")


def headline(status: pb.JobStatus) -> str:
    """One line: id, name, state, rows, seconds, error."""
    name = f" {status.name!r}" if status.name else ""
    text = f"{status.job_id}{name}: {state_of(status)}"
    if status.state == pb.JOB_FINISHED and status.stopped_at:  # its tasks were cut off
        text += f", after {status.seconds:.2f} s"
    elif status.state == pb.JOB_FINISHED:
        text += f", {status.result_rows:,} rows in {status.seconds:.2f} s"
    elif status.state == pb.JOB_RUNNING:
        done = sum(stage.finished for stage in status.stages)
        text += f", {done} of {sum(stage.n_tasks for stage in status.stages)} tasks done"
        if n_read := max(
            (s.rows_in for s in status.stages if s.HasField("watermark_us")), default=0
        ):
            text += f", {n_read:,} rows in"
    text = ", ".join([text, *counted(status.stages)])
    if status.rescaling:
        text += f", being rescaled to parallelism {status.rescaling}"
    if status.waiting:
        text += f", it {status.waiting}"
    if status.HasField("error"):
        text += f", {status.error.kind}: {status.error.message}"
    return text


def _backpressure(stage: pb.StageStatus) -> str:
    """How much of its time a task of the stage waited for its consumers, when it is much."""
    ratio = stage.backpressure_ratio
    return f", backpressure {ratio:.0%}" if ratio >= BACKPRESSURE_SHOWN else ""


_log = logger("fabric.session")

_STATE, _BELOW = "state_", "state_cold_bytes"
"""Where state lies is told in detail elsewhere."""
_SIDES = {STILL_LEFT: "left", STILL_RIGHT: "right"}
QUIET_S = 0.5
PATIENT_S = 5.0
"""How long a job may wait for slots where nothing is drawn before a warning says so."""


def stage_rows(stage: pb.StageStatus) -> str:
    """What a stage has done; of a stream, also where its event time is.

    >>> stage_rows(pb.StageStatus(rows=1000))
    '1,000 rows'
    >>> stage_rows(pb.StageStatus(rows_in=1000, rows=2, watermark_us=0))
    '1,000 rows in, 2 out, at 1970-01-01 00:00:00'
    >>> late = pb.Counted(node_path="by", name="late_rows", n=3)
    >>> stage_rows(pb.StageStatus(rows_in=1000, rows=2, watermark_us=0, counts=[late]))
    '1,000 rows in, 2 out, at 1970-01-01 00:00:00, 3 late rows'
    >>> stage_rows(pb.StageStatus(rows=2, counts=[late]))
    '2 rows, 3 late rows'
    """
    found = [f"{stage.rows:,} rows"] if stage.rows else []
    if stage.HasField("watermark_us"):
        found = [f"{stage.rows_in:,} rows in, {stage.rows:,} out, at {shown(stage.watermark_us)}"]
    return ", ".join([*found, *counted([stage])])


def counted(stages: Iterable[pb.StageStatus]) -> list[str]:
    """What their operators have counted, such as rows that came too late."""
    sums: Counter[str] = Counter()
    for stage in stages:
        for each in stage.counts:
            if each.name not in _SIDES and (
                not each.name.startswith(_STATE) or each.name == _BELOW
            ):
                sums[each.name] += each.n
    below = sums.pop(_BELOW, 0)
    told = [f"{n:,} {name.replace('_', ' ')}" for name, n in sums.items() if n]
    return [*told, f"{below:,} bytes of state in files"] if below else told


def standing(stage: pb.StageStatus) -> list[str]:
    """Of each join of two streams, the side that the other waits for, when that lasts.

    >>> still = pb.Counted(node_path="near", name="still_right", n=2)
    >>> print(*standing(pb.StageStatus(n_tasks=4, counts=[still])))
    the watermark of the right side of near has not moved for a minute (2 of 4 tasks), so rows of \
the other side wait and are kept; if it has no rows at times, write: .with_watermark(…, \
idle="30 seconds")
    """
    return [
        f"the watermark of the {_SIDES[each.name]} side of {each.node_path} has not moved for a "
        f"minute ({each.n} of {stage.n_tasks} tasks), so rows of the other side wait and are kept; "
        'if it has no rows at times, write: .with_watermark(…, idle="30 seconds")'
        for each in stage.counts
        if each.name in _SIDES and each.n
    ]


class JobProgress:
    """Shows each status it is given, once the job took longer than `QUIET_S`."""

    def __init__(self, *, enabled: bool | None = None) -> None:
        self._enabled = enabled
        self._begin_s = time.monotonic()
        self._display: Progress | None = None
        self._bars: dict[int, TaskID] = {}
        self._said = ""
        self._waits_since_s = 0.0

    def show(self, status: pb.JobStatus) -> None:
        """Draw `status`, or not yet."""
        if time.monotonic() - self._begin_s < QUIET_S:
            return
        if self._enabled is None:
            self._enabled = sys.stderr.isatty()
        if not self._enabled:
            self._warn(status)
            return
        display = self._display or self._start()
        self._say(display, status.waiting)
        for stage in status.stages:
            if stage.stage not in self._bars:
                self._bars[stage.stage] = display.add_task(
                    stage.node_path, total=stage.n_tasks, rows=""
                )
            display.update(
                self._bars[stage.stage],
                completed=stage.finished,
                total=stage.n_tasks,
                rows=stage_rows(stage),
            )

    def _say(self, display: Progress, waiting: str) -> None:
        """Why nothing happens, once for each reason."""
        if waiting and waiting != self._said:
            display.console.print(f"the job waits: it {waiting}")
        self._said = waiting

    def _warn(self, status: pb.JobStatus) -> None:
        """The same where nothing is drawn, of a wait that lasts."""
        now_s = time.monotonic()
        if status.waiting != self._said:
            self._said, self._waits_since_s = status.waiting, now_s
        elif status.waiting and now_s - self._waits_since_s >= PATIENT_S:
            self._waits_since_s = math.inf
            _log.warning("the job waits", job=status.job_id, name=status.name, why=status.waiting)

    def close(self) -> None:
        """Leave the terminal as it was, the last picture on it."""
        if self._display is not None:
            self._display.stop()

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._display = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rows]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._display.start()
        return self._display


def html(status: pb.JobStatus) -> str:
    """A job as a notebook shows it: its headline, and a table of its stages."""
    rows = "".join(
        f"<tr><td>{s.stage}</td><td>{escape(s.node_path)}</td>"
        f"<td>{s.finished} / {s.n_tasks}</td><td>{s.rows:,}</td></tr>"
        for s in status.stages
    )
    head = "<tr><th>stage</th><th>node</th><th>tasks</th><th>rows</th></tr>"
    return f"<div><b>{escape(headline(status))}</b><table>{head}{rows}</table></div>"


def say_dropped(status: pb.JobStatus, dropped: Collection[tuple[str, str]]) -> None:
    """Warn of rows that are in no result: late ones, by the paths of steps and tags `dropped`."""
    for count in (count for stage in status.stages for count in stage.counts):
        tag = LATE if count.name == "late_rows" else count.name
        if count.n and (count.node_path, tag) in dropped:
            waits = "with_watermark, or lateness=, waits" if tag == LATE else "with_watermark waits"
            _log.warning(
                "late rows were dropped", job=status.job_id, rows=count.n, node=count.node_path,
                hint=f'late="side" keeps them for .side_output("{tag}"); a greater bound of '
                f"{waits} for them",
            )  # fmt: skip
