"""Fabric's windows for one case: a job in this process, on two agents, and the operators alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.harness import Answer, Case
from bench.windows.data import COUNT, SIZE_S, SLIDE_S, Asked, files, mapped

if TYPE_CHECKING:
    from fabric import DataFrame
    from fabric.clients.session.session import Session
    from fabric.plan.event_windows import Window

N_AGENTS = 2
_BATCH_ROWS = 1 << 16
_CHECKPOINTS = {"FABRIC_CHECKPOINT_INTERVAL_S": "1"}
_MEGA = 1e6


class WindowsRun:
    """`ask` gives the batches of the answer; `cpu_s` the processor time used until now."""

    def __init__(
        self, case: Case, ask: Callable[[], Any], cpu_s: Callable[[], float], stack: ExitStack
    ) -> None:
        self._case, self._ask, self._cpu_s, self._stack = case, ask, cpu_s, stack

    def work(self) -> object:
        """All rows once."""
        return self._ask()

    def answer(self) -> Answer:
        """Rows and checksum, and how many rows a second of processor time is good for."""
        before = self._cpu_s()
        table = self._ask()
        used = self._cpu_s() - before
        rate = round(self._case.rows / used / _MEGA, 2) if used else 0.0
        return answer_of(table, {"m_rows_a_core": rate})

    def close(self) -> None:
        """Stop what was started."""
        self._stack.close()


def answer_of(table: pa.Table, extra: dict[str, Any]) -> Answer:
    """Rows and checksum of key, window where there is one, count and sum."""
    from fabric.clients.demo.checksum import checksum

    names = [name for name in ("k", "window_start", "window_end") if name in table.column_names]
    return Answer(*checksum(table.select([*names, "n", "s"])), extra)


def embedded_run(case: Case) -> WindowsRun:
    """A session of this process, one task."""
    import fabric

    os.environ.update(_CHECKPOINTS)
    stack = ExitStack()
    session = stack.enter_context(fabric.connect())
    return WindowsRun(case, _asking(session, Asked.of(case)), _own_cpu_s, stack)


def agents_run(case: Case) -> WindowsRun:
    """A coordinator and two agents, warm; rows are exchanged by key."""
    import fabric
    from tests.support.local import local_fabric

    stack = ExitStack()
    local = stack.enter_context(local_fabric(N_AGENTS, environ=_CHECKPOINTS))
    session = stack.enter_context(fabric.connect(f"fabric://{local.address}", token=local.token))
    processes = [agent.process.pid for agent in local.agents]

    def cpu_s() -> float:
        return sum(map(_cpu_s, processes))

    return WindowsRun(case, _asking(session, Asked.of(case)), cpu_s, stack)


def operator_run(case: Case) -> WindowsRun:
    """The operators of the job in a loop over batches in memory."""
    from fabric.coordinator.planner.streams.columns import over_columns
    from fabric.coordinator.planner.streams.hidden import with_hidden

    asked = Asked.of(case)
    root = with_hidden(over_columns(framed(None, asked).plan.root))

    def ask() -> pa.Table:
        return pa.Table.from_batches(_pushed(root, asked))

    return WindowsRun(case, ask, _own_cpu_s, ExitStack())


def _asking(session: Session, asked: Asked) -> Callable[[], pa.Table]:
    frame = framed(session, asked)

    def ask() -> pa.Table:
        with session.submit(frame) as job:
            return job.collect()

    return ask


def framed(session: Session | None, asked: Asked) -> DataFrame:
    """The windows; without a session over no engine."""
    import fabric

    grouped = watermarked(session, asked).group_by("k").window(_window(asked))
    return grouped.agg(fabric.count().alias("n"), fabric.sum("v").alias("s"))


def watermarked(session: Session | None, asked: Asked) -> DataFrame:
    """The events."""
    import fabric
    from fabric import streams

    read = session.read_ipc if session is not None else fabric.read_ipc
    events = streams.replay(read([str(path) for path in files(asked)]), "ts", by_file=True)
    return events.with_watermark("ts", "1 second")


def _window(asked: Asked) -> Window:
    import fabric

    size, slide = f"{SIZE_S} seconds", f"{SLIDE_S} seconds"
    made: dict[str, Callable[[], Window]] = {
        "tumbling": lambda: fabric.tumbling(size),
        "sliding": lambda: fabric.sliding(size, slide),
        "cumulative": lambda: fabric.cumulative(size, slide),
        "session": lambda: fabric.session(f"{asked.gap_us} us"),
        "count": lambda: fabric.count_window(COUNT),
        "global": fabric.global_window,
    }
    return made[asked.kind]()


def _pushed(root: Any, asked: Asked) -> Iterator[pa.RecordBatch]:
    """What comes out of a chain of `root`, the splits in turn."""
    from fabric.operators.chain import build_chain

    tables = {str(path): mapped(path).to_batches(_BATCH_ROWS) for path in files(asked)}
    (edge,) = build_chain(root).inputs
    chain = build_chain(root, splits={edge: tuple(tables)})
    yield from chain.on_time(0)
    for turn in _turns(list(tables.values())):
        for split, batch in zip(tables, turn, strict=True):
            chain.on_split(edge, split)
            yield from chain.on_batch(edge, batch)
    for split in tables:
        yield from chain.on_split_end(edge, split)
    yield from chain.on_end(edge)
    chain.close()


def _turns(batches: Sequence[Sequence[pa.RecordBatch]]) -> Iterator[tuple[pa.RecordBatch, ...]]:
    yield from zip(*batches, strict=True)


def _own_cpu_s() -> float:
    used = os.times()
    return used.user + used.system


def _cpu_s(pid: int) -> float:
    """What a process has used; its name may hold anything but is the last thing in brackets."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
