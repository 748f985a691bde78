"""Python's stream engines, each a process of its own environment (homes.py) that copies a topic.

One job: `PeerRun`. A script of this folder copies the first rows of a case, says ``first`` when it
has the first of them and ``done`` when all are written (and committed), each in a line. What is
measured lies in between: neither its imports nor the group's first rebalance count.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

from bench.harness import Answer, Case
from bench.homes import python_of, version_of
from bench.kafka import broker, data
from bench.kafka.runs import Costs, taken_by

INTERVAL_S = 1.0
"""Between two commits."""
_LIMIT_S = 150.0
_LOG = "log"
_ROOT = Path(__file__).resolve().parents[2]


class PeerRun:
    """A copy by a peer; a call of `work` is a new process, so the first call warms nothing."""

    def __init__(self, case: Case, peer: str, **options: str) -> None:
        self._case, self._taken = case, taken_by(peer, case.rows)
        self._broker = broker.found()
        self._peer, self._options = peer, options
        python_of(peer)
        self._input = data.filled(self._broker, case.rows, self._taken)
        self._costs = Costs(self._broker.pid)
        self._topic, self._n_calls, self._seconds = "", 0, 0.0

    def work(self) -> None:
        """One process."""
        self._n_calls += 1
        if self._n_calls == 1:
            return
        self._topic = self._broker.topics.new_topic("out", data.N_PARTITIONS)
        topics = self._input, self._topic
        with copying(self._peer, self._broker, topics, self._taken, self._options) as peer:
            wait_for(peer, "first")
            begun = time.perf_counter()
            self._costs.begin(peer.pid)
            wait_for(peer, "done")
            self._seconds = time.perf_counter() - begun
            self._costs.end(peer.pid)

    def taken_s(self) -> float:
        """From the first row to the last that is written."""
        return self._seconds

    def answer(self) -> Answer:
        """What others read in its topic."""
        rows, checksum = data.summed(data.read_back(self._broker, self._topic))
        extra = {**self._costs.told(self._taken), "version": version_of(self._peer)}
        return Answer(rows, checksum, extra, taken=self._taken)

    def close(self) -> None:
        """Each process has ended."""


@contextmanager
def copying(
    peer: str, kafka: broker.Broker, topics: tuple[str, str], rows: int, options: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A peer's process that copies so many rows of the first topic into the second."""
    asked = {
        "servers": kafka.servers, "topic": topics[0], "out": topics[1], "rows": rows,
        "interval_s": INTERVAL_S, **options,
    }  # fmt: skip
    script = Path(__file__).with_name(f"{peer}_copy.py")
    with started([python_of(peer), "-I", str(script), json.dumps(asked)]) as process:
        yield process


@contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A program in a folder of its own; it ends with the block, or when it takes far too long."""
    with TemporaryDirectory(prefix="fabric-bench-kafka-") as folder:
        with (Path(folder) / _LOG).open("w") as log:
            process = subprocess.Popen(
                command, cwd=folder, text=True, env={**os.environ, "PYTHONPATH": str(_ROOT)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        limit = Timer(_LIMIT_S, process.kill)
        limit.start()
        try:
            yield process
            if process.poll():
                raise RuntimeError(f"it ended with {process.poll()}: {_last_words(folder)}")
        except EOFError as error:
            raise RuntimeError(f"{error}: {_last_words(folder)}") from None
        finally:
            limit.cancel()
            process.kill()
            process.communicate()


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    """Wait for a line that it says; `EOFError` when it ends before."""
    assert process.stdout is not None
    while line := process.stdout.readline():
        if line.strip() == word:
            return
    raise EOFError(f"it ended before {word!r}")


def _last_words(folder: str) -> str:
    return (Path(folder) / _LOG).read_text()[-2_000:]


def quix_run(case: Case) -> PeerRun:
    """Quix Streams, with transactions."""
    return PeerRun(case, "quix", guarantee="exactly-once")


def quix_at_least_once_run(case: Case) -> PeerRun:
    """Quix Streams as it is by default."""
    return PeerRun(case, "quix", guarantee="at-least-once")


def bytewax_run(case: Case) -> PeerRun:
    """Bytewax, whose sink has no transactions; without recovery, nothing is known after a crash."""
    return PeerRun(case, "bytewax")


def faust_run(case: Case) -> PeerRun:
    """Faust, which sends what belongs to offsets before it commits them."""
    return PeerRun(case, "faust")
