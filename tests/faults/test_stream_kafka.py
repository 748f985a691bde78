"""A stream into Kafka, exactly once, while agents, coordinator and broker are lost.

F1 of the crash points from a sink's rows being durable to a commit whose answer is lost; F13, the
broker; F16, publishers that wake when others have published. A consumer with read_committed reads
all the while, see `KafkaOrdeal`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import pytest

from tests.services.kafka import KafkaBroker, kafka_broker, own_broker
from tests.support.faults import hit_coordinator, overcome, wait_hit
from tests.support.kafka_ordeal import PARALLELISM, KafkaOrdeal
from tests.support.local import LocalFabric, local_fabric
from tests.support.sampled import SOAK, sampled
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(600)
PATIENCE_S = 120.0
N_ROWS, ROWS_PER_S = (1_000_000, 60_000) if SOAK else (100_000, 12_000)
ROUNDS = 24 if SOAK else 3
POINTS = [
    "stream.sink-prepared", "stream.snapshot-stored", "agent.publishing", "kafka.begun",
    "kafka.flushed", "kafka.committed", "agent.published",
]  # fmt: skip
"""7, 8, 9, 10, 11, 12 of the crash points, and the report that is lost after them."""
COORDINATORS = ["checkpoint.complete", "checkpoint.publishing", "checkpoint.published"]
AGENTS = list(product(POINTS, (1, 2)))
FAULTS = ["agent -9", "agent", "coordinator -9", "broker -9", "broker", "agent 2 -9", "everybody"]
"""What is lost in turn; without -9 it ends by itself, as it is asked to."""


@pytest.fixture(autouse=True, scope="module")
def shared() -> None:
    """The run's broker is there before a test begins, which counts what it leaves."""
    kafka_broker()


@pytest.mark.parametrize(("name", "nth"), sampled(AGENTS, 1, salt="kafka"))
def test_an_agent_dies_at(name: str, nth: int, short: dict[str, str]) -> None:
    faults = {f"agent {i}": f"{name}:{nth}:exit" for i in range(PARALLELISM)}
    with local_fabric(PARALLELISM, slots=1, environ=short, faults=faults) as running:
        ordeal = KafkaOrdeal(running, kafka_broker(), n_rows=100_000, rows_per_s=7_000)
        ordeal.submit()
        victim = wait_hit(running, name, PATIENCE_S)
        assert running.agents[victim].process.wait(30) == 137
        running.restart(victim)
        ordeal.end()


@pytest.mark.soak
@pytest.mark.parametrize("name", POINTS[2:6])
def test_a_publisher_wakes_when_others_have_published(name: str, short: dict[str, str]) -> None:
    """What it had begun is ended by the broker, what it does late changes nothing."""
    faults = {f"agent {i}": f"{name}:2:stop" for i in range(PARALLELISM)}
    with local_fabric(PARALLELISM, slots=2, environ=short, faults=faults) as running:
        ordeal = KafkaOrdeal(running, kafka_broker(), n_rows=100_000, rows_per_s=8_000)
        ordeal.submit()
        zombie = wait_hit(running, name, PATIENCE_S)
        wait_until(lambda: len(running.attached()) < PARALLELISM, PATIENCE_S)
        ordeal.go_on(2, PATIENCE_S)
        running.resume(zombie)
        running.wait_attached()
        ordeal.end()


@pytest.mark.soak
@pytest.mark.parametrize("name", COORDINATORS)
def test_a_coordinator_dies_at(name: str, short: dict[str, str]) -> None:
    with local_fabric(
        PARALLELISM, slots=1, environ=short, faults={"coordinator": f"{name}:2:exit"}
    ) as running:
        ordeal = KafkaOrdeal(running, kafka_broker(), n_rows=100_000, rows_per_s=8_000)
        ordeal.submit()
        wait_until(lambda: hit_coordinator(running, name), PATIENCE_S)
        overcome(running, "exit")
        ordeal.end()


def test_everything_is_lost_in_turn(short: dict[str, str]) -> None:
    """T-EO-1: one job, one consumer, and a fault after each few checkpoints."""
    chosen = [FAULTS[n % len(FAULTS)] for n in range(ROUNDS)] if SOAK else sampled(
        FAULTS[:6], ROUNDS, salt="kafka in turn"
    )  # fmt: skip
    with (
        broker_of_its_own() as broker,
        local_fabric(PARALLELISM, slots=2, environ=short) as running,
    ):
        ordeal = KafkaOrdeal(running, broker, n_rows=N_ROWS, rows_per_s=ROWS_PER_S // 2)
        ordeal.submit()
        for fault in chosen:
            ordeal.go_on(1, PATIENCE_S)
            lose(fault, running, broker)
        ordeal.end(300.0)


@contextmanager
def broker_of_its_own() -> Iterator[KafkaBroker]:
    with own_broker() as broker:
        yield broker


def lose(fault: str, running: LocalFabric, broker: KafkaBroker) -> None:
    """Have one process end, and the next one of its kind take over."""
    what, _, how = fault.partition(" ")
    match what:
        case "agent":
            victim = 1 if "2" in how else 0
            if "-9" in how:
                running.kill(victim)
            else:
                running.terminate(victim)
            running.restart(victim)
        case "coordinator":
            running.kill_coordinator()
            running.start_coordinator()
        case "broker":
            if how:
                broker.kill()
            else:
                broker.stop()
            broker.start()
        case "everybody":
            for victim in range(PARALLELISM):
                running.kill(victim)
            running.kill_coordinator()
            broker.kill()
            broker.start()
            running.agents = []
            running.start_coordinator()
            running.agents = [running.start_agent(i) for i in range(PARALLELISM)]
            running.wait_attached()
