"""A progress display for long work on a terminal.

One job: a bar a stage, drawn by rich on stderr. Nothing is drawn in the first half second, and
nothing ever when stderr is no terminal; rich is imported only when something is drawn. A job that
waits for slots says so everywhere: it may wait for ever.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fabric.control import control_pb2 as pb
from fabric.event_time import shown
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_log = logger("fabric.session")

_STATE, _BELOW = "state_", "state_cold_bytes"
"""Where state lies is told in detail elsewhere."""
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
            if not each.name.startswith(_STATE) or each.name == _BELOW:
                sums[each.name] += each.n
    below = sums.pop(_BELOW, 0)
    told = [f"{n:,} {name.replace('_', ' ')}" for name, n in sums.items() if n]
    return [*told, f"{below:,} bytes of state in files"] if below else told


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
