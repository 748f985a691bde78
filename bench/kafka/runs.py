"""Fabric's jobs over topics, in this process and on agents, and what a run of any engine is.

One job: a factory a case. Every call of `work` is a whole job, with its start and end, into a new
topic; what is told of processors is the median of those behind the first. Checkpoints, and so
transactions, come each second.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.harness import Answer, BenchError, Case
from bench.kafka import broker, data
from bench.latencies.windows import cpu_s
from bench.made import made, write_arrow

if TYPE_CHECKING:
    from fabric import DataFrame, Job
    from fabric.clients.session.session import Session
    from fabric.plan.sources import Until
    from fabric.plan.targets import Guarantee

CALLS = 4
"""Topics that are made before anything is measured."""
TAKEN = 200_000
"""How many rows slow engines take in, of cases whose output has the rows of the input."""
_FAUST_SHARE = 200
"""It takes in one row of so many: a few thousand a second are all it has."""
N_AGENTS = 2
_CHECKPOINTS = {"FABRIC_CHECKPOINT_INTERVAL_S": "1"}
_MEGA = 1e6


def taken_by(peer: str, n_rows: int) -> int:
    """How many of so many rows a peer takes in."""
    return n_rows // _FAUST_SHARE if peer == "faust" else min(TAKEN, n_rows)


class Costs:
    """Processor seconds of an engine, and of the broker meanwhile, per million rows."""

    def __init__(self, broker_pid: int) -> None:
        self._broker = broker_pid
        self._found: list[tuple[float, float]] = []
        self._before = (0.0, 0.0)

    def begin(self, *pids: int) -> None:
        """Note what processes, with all they started, have used before."""
        self._before = cpu_s(pids), cpu_s([self._broker])

    def end(self, *pids: int) -> None:
        """Count what was used since then."""
        own, brokers = self._before
        self._found.append((cpu_s(pids) - own, cpu_s([self._broker]) - brokers))

    def told(self, n_rows: int) -> dict[str, float]:
        """Fields of a line: the medians, without the first call where there are more."""
        kept = self._found[1:] or self._found
        own, brokers = (
            statistics.median(part) / n_rows * _MEGA for part in zip(*kept, strict=True)
        )
        load = round(os.getloadavg()[0], 1)
        return {"cpu_s_per_m": round(own, 2), "broker_s_per_m": round(brokers, 2), "load": load}


class KafkaRun:
    """A job: `job` takes the name of an output topic, whether or not it writes.

    `found` gives the table that is compared; an engine that is slow takes in `taken` rows. `others`
    are the processes that work for it, beside this one.
    """

    def __init__(
        self,
        case: Case,
        job: Callable[[str], object],
        found: Callable[[str], pa.Table],
        stack: ExitStack,
        taken: int = 0,
        *,
        others: Sequence[int] = (),
    ) -> None:
        self._case, self._job, self._found, self._stack = case, job, found, stack
        self._taken, self._pids = taken, (os.getpid(), *others)
        self._broker = broker.found()
        self._costs = Costs(self._broker.pid)
        self._topics = [self._new_topic() for _ in range(CALLS)]
        self._topic = ""

    def work(self) -> None:
        """One job."""
        self._topic = self._topics.pop() if self._topics else self._new_topic()
        self._costs.begin(*self._pids)
        self._job(self._topic)
        self._costs.end(*self._pids)

    def answer(self) -> Answer:
        """What others read, and what it cost."""
        rows, checksum = data.summed(self._found(self._topic))
        extra = self._costs.told(self._taken or self._case.rows)
        if self._taken:
            return Answer(rows, checksum, extra, taken=self._taken)
        parts = check(self._case, (rows, checksum))
        return Answer(rows, checksum, extra, parts=parts)

    def close(self) -> None:
        """Stop what was started."""
        self._stack.close()

    def _new_topic(self) -> str:
        return self._broker.topics.new_topic("out", data.N_PARTITIONS)


def check(case: Case, found: tuple[int, str]) -> dict[int, tuple[int, str]]:
    """What is right for fewer rows; raises unless `found` is what is right for all."""
    if case.name == "exactly-once window":
        right, parts = data.summed(data.windows(case.rows)), {}
    else:
        right = data.summed(data.rows(case.rows))
        takens = {taken_by(peer, case.rows) for peer in ("", "faust")}
        parts = {taken: data.summed(data.rows(case.rows, taken)) for taken in takens}
    if found != right:
        raise BenchError(f"it gives {found[0]} rows, checksum {found[1]}; right are {right}")
    return parts


def read_json_run(case: Case) -> KafkaRun:
    """All columns of all records, as batches in the caller's hands."""
    return _reading(case, avro=False)


