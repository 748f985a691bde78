"""Jobs while their coordinator is killed or frozen, or its database is away: they go on.

Two coordinators over one PostgreSQL and two agents, all processes. A job waits at a gate meanwhile,
so that it is known to run; nothing it has done is done again.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import fabric
from fabric import col
from fabric.control.client import GrpcControl
from fabric.coordinator.runtime import driver
from fabric.errors import ExternalError, StorageError
from fabric.plan.nodes import Plan, Sink
from fabric.testing import Gate
from tests.support.local import Child, LocalFabric
from tests.support.postgres import PostgresServer
from tests.support.wait import wait_until

TABLE = pa.table({"k": range(5_000), "v": [n % 7 for n in range(5_000)]})
PREFIX = "coordinator listening on "
pytestmark = pytest.mark.timeout(240)


@dataclass(slots=True)
class Pair(LocalFabric):
    """A fabric with two coordinators; `address` names both."""

    both: tuple[Child, ...] = ()

    def start_coordinator(self) -> None:
        both, addresses = [], []
        for number in range(2):
            arguments = ["coordinator", "--home", str(self.home), "--port", "0"]
            child = self._spawn(f"coordinator {number}", arguments, self.home / str(number))
            self._until(lambda child=child: child.said(PREFIX), "no coordinator", [child])
            both.append(child)
            addresses.append(child.said(PREFIX) or "")
        self.both, self.address = tuple(both), ",".join(addresses)
        self.control = GrpcControl(self.address, self.token)

    def stop(self) -> None:
        for child in self.both:
            child.process.send_signal(signal.SIGCONT)
        LocalFabric.stop(self)
        for child in self.both:
            child.process.kill()
            child.process.wait()

    def leaders(self) -> list[int]:
        """The numbers of those that live and said last that they lead."""
        ended = [child.log.read_text().count("term ends") for child in self.both]
        return [
            number
            for number, child in enumerate(self.both)
            if self.epochs(number) > ended[number] and child.process.poll() is None
        ]

    def epochs(self, number: int) -> int:
        """How many terms it had."""
        return self.both[number].log.read_text().count("term begins")


@pytest.fixture
def timeout_s() -> float:
    """How long agents may be silent: longer than the election of another leader takes anywhere."""
    return 30.0


@pytest.fixture
def faults() -> dict[str, str]:
    """Failpoints by process."""
    return {}


@pytest.fixture
def pair(
    metadata_url: str, tmp_path: Path, timeout_s: float, faults: dict[str, str]
) -> Iterator[Pair]:
    environ = {
        "FABRIC_COORDINATOR_TIMEOUT_S": str(timeout_s),
        "FABRIC_COORDINATOR_METADATA": metadata_url,
        "FABRIC_COORDINATOR_LEASE_S": "10",
        "FABRIC_COORDINATOR_LEASE_GRACE_S": "60",
    }
    running = Pair(tmp_path, 4, environ=environ, faults=faults)
    try:
        running.start(2)
        yield running
    finally:
        running.stop()


@contextmanager
def held(pair: Pair) -> Iterator[tuple[fabric.Session, fabric.Job, Gate]]:
    """A job whose tasks have rows and wait at the gate."""
    with (
        fabric.connect(f"fabric://{pair.address}", token=pair.token) as session,
        Gate() as gate,
    ):
        frame = session.read_arrow(TABLE).exchange("k", n_partitions=2).filter(col("v") >= 0)
        job = session.submit(Plan(Sink(frame.plan.root, gate.target)), parallelism=2)
        wait_until(lambda: job.status.stages[-1].running == 2, 60)
        yield session, job, gate


def goes_on(session: fabric.Session, job: fabric.Job, gate: Gate) -> None:
    """The job ends as if nothing had been, and so does a new one."""
    gate.open()
    job.wait()
    assert job.state == "finished"
    assert job.status.n_attempts == 0, "tasks were run again"
    assert session.read_arrow(TABLE).filter(col("v") == 0).count() == 715


def test_the_leader_is_killed(pair: Pair) -> None:
    with held(pair) as (session, job, gate):
        (leader,) = pair.leaders()
        pair.both[leader].process.kill()
        wait_until(lambda: pair.epochs(1 - leader) > 0, 60)
        goes_on(session, job, gate)


def test_the_leader_is_frozen_and_wakes_up(pair: Pair) -> None:
    with held(pair) as (session, job, gate):
        (leader,) = pair.leaders()
        pair.both[leader].process.send_signal(signal.SIGSTOP)
        wait_until(lambda: pair.epochs(1 - leader) > 0, 60)
        pair.both[leader].process.send_signal(signal.SIGCONT)
        wait_until(lambda: pair.leaders() == [1 - leader], 60)
        goes_on(session, job, gate)


@pytest.mark.parametrize("faults", [{"coordinator 0": "coordinator.job-persisted:1:exit"}])
def test_the_leader_dies_between_writing_a_job_down_and_answering(pair: Pair) -> None:
    """The client asks the next one by the same key, and gets the same job."""
    assert pair.leaders() == [0]
    with fabric.connect(f"fabric://{pair.address}", token=pair.token) as session:
        assert session.read_arrow(TABLE).filter(col("v") == 0).count() == 715
        assert pair.both[0].process.wait(60) == 137
        assert pair.leaders() == [1]
        assert len(session.jobs()) == 1


@pytest.mark.parametrize("timeout_s", [15.0])
def test_the_database_is_away(pair: Pair, postgres: PostgresServer) -> None:
    """A job that is submitted meanwhile waits; then it is said that it can be submitted again."""
    with held(pair) as (session, job, gate):
        (leader,) = pair.leaders()
        frame = session.read_arrow(TABLE).filter(col("v") == 0)
        assert frame.count() == 715
        postgres.stop("immediate")
        try:
            with pytest.raises(StorageError) as caught:
                frame.count()
            assert caught.value.retryable
            assert driver.WRITTEN_S > 15.0, "longer than the lease and than an agent may be silent"
            assert pair.epochs(leader) == 1
            assert len(session.agents()) == 2
        finally:
            postgres.start()
        wait_until(lambda: _counts(frame) == 715, 60)
        goes_on(session, job, gate)
    assert pair.leaders() == [leader]
    assert pair.epochs(leader) == 1, "the leader had to be elected anew"


def _counts(frame: fabric.DataFrame) -> int:
    try:
        return frame.count()
    except ExternalError as error:
        if not error.retryable:
            raise
        return 0
