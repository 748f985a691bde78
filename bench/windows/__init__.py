"""Windows of a stream: count and sum by key, in a session of this process and on two agents.

Two Arrow IPC files are replayed in event-time order, one split each, a million events a second of
event time; keys are of one file, so that windows of rows are the same in any interleaving. The
kinds of windows are `tumbling` and `cumulative` (4 s), `sliding` (4 s every second), `session`
(a gap of four times a key's mean pause), `count` (8 rows) and `global`; there are a thousand or a
million keys. Checkpoints are taken every second, ten times as often as by default. `agents` cases
have an exchange by key.

Peers: `operator alone`, the chain of the same operators over the same batches, in one loop without
an engine around it: the limit. DuckDB and Polars (tumbling windows) are batch engines, which have
all rows at once and keep no state that could be restored; DuckDB is the oracle of every case.
`m_rows_a_core` are million rows by a second of processor time, of all processes.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness import Benchmark, Case, Engine

N_ROWS, N_ROWS_QUICK = 10_000_000, 2_000_000
BYTES_A_ROW = 24
KINDS = ("tumbling", "sliding", "session", "cumulative", "count", "global")
KEYS = {"1k": 1_000, "1M": 1_000_000}
QUICK = ("embedded tumbling 1k", "embedded session 1k", "agents tumbling 1M")


def cases(quick: bool) -> Sequence[Case]:
    """Every kind of window with few and many keys in both places."""
    rows = N_ROWS_QUICK if quick else N_ROWS
    found = [
        Case(
            f"{place} {kind} {keys}",
            rows,
            rows * BYTES_A_ROW,
            {"place": place, "kind": kind, "keys": n_keys, "rows": rows},
        )
        for place in ("embedded", "agents")
        for kind in KINDS
        for keys, n_keys in KEYS.items()
    ]
    return [case for case in found if not quick or case.name in QUICK]


def engines(case: Case) -> Sequence[Engine]:
    """Ours, the limit, and the oracle."""
    peers = ["duckdb"]
    if case.parameters["place"] == "embedded":
        peers = ["operator alone", *peers, *["polars"] * (case.parameters["kind"] == "tumbling")]
    return [
        Engine(None, f"bench.windows.runs:{case.parameters['place']}_run"),
        *(Engine(peer, f"bench.windows.{_FACTORIES[peer]}") for peer in peers),
    ]


_FACTORIES = {
    "operator alone": "runs:operator_run",
    "duckdb": "peers:duckdb_run",
    "polars": "peers:polars_run",
}
BENCHMARK = Benchmark(
    name="windows",
    about="windows of streams, embedded and on two agents, beside the operators alone",
    cases=cases,
    engines=engines,
    rounds=5,
    quick_rounds=3,
    round_s=0.5,
)
