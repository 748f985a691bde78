"""A stream that is put through faults, and what must hold after them.

One job: `StreamOrdeal`: a million rows of a generator, some of them late, through windows of event
time and, by another watermark, through a function with state and a timer, into files; what comes
out does not depend on who was lost meanwhile. `submit` it, break things, `finish` it, `check` it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import fabric
from fabric import DataFrame, Process, ProcessContext, col, streams
from fabric.checkpoint.manifest import FINAL
from fabric.config import StateBackend
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.io.readers import generator
from fabric.plan.nodes import Node, Sink, Union
from fabric.plan.sources import GeneratorStream
from fabric.plan.targets import StreamFileTarget, StreamTarget
from tests.support.compare import unlike
from tests.support.local import LocalFabric
from tests.support.ordeal import PATIENCE_S, Submitted, patiently, wait_idle
from tests.support.sampled import SOAK
from tests.support.wait import wait_until

PARALLELISM, N_SPLITS, N_KEYS = 3, 3, 1_000
N_ROWS, ROWS_PER_S = (1_020_000, 60_000) if SOAK else (280_000, 40_000)
"""Fewer where only a sample is tried; slow enough for many checkpoints on a busy machine."""
START_US = 1_767_225_600_000_000
DISORDER_US, BOUND_US, WINDOW_US = 600_000, 400_000, 250_000
NUMBERED = 50
"""Of the keys, every one that this divides goes through the function."""
TIMER_US = START_US + 3_600_000_000
"""Later than any row: its timers are called at the end."""
RETAINED = 2
STATE_BYTES = 150_000
"""So that groups of windows lie in memory and in files."""


class Numbered(Process):
    """The rows of each key as they come, with their number and the sum so far; in the end both."""

    def on_rows(self, ctx: ProcessContext, key: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """State: how many rows there were, and the sum of their values."""
        n, total = ctx.state("n").get() or 0, ctx.state("total").get() or 0
        if not n:
            ctx.timers.set(TIMER_US)
        ns, totals = [], []
        for row in rows.column("row").to_pylist():
            n, total = n + 1, total + row
            ns.append(n)
            totals.append(total)
        ctx.state("n").put(n)
        ctx.state("total").put(total)
        made = {"key": [key] * len(ns), "n": ns, "total": totals}
        made |= {name: rows.column(name) for name in ("split", "row")}
        return pa.RecordBatch.from_pydict(made, schema=SCHEMA)

    def on_timer(self, ctx: ProcessContext, key: int, time: int, domain: str) -> dict[str, object]:
        """The end of a key."""
        n, total = ctx.state("n").get(), ctx.state("total").get()
        return {"key": key, "n": n + 1, "total": total, "split": -1, "row": -1}


SCHEMA = pa.schema(
    [("key", pa.int64()), ("n", pa.int64()), ("total", pa.int64()), ("split", pa.int32()),
     ("row", pa.int64())]
)  # fmt: skip


def source(n_rows: int = N_ROWS, rows_per_s: int = ROWS_PER_S) -> GeneratorStream:
    """Rows that are always the same."""
    return GeneratorStream(
        rows_per_s, n_rows, N_KEYS, N_SPLITS, seed=11, start_us=START_US, disorder_us=DISORDER_US
    )


LONG = source(rows_per_s=N_ROWS // 34)
"""Half a minute of rows: some are left when much has happened, on a busy machine, too."""


class StreamOrdeal(Submitted):
    """One stream on a fabric; what it writes lies in `folder`."""

    def __init__(
        self,
        running: LocalFabric,
        folder: Path,
        *,
        made: GeneratorStream | None = None,
        numbered: StreamTarget | None = None,
        interval_s: float = 0.5,
        timeout_s: float = 20.0,
        state: StateBackend = "arrow",
    ) -> None:
        self._source = made or source()
        self._folder = folder
        self.numbered = numbered or StreamFileTarget("ipc", str(folder / "numbered"), 0, 0, 0.0, 0)
        checkpoint = pb.Checkpointing(
            interval_s=interval_s, timeout_s=timeout_s, retained=RETAINED, state=state,
            state_memory=STATE_BYTES,
        )  # fmt: skip
        super().__init__(running, self._written(), parallelism=PARALLELISM, checkpoint=checkpoint)

    def _written(self) -> Node:
        rows = frame(self._source)  # read once, by two watermarks
        windows = _windows(rows.with_watermark("ts", f"{BOUND_US} us"))
        patient = rows.with_watermark("ts", f"{DISORDER_US} us")
        late = StreamFileTarget("parquet", str(self._folder / "late"))
        return Union((
            Sink(windows.plan.root, StreamFileTarget("parquet", str(self._folder / "windows"))),
            Sink(windows.side_output("late").plan.root, late),
            Sink(_numbered(patient).plan.root, self.numbered),
        ))  # fmt: skip

    # ---- while it runs

    def checkpoints(self) -> list[pb.CheckpointStatus]:
        """Those that are kept, were given up, or are under way."""
        request = pb.CheckpointsRequest(job_id=self.job_id)
        return list(patiently(lambda: self._fabric.control.list_checkpoints(request)).checkpoints)

    def complete(self) -> int:
        """The newest complete checkpoint; 0: there is none."""
        over = ("under way", "aborted")
        return max((c.checkpoint for c in self.checkpoints() if c.state not in over), default=0)

    def events(self) -> list[pb.EventRecord]:
        """What happened to it, oldest first."""
        request = pb.EventsRequest(job_id=self.job_id)
        return list(patiently(lambda: self._fabric.control.list_events(request)).events)

    def go_on(self, n: int, within_s: float = PATIENCE_S) -> int:
        """Wait until so many more checkpoints are complete, or it has ended; returns the newest."""
        first = self.complete()
        wait_until(lambda: self.complete() >= first + n or self.status().state in ENDED, within_s)
        return self.complete()

    # ---- afterwards

    def end(self, at_fault: int | None = None, within_s: float = 120.0) -> None:
        """After the last fault: it ends, nothing is wrong, and released, nothing is left."""
        self.finish(within_s)
        self.check(at_fault)
        self.release()
        wait_idle(self._fabric)
        wait_until(lambda: not self.leftovers())

    def check(self, at_fault: int | None = None) -> None:
        """All of it; `at_fault` was the newest checkpoint at the time of the last fault."""
        self.check_rows()
        self.check_order()
        self.check_checkpoints()
        if at_fault is not None:
            assert self.complete() >= at_fault + 2, "it did not go on after the fault"

    def check_rows(self) -> None:
        """Rows as without faults: none is lost, none is there twice (I1)."""
        expected = reference(self._source)
        windows = self._read("windows")
        begins = windows["window_start"].cast(pa.int64())
        windows = windows.set_column(1, "begins", begins).drop_columns("window_end")
        assert unlike(windows, expected["windows"]) == ""
        assert unlike(self._read("late").select(["split", "row", "key"]), expected["late"]) == ""
        if isinstance(self.numbered, StreamFileTarget):
            check_numbered(self._read("numbered"), expected["numbered"])

    def check_order(self) -> None:
        """The rows of a key lie in the order in which they were put out (I2)."""
        if not isinstance(self.numbered, StreamFileTarget):
            return
        last: dict[int, int] = {}
        for path in sorted((self._folder / "numbered").iterdir()):
            with pa.OSFile(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
            for key, n in zip(table["key"].to_pylist(), table["n"].to_pylist(), strict=True):
                assert n == last.get(key, 0) + 1, f"key {key}: {n} follows {last.get(key)}: {path}"
                last[key] = n

    def check_checkpoints(self) -> None:
        """Numbers rise, each has one manifest (I5); nothing lies beside what is kept (I9)."""
        done = [_number(event) for event in self.events() if event.kind == "checkpoint complete"]
        assert done == sorted(set(done)), f"complete were, in this order: {done}"
        kept = {c.checkpoint for c in self.checkpoints() if c.state == "published"}
        assert 1 <= len(kept) <= RETAINED
        root = self._fabric.home / "checkpoints" / self.job_id
        lie = {int(path.name): path for path in root.iterdir() if path.name.isdecimal()}
        assert kept <= lie.keys()
        for number in kept:
            assert {p.name for p in lie[number].iterdir()} >= {"MANIFEST"}
        beside = sorted(number for number in lie.keys() - kept if number != FINAL)
        assert not beside, f"of checkpoints that are not kept: {beside}, kept are {kept}"
        left = [str(path) for path in root.rglob("*.aside")] + [
            path.name for path in self._folder.iterdir() if path.name.startswith(".")
        ]
        assert not left, f"left beside what was written: {left}"

    def leftovers(self) -> list[str]:
        """What is still there of a job that was released: snapshots, files of its tasks (I9)."""
        home = self._fabric.home
        found = [*(home / "checkpoints").glob(f"{self.job_id}*")]
        found += [
            path
            for i in range(PARALLELISM)
            for path in (home / "agents" / str(i) / "streams").glob("*")
        ]
        return [str(path.relative_to(home)) for path in found]

    def _read(self, name: str) -> pa.Table:
        format = "ipc" if name == "numbered" else "parquet"
        return ds.dataset(self._folder / name, format=format).to_table()


def frame(made: GeneratorStream) -> DataFrame:
    """The stream of it."""
    return streams.generator(
        rows_per_s=made.rows_per_s, n_rows=made.n_rows, n_keys=made.n_keys,
        n_splits=made.n_splits, seed=made.seed, disorder=f"{made.disorder_us} us",
        start=datetime.fromtimestamp(made.start_us // 10**6, UTC),
    )  # fmt: skip


def _windows(rows: DataFrame) -> DataFrame:
    grouped = rows.group_by("key").window(f"{WINDOW_US} us", late="side")
    return grouped.agg(n=fabric.count(), rows=fabric.sum("row"))


def _numbered(rows: DataFrame) -> DataFrame:
    return rows.filter(col("key") % NUMBERED == 0).process(
        Numbered(),
        keys="key",
        schema=SCHEMA,
        state={"n": streams.value_state("int64"), "total": streams.value_state("int64")},
        timers="event",
    )


def _number(event: pb.EventRecord) -> int:
    found = re.search(r"checkpoint (\d+)", event.text)
    assert found is not None, event
    return int(found[1])


def check_numbered(found: pa.Table, expected: pa.Table) -> None:
    """Each row went through the function once, with the state that the rows before had left."""
    ends = found.filter(pc.equal(found["split"], -1))
    rows = found.filter(pc.not_equal(found["split"], -1))
    assert unlike(rows.select(["key", "split", "row"]), expected) == ""
    duck = duckdb.connect()
    duck.register("found", found)
    wrong = (
        duck.sql(
            "SELECT * FROM (SELECT *, row_number() OVER each AS counted, "
            "sum(CASE WHEN split < 0 THEN 0 ELSE row END) OVER each AS summed "
            "FROM found WINDOW each AS (PARTITION BY key ORDER BY n)) "
            "WHERE n <> counted OR total <> summed"
        )
        .limit(5)
        .fetchall()
    )
    assert not wrong, f"state was not what the rows before had left: {wrong}"
    again = (
        duck.sql(
            "SELECT * FROM (SELECT *, lag(row) OVER (PARTITION BY key, split ORDER BY n) AS before "
            "FROM found WHERE split >= 0) WHERE before >= row"
        )
        .limit(5)
        .fetchall()
    )
    assert not again, f"rows of a split out of order: {again}"
    assert ends.num_rows == pc.count_distinct(rows["key"]).as_py(), "timers were lost, or twice"


@cache
def reference(made: GeneratorStream) -> dict[str, pa.Table]:
    """What comes out without any fabric: rows by the generator's formula, the rest by DuckDB."""
    parts = [
        generator.rows(made, i, 0, generator.n_rows_of(made.n_rows, i, made.n_splits), START_US)
        for i in range(made.n_splits)
    ]
    table = pa.concat_tables(parts)
    table = table.append_column("us", table["ts"].cast(pa.int64()))
    duck = duckdb.connect()
    duck.register("made", table.drop_columns(["ts", "value"]))
    duck.sql(
        f"CREATE TABLE told AS SELECT *, us - us % {WINDOW_US} AS begins, "
        f"coalesce(max(us) OVER (PARTITION BY split ORDER BY row ROWS BETWEEN UNBOUNDED PRECEDING "
        f"AND 1 PRECEDING) - {BOUND_US} >= us - us % {WINDOW_US} + {WINDOW_US}, false) AS late "
        "FROM made"
    )
    return {
        "windows": duck.sql(
            "SELECT key, begins, count(*) AS n, sum(row)::int64 AS rows FROM told "
            "WHERE NOT late GROUP BY ALL"
        ).to_arrow_table(),
        "late": duck.sql("SELECT split, row, key FROM told WHERE late").to_arrow_table(),
        "numbered": duck.sql(
            f"SELECT key, split, row FROM told WHERE key % {NUMBERED} = 0"
        ).to_arrow_table(),
    }
