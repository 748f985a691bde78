"""A stream into Kafka, exactly once, while agents, coordinator and broker are lost.

F1 of the crash points from a sink's rows being durable to a commit whose answer is lost; F13, the
broker, and in the soak each of three; F16, publishers that wake when others have published. A
consumer with read_committed reads all the while, see `KafkaOrdeal`.
"""

from __future__ import annotations

import time
from itertools import product

import pytest

from tests.services.kafka import KafkaBroker, kafka_broker, own_broker, three_brokers
from tests.services.topics import Topics
from tests.support.faults import hit_coordinator, overcome, wait_hit
from tests.support.kafka_ordeal import PARALLELISM, KafkaOrdeal
from tests.support.local import LocalFabric, local_fabric
from tests.support.sampled import SOAK, sampled
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(1500 if SOAK else 600)
PATIENCE_S, HANGS_S = 120.0, 45.0
N_ROWS, ROWS_PER_S = (1_000_000, 2_500) if SOAK else (60_000, 6_000)
POINTS = [
    "stream.sink-prepared", "stream.snapshot-stored", "agent.publishing", "kafka.begun",
    "kafka.flushed", "kafka.committed", "agent.published",
]  # fmt: skip
"""7, 8, 9, 10, 11, 12 of the crash points, and the report that is lost after them."""
COORDINATORS = ["checkpoint.complete", "checkpoint.publishing", "checkpoint.published"]
AGENTS = list(product(POINTS, (1, 2)))
FAULTS = [
    "agent 0 -9", "broker 0 -9", "coordinator -9", "agent 1", "broker 1", "coordinator",
    "everybody", "broker 2 -9", "agent 1 -9", "broker 0", "agent 0", "broker 1 -9",
]  # fmt: skip
"""What is lost in turn; without -9 it ends by itself, as it is asked to."""
SOME = [
    fault
    for what in ("agent", "broker", "coordinator")
    for fault in sampled([one for one in FAULTS if one.startswith(what)], 1, salt=f"in turn {what}")
]
"""One of each kind."""


@pytest.fixture(autouse=True, scope="module")
def shared() -> None:
    """The run's broker is there before a test begins, which counts what it leaves."""
    kafka_broker()


@pytest.mark.parametrize(("name", "nth"), sampled(AGENTS, 1, salt="kafka"))
def test_an_agent_dies_at(name: str, nth: int, short: dict[str, str]) -> None:
    faults = {f"agent {i}": f"{name}:{nth}:exit" for i in range(PARALLELISM)}
    with local_fabric(PARALLELISM, slots=1, environ=short, faults=faults) as running:
        with running.held():
            ordeal = KafkaOrdeal(running, kafka_broker(), n_rows=50_000, rows_per_s=7_000)
            ordeal.submit()
            victim = wait_hit(running, name, PATIENCE_S)
            assert running.agents[victim].process.wait(60) == 137
            running.restart(victim)
        ordeal.end()


@pytest.mark.soak
@pytest.mark.parametrize("name", POINTS)
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


@pytest.mark.soak
@pytest.mark.parametrize(("name", "how"), [*product(POINTS[3:6], ("clean", "-9", "hangs"))])
def test_a_broker_is_lost_amid(name: str, how: str, short: dict[str, str]) -> None:
    """F13: the one broker, so that of the transaction, too; it hangs longer than a publish may."""
    faults = {f"agent {i}": f"{name}:2:sleep=4" for i in range(PARALLELISM)}
    with (
        own_broker() as broker,
        local_fabric(PARALLELISM, slots=2, environ=short, faults=faults) as running,
    ):
        ordeal = KafkaOrdeal(running, broker, n_rows=100_000, rows_per_s=4_000)
        ordeal.submit()
        wait_hit(running, name, PATIENCE_S)
        match how:
            case "clean":
                broker.stop()
                broker.start()
            case "-9":
                broker.kill()
                broker.start()
            case _:
                broker.pause()
                time.sleep(HANGS_S)
                broker.resume()
        ordeal.go_on(2, PATIENCE_S)
        ordeal.check_runs()
        ordeal.end()


def test_everything_is_lost_in_turn(short: dict[str, str]) -> None:
    """T-EO-1: one job, one consumer, and a fault after every checkpoint.

    Agents read ahead while no broker is there, so on a slow machine a job may end before all
    faults have come; the next fault then meets a new one.
    """
    chosen = FAULTS * 2 if SOAK else SOME
    with (
        three_brokers() if SOAK else own_broker() as kafka,
        local_fabric(PARALLELISM, slots=2, environ=short) as running,
    ):
        brokers = [kafka] if isinstance(kafka, KafkaBroker) else kafka.brokers
        ordeal = begun(running, kafka)
        for fault in chosen:
            ordeal.go_on(1, PATIENCE_S)
            if ordeal.ended():
                ordeal.end()
                ordeal = begun(running, kafka)
                ordeal.go_on(1, PATIENCE_S)
            began_s = time.monotonic()
            lose(fault, running, brokers)
            print(f"{fault}: back after {time.monotonic() - began_s:.1f} s", flush=True)
        ordeal.end(N_ROWS / ROWS_PER_S + 300.0)  # faults may be over before its rows are
        print(f"{len(chosen)} faults")


def begun(running: LocalFabric, kafka: Topics) -> KafkaOrdeal:
    ordeal = KafkaOrdeal(running, kafka, n_rows=N_ROWS, rows_per_s=ROWS_PER_S)
    ordeal.submit()
    return ordeal


def lose(fault: str, running: LocalFabric, brokers: list[KafkaBroker]) -> None:
    """Have one process end, and the next one of its kind take over."""
    what, *which = fault.removesuffix(" -9").split()
    number, crash = int(which[0]) if which else 0, fault.endswith("-9")
    match what:
        case "agent":
            if crash:
                running.kill(number)
            else:
                running.terminate(number)
            running.restart(number)
        case "coordinator":
            running.kill_coordinator() if crash else running.stop_coordinator()
            running.start_coordinator()
        case "broker":
            broker = brokers[number % len(brokers)]
            broker.kill() if crash else broker.stop()
            broker.start()
        case "everybody":
            for victim in range(PARALLELISM):
                running.kill(victim)
            running.kill_coordinator()
            for broker in brokers:
                broker.kill()
            for broker in brokers:
                broker.start(wait=False)
            for broker in brokers:
                broker.wait()
            running.agents = []
            running.start_coordinator()
            running.agents = [running.start_agent(i) for i in range(PARALLELISM)]
            running.wait_attached()
