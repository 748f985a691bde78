"""Flink SQL with the same windows, their state in RocksDB: Parquet files to nowhere.

Flink reads Parquet, so `parsing_s` says how long it takes only to read. RocksDB may use 128 MiB of
memory, Flink's default, beside the heap; checkpoints are taken each second, incrementally. A job
that takes more than a minute is run once, and that counts in each round: what warms up is seconds.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Answer, Case
from bench.made import made
from bench.nexmark.flink_engine import FlinkServer
from bench.windows.data import SIZE_S, SLIDE_S, TIME, Asked, files, mapped
from bench.windows.runs import answer_of

_BOUNDS = {
    "tumbling": f"TUMBLE(TABLE events, DESCRIPTOR(rt), INTERVAL '{SIZE_S}' SECOND)",
    "sliding": f"""HOP(TABLE events, DESCRIPTOR(rt), INTERVAL '{SLIDE_S}' SECOND,
        INTERVAL '{SIZE_S}' SECOND)""",
    "cumulative": f"""CUMULATE(TABLE events, DESCRIPTOR(rt), INTERVAL '{SLIDE_S}' SECOND,
        INTERVAL '{SIZE_S}' SECOND)""",
}
KINDS = list(_BOUNDS)
_LONG_S = 60.0


def run(case: Case) -> FlinkState:
    """A session with one slot."""
    return FlinkState(Asked.of(case))


class FlinkState:
    """One kind of window."""

    def __init__(self, asked: Asked) -> None:
        self._asked, self._stack = asked, ExitStack()
        enter = self._stack.enter_context
        folder = Path(enter(tempfile.TemporaryDirectory(prefix="fabric-bench-flink-")))
        self._folder = folder
        self._server = FlinkServer(1, {
            "state.backend.type": "rocksdb", "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        })  # fmt: skip
        self._stack.callback(self._server.close)
        self._cpu_s = self._taken_s = 0.0

    def work(self) -> object:
        """All rows once, to nowhere."""
        if self._taken_s < _LONG_S:
            begin = time.perf_counter()
            self._cpu_s = self._ask("'blackhole'", self._query())["cpu_s"]
            self._taken_s = time.perf_counter() - begin
        return None

    def taken_s(self) -> float:
        """How long the last job took."""
        return self._taken_s

    def answer(self) -> Answer:
        """Rows and checksum; how long reading alone takes."""
        nothing = "SELECT k, v, ts FROM events WHERE HASH_CODE(CAST(k AS STRING)) IS NULL"
        parsing_s = self._ask("'blackhole'", nothing)["seconds"]
        out = self._folder / "found"
        form = "'format' = 'parquet', 'parquet.utc-timezone' = 'true'"
        self._ask(f"'filesystem', 'path' = 'file://{out}', {form}", self._query())
        parts = sorted(path for path in out.iterdir() if path.name[0] not in "._")
        table = pa.concat_tables([pq.read_table(path) for path in parts])
        for name in ("window_start", "window_end"):
            times = table[name].cast(pa.timestamp("us")).cast(pa.int64())
            at = table.column_names.index(name)
            table = table.set_column(at, name, times.cast(TIME))
        shutil.rmtree(out)
        return answer_of(table, {"parsing_s": parsing_s, "cpu_s": round(self._cpu_s, 1)})

    def close(self) -> None:
        """End the session."""
        self._stack.close()

    def _query(self) -> str:
        return f"""SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s
            FROM TABLE({_BOUNDS[self._asked.kind]}) GROUP BY k, window_start, window_end"""

    def _ask(self, to: str, query: str) -> dict[str, Any]:
        return self._server.ask("sql", statements=[
            "DROP TABLE IF EXISTS found", "DROP TEMPORARY TABLE IF EXISTS events",
            f"""CREATE TEMPORARY TABLE events (ts TIMESTAMP(6), k BIGINT, v BIGINT,
                rt AS CAST(ts AS TIMESTAMP(3)), WATERMARK FOR rt AS rt - INTERVAL '1' SECOND)
                WITH ('connector' = 'filesystem', 'path' = 'file://{_parquet(self._asked)}',
                'format' = 'parquet', 'parquet.utc-timezone' = 'true')""",
            f"CREATE TABLE found WITH ('connector' = {to}) AS {query}",
        ])  # fmt: skip


def _parquet(asked: Asked) -> Path:
    """The events as one Parquet file: a slot reads files one after the other, and rows of the
    second would be late."""

    def write(folder: Path) -> None:
        rows = pa.concat_tables(map(mapped, files(asked))).sort_by("ts")
        pq.write_table(rows, folder / "events.parquet", row_group_size=len(rows))

    return made("windows", f"{asked.events}-one-parquet", write)
