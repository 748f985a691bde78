"""All rows in one order over two agents, beside other engines' sorts.

10 M rows of k (63 random bits, all different), v: int64, w: float64 (`--quick`: 2 M), and 50 M;
"hot" sorts by h, which is the same in nine rows of ten, and then by k. Each engine holds the rows
in memory or mapped files beforehand, and the sorted rows stay where it keeps results: in the
agents' stores, in an Arrow table or frame, with Dask's workers; Spark throws them away, for it has
no cheap way to keep them. The answer is the sum of each column's values
times their places, so it depends on the place of every row.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness import Benchmark, Case, Engine

N_ROWS, N_ROWS_QUICK = (10_000_000, 50_000_000), (2_000_000,)
BYTES_A_ROW = 32
PEERS = {
    "polars": "polars_engine:run",
    "duckdb": "duckdb_engine:run",
    "spark local[2]": "spark_engine:run",
    "dask": "dask_engine:run",
}


def cases(quick: bool) -> Sequence[Case]:
    """Different keys, and one with most of the rows."""
    return [
        Case(f"{rows // 1_000_000}M{' hot' if hot else ''}", rows, rows * BYTES_A_ROW, {"hot": hot})
        for rows in (N_ROWS_QUICK if quick else N_ROWS)
        for hot in (False, True)
    ]


def engines(case: Case) -> Sequence[Engine]:
    """Ours and all peers."""
    ours = Engine(None, "bench.sorting.fabric_engine:run")
    return [ours, *(Engine(name, f"bench.sorting.{at}") for name, at in PEERS.items())]


BENCHMARK = Benchmark(
    name="sort",
    about="all rows in one order over two agents, beside Polars, DuckDB, Spark and Dask",
    cases=cases,
    engines=engines,
    rounds=3,
    quick_rounds=3,
    round_s=0.3,
)
