"""Fabric: an embedded session with a task a core, Arrow files to nowhere."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from bench.harness import Answer, Case
from bench.nexmark.answers import answer_of
from bench.nexmark.data import START_EVENTS, paths
from bench.nexmark.pipelines import PIPELINES


def run(case: Case) -> FabricRun:
    """A session a case."""
    return FabricRun(case)


class FabricRun:
    """One question."""

    def __init__(self, case: Case) -> None:
        import fabric

        self._case, self._cores = case, case.parameters["cores"]
        self._session = fabric.connect(parallelism=self._cores)
        self._all = self._frame(case.parameters["events"])
        self._few = self._frame(START_EVENTS)
        self._start_s = self._cpu_s = 0.0

    def work(self) -> object:
        """One job over all files."""
        before = time.process_time()
        self._write(self._all)
        self._cpu_s = time.process_time() - before
        return None

    def beside(self) -> None:
        """Start and end a job."""
        begin = time.perf_counter()
        self._write(self._few)
        self._start_s = time.perf_counter() - begin

    def answer(self) -> Answer:
        """Of the first bids."""
        batches = self.batches()
        return answer_of(
            self._case.name, batches, cores=self._cores, slots=self._cores,
            checked=self._case.parameters["checked"], start_s=round(self._start_s, 3),
            cpu_s=round(self._cpu_s, 2),
        )  # fmt: skip

    def batches(self) -> list[pa.RecordBatch]:
        """What is found of the first bids."""
        found: list[pa.RecordBatch] = (
            self._frame(self._case.parameters["checked"]).to_arrow().to_batches()
        )
        return found

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _frame(self, n_events: int) -> Any:
        from fabric import streams

        table = self._session.read_ipc(paths(n_events, self._cores, "arrow"))
        return PIPELINES[self._case.name](streams.replay(table, "dateTime", by_file=True))

    def _write(self, frame: Any) -> None:
        from fabric import streams

        frame.write_stream(streams.to_blackhole()).wait(progress=False)
