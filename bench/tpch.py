"""TPC-H's 22 questions, embedded and on two agents, beside other engines on the same files.

Scale factor 1 (`--quick`: 0.1). The cases "embedded" and "agents" are the sums over all questions,
"embedded q1" and so on single ones. Answers are compared after rounding to 3 digits. All peers are
asked in the same SQL: beside the embedded fabric DuckDB, Daft and Sail (by Spark Connect) in a
process each, beside the agents Spark. Daft 0.7.26 can't say what type decimals of q1, q8, q9 and
q14 get, nor bind q21, so it has no sum of all questions either.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness import Benchmark, Case, Engine

SCALE, SCALE_QUICK = 1.0, 0.1
N_LINES = 6_001_215
BYTES_A_LINE = 100
PEERS = {
    "embedded": {"duckdb": "duckdb_run", "daft": "daft_run", "sail": "sail_run"},
    "agents": {"spark local[2]": "spark_run"},
}
OURS = {"embedded": "fabric_run", "agents": "agents_run"}


def cases(quick: bool) -> Sequence[Case]:
    """The sum of all questions in each place, then each question."""
    scale = SCALE_QUICK if quick else SCALE
    names = [f"q{number}" for number in range(1, 23)]
    rows = int(N_LINES * scale)
    found = []
    for place in OURS:
        for name, questions in (("", names), *((f" {name}", [name]) for name in names)):
            parameters = {"place": place, "questions": questions, "scale": scale}
            found.append(Case(f"{place}{name}", rows, rows * BYTES_A_LINE, parameters))
    return found


def engines(case: Case) -> Sequence[Engine]:
    """Ours beside the peers of the place."""
    place = case.parameters["place"]
    runs = "bench.tpch_questions.runs"
    peers = (Engine(name, f"{runs}:{function}") for name, function in PEERS[place].items())
    return [Engine(None, f"{runs}:{OURS[place]}"), *peers]


BENCHMARK = Benchmark(
    name="tpch",
    about="the 22 questions of TPC-H, beside DuckDB, Daft and Sail, and on agents beside Spark",
    cases=cases,
    engines=engines,
    rounds=3,
    quick_rounds=3,
    round_s=1.0,
    quick_round_s=0.4,
)
