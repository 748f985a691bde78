"""Fabric, embedded and on two agents, and DuckDB, which has all rows at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.harness import Answer, Case
from bench.joins.data import COLUMNS, SIDES, Asked, answer_of, m_rows_a_core, paths
from bench.latencies.windows import cpu_s
from bench.nexmark.fabric_engine import STATE, started_agents

if TYPE_CHECKING:
    import fabric
    from fabric.clients.session.session import Session


def run(case: Case) -> JoinRun:
    """A session of this process."""
    import fabric

    stack = ExitStack()
    session = stack.enter_context(fabric.connect(parallelism=Asked.of(case).cores))
    return JoinRun(case, session, time.process_time, stack)


def agents_run(case: Case) -> JoinRun:
    """Two agents, each of which may use all cores."""
    stack = ExitStack()
    session, processes = started_agents(stack, Asked.of(case).cores)
    return JoinRun(case, session, partial(cpu_s, processes), stack)


class JoinRun:
    """One kind of join; `cpu_s` gives the processor time that its engine has used until now."""

    def __init__(
        self, case: Case, session: Session, cpu_s: Callable[[], float], stack: ExitStack
    ) -> None:
        session.checkpoints(state=STATE)
        self._case, self._session, self._cpu_s, self._stack = case, session, cpu_s, stack
        self._asked = Asked.of(case)
        self._all, self._few = self._frame(self._asked), self._frame(self._asked.few())
        self._start_s = self._used_s = 0.0

    def work(self) -> object:
        """One job over all rows."""
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
        """All pairs, and what they cost."""
        return answer_of(
            self.batches(), state=STATE, start_s=round(self._start_s, 3),
            cpu_s=round(self._used_s, 2),
            m_rows_a_core=m_rows_a_core(self._case, self._used_s),
        )  # fmt: skip

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What is found."""
        return self._all.iter_batches()

    def close(self) -> None:
        """End the session."""
        self._stack.close()

    def _frame(self, asked: Asked) -> fabric.DataFrame:
        from fabric import col, streams

        left, right = (
            streams.replay(
                self._session.read_ipc(paths(asked, side, "arrow")), time, by_file=True
            ).with_watermark(time, "0 seconds")
            for side, (_, _, time) in SIDES.items()
        )
        by = timedelta(milliseconds=asked.apart_ms)
        how: Any = asked.how
        near = (col("at") - by, col("at") + by)
        return left.join_interval(
            right, near, "bt", left_by="k", right_by="j", how=how
        ).select(*COLUMNS)  # fmt: skip

    def _write(self, frame: fabric.DataFrame) -> None:
        from fabric import streams

        frame.write_stream(streams.to_blackhole()).wait(progress=False)


def duckdb_run(case: Case) -> DuckRun:
    """A connection a case."""
    return DuckRun(case)


class DuckRun:
    """The same join, once."""

    def __init__(self, case: Case) -> None:
        import duckdb

        self._asked = Asked.of(case)
        self._connection = duckdb.connect(config={"threads": self._asked.cores})
        self._connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")

    def work(self) -> object:
        """One query over all files."""
        return self._ask().to_arrow_table()

    def answer(self) -> Answer:
        """Rows and checksum."""
        return answer_of(self._ask().to_arrow_table().to_batches())

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _ask(self) -> Any:
        asked = self._asked
        left, right = (f"read_parquet({paths(asked, side, 'parquet')!r})" for side in SIDES)
        by = f"INTERVAL {asked.apart_ms} MILLISECOND"
        return self._connection.sql(f"""
            SELECT k, v, "at", w, bt FROM {left} {asked.how} JOIN {right}
            ON k = j AND bt BETWEEN "at" - {by} AND "at" + {by}""")
