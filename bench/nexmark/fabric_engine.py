"""Fabric: a session with a task a core, Arrow files to nowhere; embedded, or on two warm agents."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.harness import Answer
from bench.nexmark.answers import answer_of, partitioned
from bench.nexmark.data import SIDE, START_EVENTS, TABLES, paths
from bench.nexmark.pipelines import PIPELINES, Tables
from bench.nexmark.sql import PARTITIONED
from bench.stream_runs import StreamRun

if TYPE_CHECKING:
    import fabric


class FabricRun(StreamRun):
    """One question."""

    def answer(self) -> Answer:
        """Of the first events."""
        cores = self._case.parameters["cores"]
        return answer_of(
            self._case.name, self.batches(), cores=cores, slots=cores,
            checked=self._case.parameters["checked"], start_s=round(self._start_s, 3),
            cpu_s=round(self._cpu_s, 2), state=self.STATE,
        )  # fmt: skip

    def batches(self) -> list[pa.RecordBatch]:
        """What is found of the first events."""
        frame = self._frame(self._case.parameters["checked"])
        if self._case.name in PARTITIONED:
            with tempfile.TemporaryDirectory(prefix="fabric-bench-nexmark-") as folder:
                self._write_files(frame, folder)
                return partitioned(folder, PARTITIONED[self._case.name])
        found: list[pa.RecordBatch] = frame.to_arrow().to_batches()
        return found

    def _frames(self) -> tuple[fabric.DataFrame, fabric.DataFrame]:
        return self._frame(self._case.parameters["events"]), self._frame(START_EVENTS)

    def _frame(self, n_events: int) -> fabric.DataFrame:
        from fabric import streams

        cores = self._case.parameters["cores"]
        tables: dict[str, Any] = {
            table: self._session.read_ipc(paths(n_events, cores, table, "arrow"))
            for table in (*TABLES, SIDE)
        }
        for table in TABLES:
            tables[table] = streams.replay(tables[table], "dateTime", by_file=True)
        return PIPELINES[self._case.name](Tables(**tables))

    def _write(self, frame: fabric.DataFrame) -> None:
        if self._case.name not in PARTITIONED:
            super()._write(frame)
            return
        with tempfile.TemporaryDirectory(prefix="fabric-bench-nexmark-") as folder:
            self._write_files(frame, folder)

    def _write_files(self, frame: fabric.DataFrame, folder: str) -> None:
        from fabric import streams

        target = streams.to_files(folder, partition_by=PARTITIONED[self._case.name])
        frame.write_stream(target).wait(progress=False)


run, agents_run = FabricRun.embedded, FabricRun.on_agents