def read_avro_run(case: Case) -> KafkaRun:
    """The same of records in Avro, by a schema that all of them have."""
    return _reading(case, avro=True)


def write_json_run(case: Case) -> KafkaRun:
    """Rows of an Arrow file as records, in one transaction."""
    session, kafka, stack = connected()
    folder = made("kafka", f"rows-{case.rows}", lambda at: _write_rows(at, case.rows))
    rows = session.read_ipc(str(folder / "rows.arrow"))
    return KafkaRun(
        case, lambda out: write(rows, kafka, out, "key"),
        lambda out: data.read_back(kafka, out), stack,
    )  # fmt: skip


def copy_run(case: Case) -> KafkaRun:
    """Topic to topic, decoded and encoded, exactly once."""
    session, _, stack = connected()
    return _copying(case, session, stack)


def agents_copy_run(case: Case) -> KafkaRun:
    """The same on a coordinator and two agents, warm."""
    import fabric
    from tests.support.local import local_fabric

    stack = ExitStack()
    local = stack.enter_context(local_fabric(N_AGENTS, environ=_CHECKPOINTS))
    session = stack.enter_context(fabric.connect(f"fabric://{local.address}", token=local.token))
    children = (child for child in (local.coordinator, *local.agents) if child is not None)
    return _copying(case, session, stack, [child.process.pid for child in children])


def _copying(
    case: Case, session: Session, stack: ExitStack, others: Sequence[int] = ()
) -> KafkaRun:
    kafka = broker.found()
    topic = data.filled(kafka, case.rows)

    def copy(out: str) -> None:
        write(records_of(session, kafka, topic), kafka, out, "key")

    return KafkaRun(case, copy, lambda out: data.read_back(kafka, out), stack, others=others)


def window_run(case: Case) -> KafkaRun:
    """Counts and sums by user and ten seconds, exactly once."""
    import fabric

    session, kafka, stack = connected()
    topic = data.filled(kafka, case.rows)

    def count(out: str) -> None:
        records = fabric.read_kafka(
            topic, servers=kafka.servers, schema={**data.SCHEMA, "ts": "timestamp[ms]"},
            until="now", session=session,
        )  # fmt: skip
        grouped = records.with_watermark("ts", "1 second").group_by("user").window("10 seconds")
        counted = grouped.agg(fabric.count().alias("n"), fabric.sum("amount").alias("total"))
        write(counted.select(*data.WINDOW_COLUMNS), kafka, out, "user")

    return KafkaRun(case, count, lambda out: data.read_windows(kafka, out), stack)


def _reading(case: Case, *, avro: bool) -> KafkaRun:
    session, kafka, stack = connected()
    topic = data.filled(kafka, case.rows, avro=avro)

    def read(_out: str) -> None:
        batches = records_of(session, kafka, topic, avro=avro).iter_batches()
        n_rows = sum(batch.num_rows for batch in batches)
        if n_rows != case.rows:
            raise BenchError(f"{n_rows} of {case.rows} rows came")

    def collected(_out: str) -> pa.Table:
        return pa.Table.from_batches(
            list(records_of(session, kafka, topic, avro=avro).iter_batches())
        )

    return KafkaRun(case, read, collected, stack)


def connected() -> tuple[Session, broker.Broker, ExitStack]:
    """A session of this process, and the broker."""
    import fabric

    os.environ.update(_CHECKPOINTS)
    stack = ExitStack()
    return stack.enter_context(fabric.connect()), broker.found(), stack


def records_of(
    session: Session, kafka: broker.Broker, topic: str, *, avro: bool = False, until: Until = "now"
) -> DataFrame:
    """The records of a topic with their keys."""
    import fabric
    from fabric import formats

    how: Any = {"format": formats.avro(data.AVRO)} if avro else {"schema": data.SCHEMA}
    return fabric.read_kafka(
        topic, servers=kafka.servers, key="key", until=until, session=session, **how
    )


def write(
    rows: DataFrame, kafka: broker.Broker, out: str, key: str, guarantee: Guarantee = "exactly_once"
) -> Job:
    """Write rows as JSON; a column "key" is no part of the value."""
    columns = [name for name in rows.columns if name != "key"]
    return rows.write_kafka(
        out, servers=kafka.servers, key=key, columns=columns, guarantee=guarantee,
        settings=data.COMPRESSION,
    )  # fmt: skip


def _write_rows(folder: os.PathLike[str], n_rows: int) -> None:
    from pathlib import Path

    write_arrow(Path(folder) / "rows.arrow", data.rows(n_rows))
