"""Fabric: a session with a task a core, Arrow files to nowhere; embedded, or on two warm agents."""

from __future__ import annotations

import atexit
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.harness import Answer, Case
from bench.latencies.windows import cpu_s
from bench.nexmark.answers import answer_of, partitioned
from bench.nexmark.data import SIDE, START_EVENTS, TABLES, paths
from bench.nexmark.pipelines import PIPELINES, Tables
from bench.nexmark.sql import PARTITIONED

if TYPE_CHECKING:
    import fabric
    from fabric.clients.session.session import Session
    from fabric.config import StateBackend

STATE: StateBackend = "memory"
"""Where the state of all steps lies."""
N_AGENTS = 2


def run(case: Case) -> FabricRun:
    """A session of this process."""
    import fabric

    stack = ExitStack()
    session = stack.enter_context(fabric.connect(parallelism=case.parameters["cores"]))
    return FabricRun(case, session, time.process_time, stack)


def agents_run(case: Case) -> FabricRun:
    """Two agents, each of which may use all cores."""
    stack = ExitStack()
    session, processes = started_agents(stack, case.parameters["cores"])
    return FabricRun(case, session, partial(cpu_s, processes), stack)


def started_agents(stack: ExitStack, parallelism: int) -> tuple[Session, list[int]]:
    """A session of two agents, which end with this process, and their process ids."""
    import fabric

    address, token, processes = _agents()
    where = f"fabric://{address}"
    session = fabric.connect(where, token=token, parallelism=parallelism)
    return stack.enter_context(session), processes


@cache
def _agents() -> tuple[str, str, list[int]]:
    """Address, token and process ids of a fabric that ends with this process."""
    from tests.support.local import local_fabric

    stack = ExitStack()
    local = stack.enter_context(local_fabric(N_AGENTS, slots=4))
    atexit.register(stack.close)  # before what it needs closes at the end itself
    return local.address, local.token, [agent.process.pid for agent in local.agents]


class FabricRun:
    """One question; `cpu_s` gives the processor time that its engine has used until now."""

    def __init__(
        self, case: Case, session: Session, cpu_s: Callable[[], float], stack: ExitStack
    ) -> None:
        self._case, self._session, self._cpu_s, self._stack = case, session, cpu_s, stack
        session.checkpoints(state=STATE)
        self._cores = case.parameters["cores"]
        self._all = self._frame(case.parameters["events"])
        self._few = self._frame(START_EVENTS)
        self._start_s = self._used_s = 0.0

    def work(self) -> object:
        """One job over all files."""
        before = self._cpu_s()
        self._write(self._all)
        self._used_s = self._cpu_s() - before
        return None

    def beside(self) -> None:
        """Start and end a job."""
        begin = time.perf_counter()
        self._write(self._few)
        self._start_s = time.perf_counter() - begin

    def answer(self) -> Answer:
        """Of the first events."""
        return answer_of(
            self._case.name, self.batches(), cores=self._cores, slots=self._cores,
            checked=self._case.parameters["checked"], start_s=round(self._start_s, 3),
            cpu_s=round(self._used_s, 2), state=STATE,
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

    def close(self) -> None:
        """End the session, and the agents."""
        self._stack.close()

    def _frame(self, n_events: int) -> fabric.DataFrame:
        from fabric import streams

        tables: dict[str, Any] = {
            table: self._session.read_ipc(paths(n_events, self._cores, table, "arrow"))
            for table in (*TABLES, SIDE)
        }
        for table in TABLES:
            tables[table] = streams.replay(tables[table], "dateTime", by_file=True)
        return PIPELINES[self._case.name](Tables(**tables))

    def _write(self, frame: fabric.DataFrame) -> None:
        from fabric import streams

        if self._case.name not in PARTITIONED:
            frame.write_stream(streams.to_blackhole()).wait(progress=False)
            return
        with tempfile.TemporaryDirectory(prefix="fabric-bench-nexmark-") as folder:
            self._write_files(frame, folder)

    def _write_files(self, frame: fabric.DataFrame, folder: str) -> None:
        from fabric import streams

        target = streams.to_files(folder, partition_by=PARTITIONED[self._case.name])
        frame.write_stream(target).wait(progress=False)
