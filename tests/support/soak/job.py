"""The stream of a soak, and what it must put out.

One job: `SoakJob`. Rows at a rate, windows by key, a function with state that says each window
twice, the doubles removed, files: whatever is lost, doubled or out of order in any of these shows
in the rows. `unlike_model` compares them with DuckDB's windows over the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from fabric import DataFrame, Process, ProcessContext, count, streams
from fabric import max as max_of
from fabric import sum as sum_of
from fabric.io.readers import generator
from fabric.plan.nodes import Node, Sink
from fabric.plan.sources import GeneratorStream

START = datetime(2026, 1, 1, tzinfo=UTC)
_CHUNK_ROWS = 1 << 22
_WINDOW_US = 1_000_000


class Running(Process):
    """Each window twice, with how many rows and windows the key has had in all until then."""

    def on_rows(self, ctx: ProcessContext, key: int, rows: pa.RecordBatch) -> Iterator[Any]:
        """See `Process`."""
        total, windows = ctx.state("total").get() or 0, ctx.state("windows").get() or 0
        for row in rows.to_pylist():
            total, windows = total + row["n"], windows + 1
            said = {**row, "total": total, "windows": windows}
            yield said
            yield said
        ctx.state("total").put(total)
        ctx.state("windows").put(windows)


@dataclass(frozen=True, slots=True)
class SoakJob:
    """`rows_per_s` 0: as fast as they are read."""

    out: Path
    rows_per_s: int
    n_keys: int = 500
    n_splits: int = 6
    seed: int = 1
    window_us: int = _WINDOW_US
    known: str = "90 seconds"
    """How long the job remembers what it put out."""

    @property
    def takes_back(self) -> bool:
        """Whether what was put out behind an older checkpoint can be taken back."""
        return True

    def plan(self) -> Node:
        """What is submitted."""
        target = streams.to_files(self.out, compact_bytes=1 << 20)
        return Sink(self.frame().plan.root, target, path="out")

    def frame(self) -> DataFrame:
        """The rows that are written."""
        rows = self.rows().with_watermark("ts", "500 ms")
        windows = rows.group_by("key").window(f"{self.window_us} us").agg(
            count().alias("n"), sum_of("row").alias("rows"), max_of("value").alias("most"),
        )  # fmt: skip
        types = {name: windows.schema.field(name).type for name in windows.columns}
        said = windows.process(
            Running(),
            keys="key",
            schema=pa.schema([*types.items(), ("total", pa.int64()), ("windows", pa.int64())]),
            state={
                "total": streams.value_state("int64"),
                "windows": streams.value_state("int64", ttl="1 hour"),
            },
        )
        return said.deduplicate("key", "window_start", ttl=self.known)

    def rows(self) -> DataFrame:
        """What the windows are made of."""
        return streams.generator(
            rows_per_s=self.rows_per_s, n_keys=self.n_keys, n_splits=self.n_splits,
            seed=self.seed, start=START, disorder="200 ms",
        )  # fmt: skip

    def made(self) -> GeneratorStream:
        """The same, to make them again."""
        return GeneratorStream(
            rows_per_s=self.rows_per_s, n_keys=self.n_keys, n_splits=self.n_splits,
            seed=self.seed, start_us=_us(START), disorder_us=200_000,
        )  # fmt: skip

    def n_seen(self) -> int:
        """How many files there are: those that are seen stay, and more come."""
        return len(list(self.out.iterdir())) if self.out.is_dir() else 0

    def seen(self) -> pa.Table:
        """What anybody may read now."""
        if not self.out.is_dir() or not any(self.out.iterdir()):
            return pa.table({})
        return ds.dataset(self.out, format="parquet").to_table()

    def n_rows_until(self, window_start_us: int) -> int:
        """So many rows, from the first on, hold all that are earlier than a window's end."""
        rate = self.rows_per_s or 1000
        end_us = window_start_us + self.window_us - _us(START) + 200_000
        return -(-end_us * rate // 1_000_000) + self.n_splits

    def unlike_model(self, seen: pa.Table, besides: Iterable[pa.Table] = ()) -> str:
        """How what was put out differs from what it should be; "": not at all.

        Each key's windows must be the first ones, each once, up to where the job was stopped.
        `besides` are rows that came in once more.
        """
        duck = duckdb.connect()
        duck.execute("SET threads = 1")
        duck.register("seen", seen)
        (last,) = duck.sql("SELECT epoch_us(max(window_start)) FROM seen").fetchall()[0]
        self._fill_model(duck, last, besides)
        told = []
        for what, query in _CHECKS.items():
            found = duck.sql(f"SELECT * FROM ({query}) LIMIT 5").fetchall()
            if found:
                told.append(f"{what}: {found}")
        return "; ".join(told)

    def _fill_model(
        self, duck: duckdb.DuckDBPyConnection, last_us: int, besides: Iterable[pa.Table]
    ) -> None:
        source = self.made()
        duck.execute(
            "CREATE TABLE parts (key BIGINT, w BIGINT, n BIGINT, rows HUGEINT, most BIGINT)"
        )
        n_rows = self.n_rows_until(last_us)
        chunks = (
            generator.rows(source, index, begin, min(mine, begin + _CHUNK_ROWS), source.start_us)
            for index in range(self.n_splits)
            for mine in [generator.n_rows_of(n_rows, index, self.n_splits)]
            for begin in range(0, mine, _CHUNK_ROWS)
        )
        for rows in chain(besides, chunks):  # noqa: B007 - DuckDB reads it
            duck.execute(
                "INSERT INTO parts SELECT key, epoch_us(ts) // ? * ? AS w, count(*), "
                "sum(row), max(value) FROM rows GROUP BY key, w", [self.window_us] * 2,
            )  # fmt: skip
        duck.execute(
            "CREATE TABLE model AS SELECT key, w, n, rows, most, "
            "sum(n) OVER (PARTITION BY key ORDER BY w) AS total, "
            "row_number() OVER (PARTITION BY key ORDER BY w) AS windows FROM ("
            "SELECT key, w, sum(n) AS n, sum(rows) AS rows, max(most) AS most FROM parts "
            "GROUP BY key, w) WHERE w <= ?", [last_us],
        )  # fmt: skip


_SEEN = "SELECT key, epoch_us(window_start) AS w, n, rows, most, total, windows FROM seen"
_CHECKS = {
    "doubled": f"SELECT key, w, count(*) FROM ({_SEEN}) GROUP BY key, w HAVING count(*) > 1",
    "wrong": f"{_SEEN} EXCEPT SELECT key, w, n, rows, most, total, windows FROM model",
    "lost": (
        f"SELECT m.key, m.w FROM model m JOIN (SELECT key, max(w) AS last FROM ({_SEEN}) GROUP BY "
        f"key) USING (key) WHERE m.w <= last EXCEPT SELECT key, w FROM ({_SEEN})"
    ),
    "missing key": (
        "SELECT DISTINCT key FROM model WHERE w + 60000000 < (SELECT max(w) FROM model) "
        f"EXCEPT SELECT key FROM ({_SEEN})"
    ),
}


def _us(when: datetime) -> int:
    return int(when.timestamp() * 1_000_000)
