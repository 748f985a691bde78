"""Flink SQL with the same joins, their state on the heap: Parquet files to nowhere.

`parsing_s` is what it takes only to read both sides. Flink reads a Parquet file a slot, and the
rows of a result whose left side has no partner have nulls for the right one's, as everywhere.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Answer, Case
from bench.joins.data import COLUMNS, SIDES, Asked, answer_of, m_rows_a_core, paths
from bench.nexmark.flink_engine import STATE, server


def run(case: Case) -> FlinkJoin:
    """In the session of this process."""
    return FlinkJoin(case)


class FlinkJoin:
    """One kind of join."""

    def __init__(self, case: Case) -> None:
        self._case, self._asked = case, Asked.of(case)
        self._server = server(self._asked.cores)
        self._start_s = self._cpu_s = 0.0

    def work(self) -> object:
        """One job over all rows."""
        self._cpu_s = self._run(self._asked, "'connector' = 'blackhole'", self._query())["cpu_s"]
        return None

    def beside(self) -> None:
        """Start and end a job."""
        done = self._run(self._asked.few(), "'connector' = 'blackhole'", self._query())
        self._start_s = done["seconds"]

    def answer(self) -> Answer:
        """All pairs; how long reading alone takes."""
        nothing = " UNION ALL ".join(
            f"SELECT {key}, {value}, `{time}` FROM {side} WHERE HASH_CODE(CAST({key} AS STRING)) "
            "IS NULL"
            for side, (key, value, time) in SIDES.items()
        )
        parsing = self._run(self._asked, "'connector' = 'blackhole'", nothing)
        with tempfile.TemporaryDirectory(prefix="fabric-bench-flink-") as folder:
            form = "'format' = 'parquet', 'parquet.utc-timezone' = 'true'"
            to = f"'connector' = 'filesystem', 'path' = 'file://{folder}', {form}"
            self._run(self._asked, to, self._query())
            files = sorted(path for path in Path(folder).iterdir() if path.name[0] not in "._")
            batches = (batch for path in files for batch in pq.read_table(path).to_batches())
            return answer_of(
                map(_comparable, batches), state=STATE, start_s=round(self._start_s, 3),
                parsing_s=round(parsing["seconds"] - self._start_s, 3),
                cpu_s=round(self._cpu_s, 2),
                m_rows_a_core=m_rows_a_core(self._case, self._cpu_s),
            )  # fmt: skip

    def close(self) -> None:
        """The session stays for the next case."""

    def _query(self) -> str:
        by = f"INTERVAL '{self._asked.apart_ms / 1_000:.3f}' SECOND"
        columns = ", ".join(f"`{name}`" for name in COLUMNS)
        return f"""SELECT {columns} FROM a {self._asked.how.upper()} JOIN b
            ON k = j AND brt BETWEEN art - {by} AND art + {by}"""

    def _run(self, asked: Asked, to: str, query: str) -> dict[str, Any]:
        tables = ["DROP TABLE IF EXISTS found"]
        for side, (key, value, time) in SIDES.items():
            folder = Path(paths(asked, side, "parquet")[0]).parent
            tables += [f"DROP TEMPORARY TABLE IF EXISTS {side}", f"""
                CREATE TEMPORARY TABLE {side} ({key} BIGINT, {value} BIGINT,
                    `{time}` TIMESTAMP(6), {side}rt AS CAST(`{time}` AS TIMESTAMP(3)),
                    WATERMARK FOR {side}rt AS {side}rt)
                WITH ('connector' = 'filesystem', 'path' = 'file://{folder}',
                    'source.path.regex-pattern' = '.*[.]parquet', 'format' = 'parquet',
                    'parquet.utc-timezone' = 'true')"""]  # fmt: skip
        made = f"CREATE TABLE found WITH ({to}) AS {query}"
        return self._server.ask("sql", statements=[*tables, made])


def _comparable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times in microseconds, as ours are."""
    times = {"at", "bt"}
    columns = [
        batch.column(name).cast(pa.timestamp("us")) if name in times else batch.column(name)
        for name in batch.schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)
