"""How long checkpoints take while the last step of a stream takes a tenth of what its sources give.

    generator (100,000 rows/s) ──hash by key──► a function that takes 10,000 rows/s

Two agents of two slots. A case says after how long a checkpoint no longer waits for the rows before
its barriers (`unaligned_after_s`); "aligned" always waits, as far as its time-out. All checkpoints
of a case follow each other every second:

seconds          the median of those that were completed; p99_s, max_s
completed        how many, of how many that began (`begun`)
unaligned        how many of them did not wait; inflight_mb: the most that one had in flight
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.harness import Answer, BenchError, Benchmark, Case, Engine

if TYPE_CHECKING:
    import pyarrow as pa

    import fabric
    from fabric.control import control_pb2 as pb

RATE, SLOW_RATE, N_TASKS = 100_000, 10_000, 2
INTERVAL_S, PATIENCE_S = 1.0, 600.0
N_MEASURED, QUICK_MEASURED = 60, 6
WARM = 2
"""Checkpoints before those that count: the stream is not under back-pressure from its beginning."""
CASES = {"unaligned after 1 s": 1.0, "always unaligned": 0.0, "aligned": 600.0}


def cases(quick: bool) -> list[Case]:
    """By when a checkpoint becomes unaligned."""
    n = QUICK_MEASURED if quick else N_MEASURED
    return [Case(name, n, 0, {"after_s": after_s}) for name, after_s in CASES.items()]


def engines(case: Case) -> list[Engine]:
    """Ours."""
    return [Engine(None, "bench.backpressure:run", fresh=True)]


def run(case: Case) -> BackpressureRun:
    """A fabric of two agents."""
    return BackpressureRun(case)


class BackpressureRun:
    """The first call of `work` does everything, others nothing."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._found: list[pb.CheckpointStatus] = []
        self._n_begun = 0

    def work(self) -> None:
        """Let the stream run until it has taken as many checkpoints as are asked for."""
        if self._found:
            return
        import fabric
        from fabric import streams
        from tests.support.local import local_fabric

        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="fabric-bench-")))
            local = stack.enter_context(local_fabric(N_TASKS, slots=2))
            address = f"fabric://{local.address}"
            session = stack.enter_context(fabric.connect(address, token=local.token))
            session.checkpoints(
                interval_s=INTERVAL_S, retained=1_000, folder=folder / "checkpoints",
                unaligned_after_s=self._case.parameters["after_s"],
            )  # fmt: skip
            rows = streams.generator(
                rows_per_s=RATE, n_keys=1_000, n_splits=N_TASKS, session=session
            )
            slow = rows.process(_slow(), keys="key", schema={"key": "int64"})
            job = stack.enter_context(
                slow.write_stream(streams.to_blackhole(), parallelism=N_TASKS)
            )
            deadline = time.monotonic() + PATIENCE_S
            while len(found := _completed(job.checkpoints())) < WARM + self._case.rows:
                if time.monotonic() > deadline:
                    raise BenchError(f"only {len(found)} checkpoints in {PATIENCE_S:g} s")
                time.sleep(0.2)
            self._n_begun = max(one.checkpoint for one in found)
            self._found = found[WARM : WARM + self._case.rows]
            job.cancel()

    def taken_s(self) -> float:
        """The median."""
        return statistics.median(one.seconds for one in self._found)

    def answer(self) -> Answer:
        """How many were completed, and how long they took."""
        seconds = np.array([one.seconds for one in self._found])
        extra: dict[str, Any] = {
            "p50_s": round(float(np.median(seconds)), 3),
            "p99_s": round(float(np.percentile(seconds, 99)), 3),
            "max_s": round(float(seconds.max()), 3),
            "completed": len(self._found),
            "begun": self._n_begun - WARM,
            "unaligned": sum(one.unaligned for one in self._found),
            "inflight_mb": round(max(one.inflight_bytes for one in self._found) / 1e6, 2),
        }
        return Answer(len(self._found), "", extra)

    def close(self) -> None:
        """Everything was given back by `work`."""


def _completed(found: list[pb.CheckpointStatus]) -> list[pb.CheckpointStatus]:
    return [one for one in found if one.state in ("complete", "published")]


def _slow() -> fabric.Process:
    """Takes its time for each row."""
    import time

    import fabric

    row_s = N_TASKS / SLOW_RATE

    class Slow(fabric.Process):
        def on_batch(
            self, ctx: fabric.ProcessContext, keys: pa.RecordBatch, rows: pa.RecordBatch
        ) -> None:
            time.sleep(rows.num_rows * row_s)

    return Slow()


BENCHMARK = Benchmark(
    name="backpressure",
    about="how long checkpoints take under back-pressure",
    cases=cases,
    engines=engines,
    rounds=1,
    quick_rounds=1,
    round_s=0.001,
    timeout_s=1800.0,
)
