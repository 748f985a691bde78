"""Fabric, embedded and on two agents, and DuckDB, which has all rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.harness import Answer, Case
from bench.joins.data import COLUMNS, SIDES, Asked, answer_of, m_rows_a_core, paths
from bench.stream_runs import StreamRun

if TYPE_CHECKING:
    import fabric


class JoinRun(StreamRun):
    """One kind of join."""

    def answer(self) -> Answer:
        """All pairs, and what they cost."""
        return answer_of(
            self.batches(), state=self.STATE, start_s=round(self._start_s, 3),
            cpu_s=round(self._cpu_s, 2), m_rows_a_core=m_rows_a_core(self._case, self._cpu_s),
        )  # fmt: skip

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What is found."""
        return self._all.iter_batches()

    def _frames(self) -> tuple[fabric.DataFrame, fabric.DataFrame]:
        asked = Asked.of(self._case)
        return self._frame(asked), self._frame(asked.few())

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


run, agents_run = JoinRun.embedded, JoinRun.on_agents


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
