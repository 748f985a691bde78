"""Kafka at both ends: reading, writing, copying, windows, beside other Python engines.

One broker (Apache Kafka in KRaft mode) runs beside all engines on the same processors. Records are
JSON of about 78 bytes with a key of 20, 4 partitions, lz4. A call is a whole job over all records
of a topic, with its start and end. `checksum` is that of what plain confluent-kafka and pyarrow
read in the output topic with read_committed. `cpu_s_per_m` are processor seconds of an engine with
all its processes per million rows, `broker_s_per_m` those of the broker meanwhile. `load` is the
machine's, this bench included: rates count for that load only.

Peers in Python are slower, so they take in the first 200,000 rows, Faust one row of 200; what they
write is compared with what is right for these. A stream engine of Python runs in a process and an
environment of its own, anew each time, and is timed from its first row on. Flink SQL takes in all
rows, in a virtual machine that has run the same job before; it is timed from its first row on, too.
`confluent-kafka` is a plain loop with `json` or fastavro. "two agents" is Fabric with a coordinator
and agents on this machine. Everybody commits each second. In "latency" the pace is kept by a
program beside the engine and read by another; `p99_intervals` are intervals of a second.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness import Benchmark, Case, Engine
from bench.kafka import broker
from bench.kafka.pacer import RATE

N_ROWS, N_ROWS_QUICK = 4_000_000, 1_000_000
RECORD_BYTES = 98
CASES = {
    "read json": "read_json_run",
    "read avro": "read_avro_run",
    "write json": "write_json_run",
    "exactly-once copy": "copy_run",
    "exactly-once window": "window_run",
}
LATENCY = "latency at 10 K/s"
SECONDS, SECONDS_QUICK = 30, 6
_RUNS, _PYTHON, _PEERS = "bench.kafka.runs", "bench.kafka.python_engine", "bench.kafka.peers"
_FLINK, _LATE = "bench.kafka.flink_engine", "bench.kafka.late"
_PEERS_OF = {
    "exactly-once copy": {
        "two agents": f"{_RUNS}:agents_copy_run",
        "flink": f"{_FLINK}:copy_run",
        "quix": f"{_PEERS}:quix_run",
        "quix at least once": f"{_PEERS}:quix_at_least_once_run",
        "faust, at least once": f"{_PEERS}:faust_run",
        "bytewax, no guarantee": f"{_PEERS}:bytewax_run",
    },
    "exactly-once window": {"flink": f"{_FLINK}:window_run"},
}
_LATENCIES = {
    None: "at_least_once_run",
    "exactly once": "exactly_once_run",
    "quix": "quix_at_least_once_run",
    "quix exactly once": "quix_exactly_once_run",
}


def cases(quick: bool) -> Sequence[Case]:
    """Every job, over the same records."""
    rows = N_ROWS_QUICK if quick else N_ROWS
    found = [Case(name, rows, rows * RECORD_BYTES, {"quick": quick}) for name in CASES]
    rows = RATE * (SECONDS_QUICK if quick else SECONDS)
    return [*found, Case(LATENCY, rows, rows * RECORD_BYTES)]


def engines(case: Case) -> Sequence[Engine]:
    """Ours and the peers of a case; the broker is started, so that all find it."""
    broker.start()
    if case.name == LATENCY:
        return [Engine(peer, f"{_LATE}:{function}") for peer, function in _LATENCIES.items()]
    function = CASES[case.name]
    peers = _PEERS_OF.get(case.name, {"confluent-kafka": f"{_PYTHON}:{function}"})
    ours = Engine(None, f"{_RUNS}:{function}")
    return [ours, *(Engine(peer, factory) for peer, factory in peers.items())]


BENCHMARK = Benchmark(
    name="kafka",
    about="topics read, written and copied exactly once, beside the same broker",
    cases=cases,
    engines=engines,
    rounds=3,
    quick_rounds=1,
    timeout_s=900.0,  # Flink is installed the first time
    round_s=0.1,
)
