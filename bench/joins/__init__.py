"""Joins of two streams by an interval of event time, beside DuckDB and Flink SQL.

Two sides of as many rows each are replayed from Arrow files in the order of their time, one file a
core and side, a million rows of a side to a second of event time. A row of the left side meets the
rows of its key that are at most so far from it in time that it has about one partner: 500 ms with
a million keys, 5 ms with ten thousand. `inner` puts pairs out, `left` rows without a partner, too.
Results go nowhere.

Fabric runs embedded with a task a core (ours) and on two agents, its state in memory; Flink as a
mini cluster with a slot a core, its state on the heap. DuckDB is asked once with all rows there,
and is the oracle: rows and checksum are those of the result of the whole case. Off the time of
streams goes that of the same job over next to no rows (`start_s`). `cpu_s` is the processor time of
one job, `m_rows_a_core` are million rows, of both sides together, by a second of it. Reading files
is part of it; Flink reads Parquet, which takes it `parsing_s`.

What a join of streams keeps lies in memory, so there is no case with more rows than fit into it.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness import Benchmark, Case, Engine
from bench.nexmark.data import n_cores

N_ROWS, N_ROWS_QUICK = 10_000_000, 2_000_000
"""Of each side."""
BYTES_A_ROW = 24
KINDS = {"inner 1M keys": (1_000_000, 500), "left 1M keys": (1_000_000, 500),
         "inner 10k keys": (10_000, 5)}  # fmt: skip
"""Keys, and milliseconds before and after."""


def cases(quick: bool) -> Sequence[Case]:
    """Each kind; fewer rows take as much less time."""
    n_rows = N_ROWS_QUICK if quick else N_ROWS
    found = []
    for name, (n_keys, apart_ms) in KINDS.items():
        parameters = {
            "rows": n_rows, "keys": n_keys, "apart_ms": apart_ms, "how": name.partition(" ")[0],
            "cores": n_cores(),
        }  # fmt: skip
        found.append(Case(name, 2 * n_rows, 2 * n_rows * BYTES_A_ROW, parameters))
    return found


def engines(case: Case) -> Sequence[Engine]:
    """Ours in one process and in three, the oracle, and Flink."""
    return [
        Engine(None, "bench.joins.runs:run"),
        Engine("two agents", "bench.joins.runs:agents_run"),
        Engine("duckdb", "bench.joins.runs:duckdb_run"),
        Engine("flink", "bench.joins.flink:run"),
    ]


BENCHMARK = Benchmark(
    name="joins",
    about="two streams joined by key and time, next to DuckDB (once) and Flink SQL",
    cases=cases,
    engines=engines,
    rounds=1,
    quick_rounds=1,
    round_s=20.0,
    quick_round_s=5.0,
    timeout_s=1_800.0,  # Flink is installed the first time
)
