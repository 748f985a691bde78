"""Kafka at both ends: reading, writing, copying, windows, beside other Python engines and Flink.

One broker (Apache Kafka in KRaft mode) runs beside all engines on the same processors. Records are
JSON of about 78 bytes with a key of 20, 4 partitions, lz4. A call is a whole job over all records
of a topic, with its start and end. `checksum` is that of what plain confluent-kafka and pyarrow
read in the output topic with read_committed. `cpu_s_per_m` are processor seconds of an engine with
all its processes per million rows, `broker_s_per_m` those of the broker meanwhile. `load` is the
machine's, this bench included: rates count for that load only.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness import Benchmark, Case, Engine
from bench.kafka import broker

N_ROWS, N_ROWS_QUICK = 4_000_000, 1_000_000
RECORD_BYTES = 98
OURS = {"read json": "read_run", "exactly-once copy": "copy_run"}


def cases(quick: bool) -> Sequence[Case]:
    """Every job, over the same records."""
    rows = N_ROWS_QUICK if quick else N_ROWS
    return [Case(name, rows, rows * RECORD_BYTES) for name in OURS]


def engines(case: Case) -> Sequence[Engine]:
    """Ours; the broker is started, so that all find it."""
    broker.start()
    return [Engine(None, f"bench.kafka.runs:{OURS[case.name]}")]


BENCHMARK = Benchmark(
    name="kafka",
    about="topics read, written and copied exactly once, beside the same broker",
    cases=cases,
    engines=engines,
    rounds=5,
    quick_rounds=3,
    round_s=0.1,
)
