"""How late a record is behind a copy, at 10,000 records a second.

One job: `LatencyRun`. A program sends records with the time at which it does (pacer.py), an engine
copies them, decoded and encoded, and another program reads the output with read_committed. Both
guarantees are engines of the same case. Exactly once, rows wait for their checkpoint: their p99 is
also told in intervals of checkpoints, which are a second.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.harness import Answer, Case
from bench.kafka import broker, data, pacer
from bench.kafka.peers import INTERVAL_S, copying, started, wait_for
from bench.kafka.runs import Costs, connected, records_of, write

if TYPE_CHECKING:
    from fabric.plan.targets import Guarantee

Engine = Callable[[str, str, int], AbstractContextManager[int]]
"""Copies so many rows of a topic into another meanwhile; gives its process."""


def n_rows_of(case: Case) -> int:
    """Those that are measured, the warm-up, and the first."""
    return case.rows + int(pacer.RATE * pacer.WARM_S) + 1


class LatencyRun:
    """A call of `work` copies the records of a case at their pace; the first one warms.

    An engine that is a new process each time has nothing to warm, and no `stack` to close.
    """

    def __init__(self, case: Case, engine: Engine, stack: ExitStack | None = None) -> None:
        self._case, self._engine, self._stack = case, engine, stack
        self._broker = broker.found()
        self._costs = Costs(self._broker.pid)
        self._n_calls = 0
        self._told: dict[str, Any] = {}

    def work(self) -> None:
        """One job, until the last record has come through."""
        self._n_calls += 1
        rows = n_rows_of(self._case)
        if self._n_calls == 1:
            if self._stack is None:
                return
            rows = int(pacer.RATE * (pacer.WARM_S + 0.5))
        topics = self._broker.topics
        source, out = (topics.new_topic(name, data.N_PARTITIONS) for name in ("in", "out"))
        with ExitStack() as stack:
            consumer, producer = (
                stack.enter_context(started([*_PROGRAM, name, self._broker.servers, at, str(rows)]))
                for name, at in (("consume", out), ("produce", source))
            )
            pid = stack.enter_context(self._engine(source, out, rows))
            wait_for(consumer, "first")
            self._costs.begin(pid)
            assert producer.stdin is not None
            assert consumer.stdout is not None
            producer.stdin.write("go\n")
            producer.stdin.flush()
            line = consumer.stdout.readline()
            self._costs.end(pid)
            if not line:
                raise EOFError("the records did not come through")
        self._told = json.loads(line)

    def answer(self) -> Answer:
        """Percentiles, and that each record came once."""
        told = dict(self._told)
        rows, checksum = told.pop("rows"), told.pop("checksum")
        told["p99_intervals"] = round(told["p99_ms"] / 1e3 / INTERVAL_S, 2)
        return Answer(rows, checksum, {**told, **self._costs.told(n_rows_of(self._case))})

    def close(self) -> None:
        """Stop what was started."""
        if self._stack is not None:
            self._stack.close()


_PROGRAM = (sys.executable, "-m", "bench.kafka.pacer")


def at_least_once_run(case: Case) -> LatencyRun:
    """Rows are sent as they come."""
    return _ours(case, "at_least_once")


def exactly_once_run(case: Case) -> LatencyRun:
    """Rows are published when their checkpoint is complete."""
    return _ours(case, "exactly_once")


def quix_at_least_once_run(case: Case) -> LatencyRun:
    """Quix Streams as it is by default."""
    return LatencyRun(case, _quix("at-least-once"))


def quix_exactly_once_run(case: Case) -> LatencyRun:
    """Quix Streams, with transactions."""
    return LatencyRun(case, _quix("exactly-once"))


def _ours(case: Case, guarantee: Guarantee) -> LatencyRun:
    session, kafka, stack = connected()

    @contextmanager
    def copied(source: str, out: str, _rows: int) -> Iterator[int]:
        records = records_of(session, kafka, source, until="")
        with write(records, kafka, out, "key", guarantee=guarantee) as job:
            yield os.getpid()
            job.cancel()

    return LatencyRun(case, copied, stack)


def _quix(guarantee: str) -> Engine:
    return partial(_copied_by, "quix", guarantee)


@contextmanager
def _copied_by(peer: str, guarantee: str, source: str, out: str, rows: int) -> Iterator[int]:
    options = {"guarantee": guarantee}
    with copying(peer, broker.found(), (source, out), rows, options) as process:
        yield process.pid
