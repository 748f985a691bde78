"""Rows from everywhere to the owner of their key: Fabric's agents beside other engines' workers.

10 M rows of k (1 M values), v: int64, w: float64 (`--quick`), and 50 M; "strings" adds a text of 12
characters. Each engine holds the rows in memory or mapped files beforehand, shuffles all of them by
k into as many partitions as it has workers, and sums what arrived. The answer holds rows, sums and
the different keys of each partition: their total is that of all keys only when every key lies in
one partition. Engines start as processes of their own.

`wire` and `wire strangers`: 1 MiB batches from one agent process to another agent, or to a foreign
client, which validates all of them; the peer is pyarrow's `do_get` of the same (see `wire.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import wire
from bench.harness import Benchmark, Case, Engine

N_ROWS, N_ROWS_QUICK = 50_000_000, 10_000_000
BYTES_A_ROW, BYTES_A_STRING = 24, 17
PEERS = {
    "dask p2p": "dask_engine:run",
    "ray data": "ray_engine:run",
    "daft ray": "daft_engine:run",
    "spark local[2]": "spark_engine:local_run",
    "spark local-cluster": "spark_engine:cluster_run",
}
FRESH = {"daft ray"}
"""Daft's runner can be chosen once in a process."""


def cases(quick: bool) -> Sequence[Case]:
    """Plain rows and strings, on 2 and 4 agents (quick: strings on 2); and the wire alone."""
    found = []
    for rows in (N_ROWS_QUICK,) if quick else (N_ROWS_QUICK, N_ROWS):
        for strings in (False, True):
            for workers in (2, 4):
                name = f"{rows // 1_000_000}M{' strings' if strings else ''}, {workers} agents"
                size = BYTES_A_ROW + (BYTES_A_STRING if strings else 0)
                if quick and strings and workers > 2:
                    continue
                parameters = {"workers": workers, "strings": strings}
                found.append(Case(name, rows, rows * size, parameters))
    total = wire.TOTAL_QUICK if quick else wire.TOTAL
    pairs = {"wire": "agents", "wire strangers": "strangers"}
    return [
        *found,
        *(wire.wire_case(name, kind, 1 << 20, total, 2) for name, kind in pairs.items()),
    ]


def engines(case: Case) -> Sequence[Engine]:
    """Ours and all peers."""
    if "kind" in case.parameters:
        return wire.engines(case)
    ours = Engine(None, "bench.shuffling.fabric_engine:run")
    peers = (
        Engine(name, f"bench.shuffling.{at}", fresh=name in FRESH) for name, at in PEERS.items()
    )
    return [ours, *peers]


BENCHMARK = Benchmark(
    name="shuffle",
    about="all rows to the owners of their keys, beside Dask, Ray, Daft and Spark",
    cases=cases,
    engines=engines,
    rounds=3,
    quick_rounds=2,
    round_s=2.0,
    quick_round_s=1.0,
)
