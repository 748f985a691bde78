"""10 M rows: scan, filter, join with 1 M rows, aggregate; two warm agents and peers in-process.

`broadcast dense`: keys 0 … 1 M, the small side goes to every agent. `hash sparse`: keys of 63
random bits, both sides are exchanged by hash. Every engine reads the same Arrow IPC files, mapped
into memory (DuckDB and DataFusion through Arrow, for they have no reader of their own for them),
and gives group, count, an integer sum and a float sum of multiples of 1/4, which is exact in any
order, so all checksums must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.harness import Answer, Benchmark, Case, Engine
from bench.made import made, write_arrow

N_FACTS, N_FACTS_QUICK = 10_000_000, 2_000_000
N_DIMENSION = 1_000_000
N_GROUPS = 1_000
N_AGENTS = 2
SQL = """
select g, count(*) as n, sum(v)::bigint as sum_v, sum(w) as sum_w
from facts join dimension using (k) where v < 50 group by g
"""


def folder(case: Case) -> Path:
    """Where the case's files lie; made when they are not there."""
    rows, sparse = case.parameters["rows"], case.parameters["sparse"]
    name = f"{'sparse' if sparse else 'dense'}-{rows}"
    return made("pipeline", name, lambda folder: _make(folder, rows, sparse))


def _keys(sparse: bool) -> NDArray[np.int64]:
    if not sparse:
        return np.arange(N_DIMENSION, dtype=np.int64)
    return np.random.default_rng(seed=7).integers(0, 1 << 62, N_DIMENSION, dtype=np.int64)


def _make(target: Path, rows: int, sparse: bool) -> None:
    rng = np.random.default_rng(seed=1)
    keys = _keys(sparse)
    dimension = {"k": keys, "g": rng.integers(0, N_GROUPS, N_DIMENSION)}
    write_arrow(target / "dimension.arrow", pa.table(dimension))
    facts = {
        "k": keys[rng.integers(0, N_DIMENSION, rows)],
        "v": rng.integers(0, 100, rows),
        "w": rng.integers(0, 4_000, rows) / 4,
    }
    write_arrow(target / "facts.arrow", pa.table(facts))


def mapped(path: Path) -> pa.Table:
    """The file's table, mapped into memory."""
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def answer_of(table: pa.Table) -> Answer:
    """Rows and checksum of a result."""
    from fabric.clients.demo.checksum import checksum

    return Answer(*checksum(table.select(["g", "n", "sum_v", "sum_w"])))


class QueryRun:
    """An engine's query: `ask` runs it and gives the table."""

    def __init__(self, ask: Any, stack: ExitStack) -> None:
        self._ask, self._stack = ask, stack

    def work(self) -> object:
        """One query."""
        return self._ask()

    def answer(self) -> Answer:
        """What it gives."""
        return answer_of(self._ask())

    def close(self) -> None:
        """Stop the engine."""
        self._stack.close()


def fabric_run(case: Case) -> QueryRun:
    """Fabric: a coordinator and two agents, warm."""
    import fabric
    from fabric import col
    from fabric.plan.nodes import JoinStrategy
    from tests.support.local import local_fabric

    files = folder(case)
    stack = ExitStack()
    local = stack.enter_context(local_fabric(N_AGENTS))
    session = stack.enter_context(fabric.connect(f"fabric://{local.address}", token=local.token))
    strategy: JoinStrategy = "hash" if case.parameters["sparse"] else "broadcast"
    query = (
        session.read_ipc(files / "facts.arrow")
        .filter(col("v") < 50)
        .join(session.read_ipc(files / "dimension.arrow"), on="k", strategy=strategy)
        .group_by("g")
        .agg(
            fabric.count().alias("n"),
            fabric.sum("v").alias("sum_v"),
            fabric.sum("w").alias("sum_w"),
        )
    )

    def ask() -> pa.Table:
        with session.submit(query) as job:
            return job.collect()

    return QueryRun(ask, stack)


def duckdb_run(case: Case) -> QueryRun:
    """DuckDB over the mapped tables, on both cores."""
    import duckdb

    stack = ExitStack()
    connection = stack.enter_context(duckdb.connect())
    for name in ("facts", "dimension"):
        connection.register(name, mapped(folder(case) / f"{name}.arrow"))
    return QueryRun(lambda: connection.sql(SQL).to_arrow_table(), stack)


def polars_run(case: Case) -> QueryRun:
    """Polars, lazily, scanning the files itself."""
    import polars as pl

    facts = pl.scan_ipc(folder(case) / "facts.arrow")
    dimension = pl.scan_ipc(folder(case) / "dimension.arrow")
    query = (
        facts.filter(pl.col("v") < 50)
        .join(dimension, on="k")
        .group_by("g")
        .agg(n=pl.len(), sum_v=pl.col("v").sum(), sum_w=pl.col("w").sum())
    )
    return QueryRun(lambda: query.collect().to_arrow(), ExitStack())


def datafusion_run(case: Case) -> QueryRun:
    """DataFusion over the mapped batches, one partition a core."""
    from datafusion import SessionContext

    context = SessionContext()
    for name in ("facts", "dimension"):
        batches = mapped(folder(case) / f"{name}.arrow").to_batches()
        half = (len(batches) + 1) // 2
        parts = [batches[:half], batches[half:]] if len(batches) > 1 else [batches]
        context.register_record_batches(name, parts)
    return QueryRun(lambda: context.sql(SQL).to_arrow_table(), ExitStack())


def cases(quick: bool) -> Sequence[Case]:
    """Both joins over as many facts."""
    rows = N_FACTS_QUICK if quick else N_FACTS
    n_bytes = rows * 24 + N_DIMENSION * 16
    return [
        Case("broadcast dense", rows, n_bytes, {"rows": rows, "sparse": False}),
        Case("hash sparse", rows, n_bytes, {"rows": rows, "sparse": True}),
    ]


BENCHMARK = Benchmark(
    name="pipeline",
    about="scan IPC, filter, join 1 M, aggregate on two warm agents",
    cases=cases,
    engines=lambda _case: [
        Engine(None, "bench.pipeline:fabric_run"),
        Engine("duckdb", "bench.pipeline:duckdb_run"),
        Engine("polars", "bench.pipeline:polars_run"),
        Engine("datafusion", "bench.pipeline:datafusion_run"),
    ],
    rounds=9,
    quick_rounds=3,
    round_s=1.0,
)
