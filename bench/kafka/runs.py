"""Fabric's jobs over topics: in this process (a session of its own), or on agents.

One job: a factory a case. Every call of `work` is a whole job, with its start and end, into a new
topic; what is told of processors is the median of those behind the first. Checkpoints, and so
transactions, come each second.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.harness import Answer, BenchError, Case
from bench.kafka import broker, data
from bench.latencies.windows import cpu_s

if TYPE_CHECKING:
    import fabric
    from fabric import DataFrame

CALLS = 4
"""Topics that are made before anything is measured."""
_CHECKPOINTS = {"FABRIC_CHECKPOINT_INTERVAL_S": "1"}
_MEGA = 1e6


class Costs:
    """Processor seconds of an engine, and of the broker meanwhile, per million rows."""

    def __init__(self, broker_pid: int) -> None:
        self._broker = broker_pid
        self._found: list[tuple[float, float]] = []
        self._before = (0.0, 0.0)

    def begin(self, pid: int) -> None:
        """Take what process `pid`, with all it started, has used before."""
        self._before = cpu_s([pid]), cpu_s([self._broker])

    def end(self, pid: int) -> None:
        """Count what was used since then."""
        own, brokers = self._before
        self._found.append((cpu_s([pid]) - own, cpu_s([self._broker]) - brokers))

    def told(self, n_rows: int) -> dict[str, float]:
        """Fields of a line: the medians, without the first call where there are more."""
        kept = self._found[1:] or self._found
        own, brokers = (
            statistics.median(part) / n_rows * _MEGA for part in zip(*kept, strict=True)
        )
        load = round(os.getloadavg()[0], 1)
        return {"cpu_s_per_m": round(own, 2), "broker_s_per_m": round(brokers, 2), "load": load}


class KafkaRun:
    """A job of a case: `job` takes the name of an output topic, whether or not it writes there."""

    def __init__(
        self,
        case: Case,
        job: Callable[[str], Any],
        found: Callable[[str], pa.Table],
        stack: ExitStack,
    ) -> None:
        self._case, self._job, self._found, self._stack = case, job, found, stack
        self._broker = broker.found()
        self._costs = Costs(self._broker.pid)
        self._topics = [self._new_topic() for _ in range(CALLS)]
        self._topic = ""

    def work(self) -> None:
        """One job."""
        self._topic = self._topics.pop() if self._topics else self._new_topic()
        self._costs.begin(os.getpid())
        self._job(self._topic)
        self._costs.end(os.getpid())

    def answer(self) -> Answer:
        """What others read, and what it cost."""
        rows, checksum = data.summed(self._found(self._topic))
        return Answer(rows, checksum, self._costs.told(self._case.rows))

    def close(self) -> None:
        """Stop what was started."""
        self._stack.close()

    def _new_topic(self) -> str:
        return self._broker.topics.new_topic("out", data.N_PARTITIONS)


def copy_run(case: Case) -> KafkaRun:
    """Topic to topic, decoded and encoded, exactly once."""
    return _run(case, _copy)


def read_run(case: Case) -> KafkaRun:
    """All columns of all records, as batches in the caller's hands."""
    return _run(case, _read, _collected)


def _run(case: Case, job: Any, found: Any = None) -> KafkaRun:
    import fabric

    os.environ.update(_CHECKPOINTS)
    stack, kafka = ExitStack(), broker.found()
    session = stack.enter_context(fabric.connect())
    topic = data.filled(kafka, case.rows)

    def work(out: str) -> None:
        job(_records(session, kafka, topic), kafka, out, case)

    def answer(out: str) -> pa.Table:
        if found is None:
            return data.read_back(kafka, out)
        return found(_records(session, kafka, topic))

    return KafkaRun(case, work, answer, stack)


def _records(session: fabric.Session, kafka: broker.Broker, topic: str) -> DataFrame:
    import fabric

    return fabric.read_kafka(
        topic, servers=kafka.servers, schema=data.SCHEMA, key="key", until="now", session=session
    )


def _copy(records: DataFrame, kafka: broker.Broker, out: str, _case: Case) -> None:
    records.write_kafka(out, servers=kafka.servers, key="key", settings=data.COMPRESSION)


def _read(records: DataFrame, _kafka: broker.Broker, _out: str, case: Case) -> None:
    n_rows = sum(batch.num_rows for batch in records.iter_batches())
    if n_rows != case.rows:
        raise BenchError(f"{n_rows} of {case.rows} rows came")


def _collected(records: DataFrame) -> pa.Table:
    return pa.Table.from_batches(list(records.iter_batches()))
