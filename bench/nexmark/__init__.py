"""Nexmark: q0 to q22 of an auction house as it goes on, next to DuckDB and Flink SQL.

Questions q0-q2, q10, q14, q21 and q22 look at one bid at a time (q1 and q14 in decimals, q14 with a
function of Python, q10 into files); q5 and q7 at windows of event time (the best of each, with
ties), q11 at sessions, q12 at windows of processing time; q15-q17 count and sum by day, q18 keeps
the last bid of a bidder in an auction, q19 the ten highest of an auction. Joins: q3 and q20 of all
rows that have come, q4, q6 and q9 of auctions and the bids that they get while they are open, q8 of
windows, q13 with a table. Where results change, every change is put out.

Fabric runs embedded with a task a core (ours) and on two agents, Flink as a mini cluster with a
slot a core in one session, all as streams from files to nowhere; `state` says where they keep what
they must remember. DuckDB is asked once, when all rows are there, and is the oracle. `rows` of a
rate are those of the tables that a question reads, not of all events. Flink's stateful questions
have the bounds that Fabric's have (`flink_sql.py` says which).

One call is one job over all files, again and again until 20 s are full (`--quick`: 5), and the
median counts. Off its time goes that of the same job over next to no rows: what it takes to start
and to end (`start_s`). Reading files is part of it: Arrow's for Fabric, Parquet's for the others;
`parsing_s` is what Flink takes to read the question's columns and do nothing, and
`ratio_without_parsing` leaves that out. Answers are compared over the first events (`checked` of
them), in runs of their own that keep them; changes are folded first. Of q12 only the sum of its
counts can agree. `cpu_s` is the processor time of one job, of all processes of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness import Benchmark, Case, Engine
from bench.nexmark import data
from bench.nexmark.sql import DUCKDB, TABLES

N_EVENTS, N_EVENTS_QUICK = 25_000_000, 4_000_000
N_CHECKED, N_CHECKED_QUICK = 5_000_000, 500_000
QUESTIONS = tuple(DUCKDB)
BYTES_A_ROW = {"person": 250, "auction": 540, "bid": 125, "side": 20}
"""About, as Arrow."""


def cases(quick: bool) -> Sequence[Case]:
    """One a question; its rows are those of the tables that it reads."""
    n_events = N_EVENTS_QUICK if quick else N_EVENTS
    parameters = {
        "events": n_events,
        "checked": N_CHECKED_QUICK if quick else N_CHECKED,
        "cores": data.n_cores(),
    }
    found = []
    for name in QUESTIONS:
        read = {table: data.n_rows(table, n_events) for table in TABLES[name]}
        n_bytes = sum(n * BYTES_A_ROW[table] for table, n in read.items())
        found.append(Case(name, sum(read.values()), n_bytes, parameters))
    return found


def engines(case: Case) -> Sequence[Engine]:
    """Ours in one process and in three, the oracle, and Flink."""
    return [
        Engine(None, "bench.nexmark.fabric_engine:run"),
        Engine("two agents", "bench.nexmark.fabric_engine:agents_run"),
        Engine("duckdb", "bench.nexmark.duckdb_engine:run"),
        Engine("flink", "bench.nexmark.flink_engine:run"),
    ]


BENCHMARK = Benchmark(
    name="nexmark",
    about="questions to a stream of bids, beside DuckDB (once) and Flink SQL",
    cases=cases,
    engines=engines,
    rounds=1,
    quick_rounds=1,
    round_s=20.0,
    quick_round_s=5.0,
    timeout_s=1_800.0,  # Flink is installed the first time
)
