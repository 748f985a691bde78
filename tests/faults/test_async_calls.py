"""A stream asks a service about each row while an agent dies at a named place, and its successor.

The service loses one answer in twenty, refuses others, delays and reorders them. What was written
is what would have been without faults: each row once, with its answer (F1).
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fabric
from fabric.io.readers import generator
from fabric.plan.nodes import Node, Sink, Union
from fabric.plan.targets import StreamFileTarget
from tests.faults.test_streams import PATIENCE_S, RESTORING, RETURNS, followed_by
from tests.integration.test_map_async import ANSWER, Service, doubled
from tests.support.compare import unlike
from tests.support.faults import wait_hit
from tests.support.local import local_fabric
from tests.support.sampled import SOAK, sampled
from tests.support.stream_ordeal import PARALLELISM, START_US, StreamOrdeal, frame, source

pytestmark = pytest.mark.timeout(300)
N_ROWS, ROWS_PER_S = (60_000, 3_000) if SOAK else (6_000, 1_000)
POINTS = {
    "stream.barrier-came": (1, 5), "stream.barrier-sent": (1, 4), "stream.rows-came": (20, 200),
    "stream.snapshot-storing": (1, 6), "stream.snapshot-stored": (1, 5),
    "stream.told-complete": (1, 3), "stream.sink-prepared": (1, 4), "agent.publishing": (1, 2),
    "agent.published": (1, 2),
}  # fmt: skip
FIRST = [(name, nth) for name, times in POINTS.items() for nth in times]
CASES = [(*each, RETURNS[n % len(RETURNS)]) for n, each in enumerate(FIRST)]


class AskingOrdeal(StreamOrdeal):
    """Rows with answers, in order and as they come, and windows over these."""

    def _written(self) -> Node:
        rows = frame(self._source).with_watermark("ts", f"{self._source.disorder_us} us")
        settings: Any = {
            "keep": ["split", "row", "key", "ts"], "capacity": 200, "timeout": "400 ms",
            "retry": 50, "backoff": "5 ms",
        }  # fmt: skip
        service = Service(0.02, refuses=True)
        asked = rows.map_async(service, ANSWER, ordered=False, **settings)
        in_order = rows.map_async(service, ANSWER, **settings)
        windows = asked.group_by("key").window("250 ms", late="side")
        counts = windows.agg(n=fabric.count(), answers=fabric.sum("twice"))
        return Union((
            Sink(in_order.select("split", "row", "twice").plan.root, self._target("rows")),
            Sink(counts.plan.root, self._target("windows")),
            Sink(counts.side_output("late").plan.root, self._target("late")),
        ))  # fmt: skip

    def _target(self, name: str) -> StreamFileTarget:
        return StreamFileTarget("parquet", str(self._folder / name))

    def check_rows(self) -> None:
        """Each row once; no row is late, as no event time overtakes one (I1)."""
        made = self._source
        n_rows = (generator.n_rows_of(made.n_rows, i, made.n_splits) for i in range(made.n_splits))
        table = pa.concat_tables(
            [generator.rows(made, i, 0, n, START_US) for i, n in enumerate(n_rows)]
        )
        expected = doubled(table)
        assert unlike(self._read("rows"), expected) == ""
        windows = self._read("windows")
        assert pc.sum(windows["n"]).as_py() == made.n_rows
        assert pc.sum(windows["answers"]).as_py() == pc.sum(expected["twice"]).as_py()
        assert self._read("late").num_rows == 0

    def check_order(self) -> None:
        """Files of several tasks have no order."""


@pytest.mark.parametrize("case", sampled(CASES, 1, salt="async"))
def test_an_agent_dies_twice_amid_requests(
    case: tuple[str, int, str], short: dict[str, str], tmp_path: Path
) -> None:
    name, nth, again = case
    faults = {f"agent {i}": f"{name}:{nth}:exit" for i in range(PARALLELISM)}
    with local_fabric(PARALLELISM, slots=1, environ=short, faults=faults) as running:
        with nullcontext() if name == "stream.rows-came" else running.held():
            ordeal = AskingOrdeal(running, tmp_path, made=source(N_ROWS, ROWS_PER_S))
            ordeal.submit()
            victim = wait_hit(running, name, PATIENCE_S)
            assert running.agents[victim].process.wait(60) == 137
            if again in RESTORING and not ordeal.complete():
                again = "agent.task-started"  # there is nothing to restore yet
            followed_by(running, victim, again, tmp_path)
            running.restart(victim)
        ordeal.end()
