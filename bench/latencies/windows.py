"""What a fabric of two agents costs while few rows flow: 20 K a second in windows of ten seconds.

    generator ── watermark ──hash by key──► windows of ten seconds, 1,000 keys ──► result
    (a split a task)

One job: `WindowsRun`. `cores` is the processor time of all processes of the fabric (coordinator,
agents, slots) a second, over the case's seconds in the middle of the job: what idle ones take is
part of it. Rows have fixed times, so every engine has the same windows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from bench.harness import Answer, Case

RATE, N_KEYS = 20_000, 1_000
START_S, END_S = 3.0, 1.0
"""Before and behind the seconds that are measured."""
START = datetime(2026, 1, 1, tzinfo=UTC)


class WindowsRun:
    """The fabric of a case; every call of `work` is a job, the last one is what is told."""

    def __init__(self, case: Case, latency: str | None) -> None:
        import fabric
        from tests.support.local import local_fabric

        self._seconds = float(case.parameters["seconds"])
        self._stack = ExitStack()
        local = self._stack.enter_context(local_fabric(2, slots=4))
        children = [child for child in (local.coordinator, *local.agents) if child is not None]
        self._pids = [child.process.pid for child in children]
        self._session = self._stack.enter_context(
            fabric.connect(f"fabric://{local.address}", token=local.token, latency=latency)
        )
        self._cores = 0.0
        self._rows = pa.table({})

    def work(self) -> None:
        """One job."""
        from fabric import count, streams

        rows = streams.generator(
            rows_per_s=RATE, n_rows=int(RATE * (START_S + self._seconds + END_S)), n_splits=2,
            n_keys=N_KEYS, start=START, session=self._session,
        )  # fmt: skip
        counted = rows.with_watermark("ts", "1 second").group_by("key").window("10 seconds")
        with counted.agg(count().alias("n")).submit() as job:
            time.sleep(START_S)
            before_s = cpu_s(self._pids)
            time.sleep(self._seconds)
            self._cores = (cpu_s(self._pids) - before_s) / self._seconds
            self._rows = job.wait().collect()

    def answer(self) -> Answer:
        """The windows, and what they cost."""
        from fabric.clients.demo.checksum import checksum

        extra = {"cores": round(self._cores, 3), "load": round(os.getloadavg()[0], 1)}
        return Answer(self._rows.num_rows, checksum(self._rows)[1], extra)

    def close(self) -> None:
        """Stop it."""
        self._stack.close()


def cpu_s(pids: Iterable[int]) -> float:
    """Processor time that these processes and their descendants have taken."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(entry.name)
        children.setdefault(int(fields[1]), []).append(pid)
        ticks[pid] = int(fields[11]) + int(fields[12])
    total, left = 0, list(pids)
    while left:
        pid = left.pop()
        total += ticks.get(pid, 0)
        left += children.get(pid, [])
    return total / os.sysconf("SC_CLK_TCK")
