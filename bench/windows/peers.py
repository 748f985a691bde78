"""The same windows by batch engines, which have all rows before they begin."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from bench.harness import Answer, Case
from bench.windows.data import COUNT, SIZE_S, SLIDE_S, TIME, Asked, files, mapped
from bench.windows.runs import answer_of

_US = 1_000_000
_SIZE, _SLIDE = SIZE_S * _US, SLIDE_S * _US
_STARTED = "(SELECT k, v, epoch_us(ts) AS t FROM events)"


class PeerRun:
    """A query of a batch engine: `ask` answers in its own form, which `arrow` makes a table."""

    def __init__(self, ask: Any, arrow: Any, stack: ExitStack) -> None:
        self._ask, self._arrow, self._stack = ask, arrow, stack

    def work(self) -> object:
        """Ask once."""
        return self._ask()

    def answer(self) -> Answer:
        """Rows and checksum."""
        return answer_of(_timed(self._arrow(self._ask())), {})

    def close(self) -> None:
        """Let go of the engine."""
        self._stack.close()


def duckdb_run(case: Case) -> PeerRun:
    """DuckDB over the mapped files, on both cores."""
    import duckdb

    asked = Asked.of(case)
    stack = ExitStack()
    connection = stack.enter_context(duckdb.connect())
    connection.execute("SET enable_progress_bar = false")  # it is drawn amid our lines
    connection.register("events", pa.concat_tables(map(mapped, files(asked))))
    query = _sql(asked)
    return PeerRun(lambda: connection.sql(query).to_arrow_table(), lambda table: table, stack)


def polars_run(case: Case) -> PeerRun:
    """Polars, where windows are a column of each row (tumbling): its quickest way by far."""
    import polars as pl

    events = pl.concat([pl.scan_ipc(path) for path in files(Asked.of(case))])
    start = pl.col("ts").dt.truncate(f"{SIZE_S}s").alias("window_start")
    query = (
        events.group_by("k", start)
        .agg(n=pl.len(), s=pl.col("v").sum())
        .with_columns(window_end=pl.col("window_start").dt.offset_by(f"{SIZE_S}s"))
    )
    return PeerRun(query.collect, lambda frame: frame.to_arrow(), ExitStack())


def _timed(table: pa.Table) -> pa.Table:
    """Windows as the times that Fabric gives, whatever the engine made of them."""
    for name in ("window_start", "window_end"):
        if name in table.column_names:
            times = table[name].cast(pa.int64()) if pa.types.is_integer(table[name].type) else None
            made = table[name].cast(TIME) if times is None else times.cast(TIME)
            table = table.set_column(table.column_names.index(name), name, made)
    return table


def _sql(asked: Asked) -> str:
    totals = "count(*) AS n, sum(v)::bigint AS s"
    match asked.kind:
        case "tumbling":
            starts, ends = f"[t - t % {_SIZE}]", f"w + {_SIZE}"
        case "sliding":
            starts, ends = f"range(t - t % {_SLIDE}, t - {_SIZE}, -{_SLIDE})", f"w + {_SIZE}"
        case "cumulative":
            starts = f"range(t - t % {_SLIDE} + {_SLIDE}, t - t % {_SIZE} + {_SIZE} + 1, {_SLIDE})"
            return f"""SELECT k, w - 1 - (w - 1) % {_SIZE} AS window_start, w AS window_end,
                {totals} FROM (SELECT k, v, unnest({starts}) AS w FROM {_STARTED}) GROUP BY ALL"""
        case "session":
            return _sessions(asked.gap_us, totals)
        case "count":
            return f"""SELECT k, {totals} FROM (SELECT k, v, (row_number() OVER
                (PARTITION BY k ORDER BY t) - 1) // {COUNT} AS w FROM {_STARTED})
                GROUP BY k, w HAVING count(*) = {COUNT}"""
        case _:
            return f"SELECT k, {totals} FROM {_STARTED} GROUP BY k"
    return f"""SELECT k, w AS window_start, {ends} AS window_end, {totals}
        FROM (SELECT k, v, unnest({starts}) AS w FROM {_STARTED}) GROUP BY ALL"""


def _sessions(gap_us: int, totals: str) -> str:
    begun = f"""SELECT k, v, t, coalesce(t - lag(t) OVER (PARTITION BY k ORDER BY t) > {gap_us},
        true) AS begins FROM {_STARTED}"""
    numbered = f"""SELECT *, sum(begins::int) OVER (PARTITION BY k ORDER BY t
        ROWS UNBOUNDED PRECEDING) AS w FROM ({begun})"""
    return f"""SELECT k, min(t) AS window_start, max(t) + {gap_us} AS window_end, {totals}
        FROM ({numbered}) GROUP BY k, w"""
