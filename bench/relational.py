"""db-benchmark: ten group-bys and five joins, embedded and on two agents, beside other engines.

The tables have 10 M rows (`--quick`: 1 M); joins meet tables of 10, 10 K and 10 M rows. Engines
have their tables in memory in their own form.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.dbbenchmark.sql import QUESTIONS
from bench.harness import Benchmark, Case, Engine

N_ROWS, N_ROWS_QUICK = 10_000_000, 1_000_000
N_BYTES = {"groupby": 100, "join": 90}
DAFT_LACKS = {"groupby q6", "groupby q9"}
"""Daft has neither an exact median nor a correlation."""


def cases(quick: bool) -> Sequence[Case]:
    """Every question in both places."""
    rows = N_ROWS_QUICK if quick else N_ROWS
    return [
        Case(
            f"{place} {kind} {question}",
            rows,
            rows * N_BYTES[kind],
            {"place": place, "kind": kind, "question": question, "rows": rows},
        )
        for place in ("embedded", "agents")
        for kind, questions in QUESTIONS.items()
        for question in questions
    ]


def engines(case: Case) -> Sequence[Engine]:
    """Ours, and the peers, which have one place only."""
    agents = case.parameters["place"] == "agents"
    ours = "agents_run" if agents else "fabric_run"
    names = ["duckdb", "polars", "datafusion", "daft"]
    if case.name.split(" ", 1)[1] in DAFT_LACKS:
        names.remove("daft")
    peers = [Engine(name, f"bench.dbbenchmark.runs:{name}_run") for name in names]
    beside = Engine("embedded", "bench.dbbenchmark.runs:fabric_run")
    return [
        Engine(None, f"bench.dbbenchmark.runs:{ours}"),
        *([beside] if agents else []),
        *peers,
    ]


BENCHMARK = Benchmark(
    name="relational",
    about="db-benchmark, embedded and on two agents",
    cases=cases,
    engines=engines,
    rounds=5,
    quick_rounds=3,
    round_s=1.0,
)
