"""An engine ready for one question of db-benchmark, its tables loaded.

One job: the factories the harness calls. Each engine has its tables in memory in its own form
before the clock starts and leaves its answer in its own form; what is compared is made Arrow after.
Fabric on agents reads the files, mapped.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.dbbenchmark import frames
from bench.dbbenchmark.data import loaded, tables
from bench.dbbenchmark.sql import QUESTIONS
from bench.harness import Answer, Case

N_AGENTS = 2


class Question:
    """A question: `ask` answers it in the engine's form, `arrow` makes that a table."""

    def __init__(self, ask: Callable[[], Any], arrow: Callable[[Any], pa.Table]) -> None:
        self._ask, self._arrow = ask, arrow

    def work(self) -> object:
        """Answer it once."""
        return self._ask()

    def answer(self) -> Answer:
        """Rows and checksum, of all columns but the texts of joins (their numbers are there)."""
        from fabric.clients.demo.checksum import checksum

        table = _rounded(self._arrow(self._ask()))
        numbers = [i for i, dtype in enumerate(table.schema.types) if not _is_text(dtype)]
        few = table.num_rows < 2_000_000
        return Answer(*checksum(table if few else table.select(numbers)))

    def close(self) -> None:
        """Nothing: tables and engines serve the next question too."""


def _is_text(dtype: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(kind(dtype) for kind in kinds)


def _rounded(table: pa.Table) -> pa.Table:
    """Floats to 9 decimals: of a correlation near zero, 9 digits are more than sums can give."""
    columns = [
        pc.round(column, 9) if pa.types.is_floating(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _of(case: Case) -> tuple[str, str, int]:
    return case.parameters["kind"], case.parameters["question"], case.parameters["rows"]


def _identity(table: pa.Table) -> pa.Table:
    return table


def fabric_run(case: Case) -> Question:
    """Fabric embedded, over tables in memory."""
    kind, question, rows = _of(case)
    frame = _fabric_frame(kind, question, _fabric_tables(kind, rows))
    return Question(frame.collect, _identity)


def agents_run(case: Case) -> Question:
    """Fabric on two warm agents, over mapped files."""
    kind, question, rows = _of(case)
    session = _agents()
    found = {name: session.read_ipc(path) for name, path in tables(kind, rows).items()}
    frame = _fabric_frame(kind, question, found)

    def ask() -> pa.Table:
        with session.submit(frame.plan) as job:
            return job.wait().collect()

    return Question(ask, _identity)


def _fabric_frame(kind: str, question: str, found: dict[str, Any]) -> Any:
    if kind == "join":
        return frames.joined(question, found)
    return frames.fabric_groupby(question, found["x"])


@cache
def _fabric_tables(kind: str, rows: int) -> dict[str, Any]:
    import fabric

    return {name: fabric.DataFrame(loaded(path)) for name, path in tables(kind, rows).items()}


@cache
def _agents() -> Any:
    import atexit

    import fabric
    from tests.support.local import local_fabric

    stack = ExitStack()
    atexit.register(stack.close)
    local = stack.enter_context(local_fabric(N_AGENTS))
    return stack.enter_context(fabric.connect(f"fabric://{local.address}", token=local.token))


def duckdb_run(case: Case) -> Question:
    """DuckDB over its own tables; the answer is a table of its own too."""
    kind, question, rows = _of(case)
    connection = _duckdb(kind, rows)

    def ask() -> Any:
        connection.execute("drop table if exists answer")
        connection.execute(f"create temp table answer as {QUESTIONS[kind][question]}")
        return connection

    return Question(ask, lambda c: c.sql("select * from answer").to_arrow_table())


@cache
def _duckdb(kind: str, rows: int) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.execute("set preserve_insertion_order = false")
    for name, path in tables(kind, rows).items():
        connection.register("loading", loaded(path))
        connection.execute(f"create table {name} as select * from loading")
        connection.unregister("loading")
    return connection


def polars_run(case: Case) -> Question:
    """Polars over frames in memory."""
    kind, question, rows = _of(case)
    found = {name: frame.lazy() for name, frame in _polars_tables(kind, rows).items()}
    if kind == "join":
        query = frames.joined(question, found)
    else:
        query = frames.polars_groupby(question, found["x"])
    return Question(query.collect, lambda frame: frame.to_arrow())


@cache
def _polars_tables(kind: str, rows: int) -> dict[str, Any]:
    import polars as pl

    found = {name: pl.from_arrow(loaded(path)) for name, path in tables(kind, rows).items()}
    return {name: frame.rechunk() for name, frame in found.items()}


def datafusion_run(case: Case) -> Question:
    """DataFusion over batches in memory, one partition a core."""
    kind, question, rows = _of(case)
    context = _datafusion(kind, rows)
    sql = QUESTIONS[kind][question]
    return Question(lambda: context.sql(sql).collect(), pa.Table.from_batches)


@cache
def _datafusion(kind: str, rows: int) -> Any:
    from datafusion import SessionContext

    context = SessionContext()
    for name, path in tables(kind, rows).items():
        batches = loaded(path).to_batches()
        half = (len(batches) + 1) // 2
        parts = [batches[:half], batches[half:]] if len(batches) > 1 else [batches]
        context.register_record_batches(name, parts)
    return context


def daft_run(case: Case) -> Question:
    """Daft over frames in memory."""
    kind, question, rows = _of(case)
    found = _daft_tables(kind, rows)
    if kind == "join":
        query = frames.daft_joined(question, found)
    else:
        query = frames.daft_groupby(question, found["x"])
    # a collected frame keeps its answer, so each call asks a new one
    return Question(lambda: query.select(*query.column_names).to_arrow(), _identity)


@cache
def _daft_tables(kind: str, rows: int) -> dict[str, Any]:
    import daft

    return {
        name: daft.from_arrow(loaded(path)).collect() for name, path in tables(kind, rows).items()
    }
