"""The disk of a Kafka broker is full: it goes down in the middle of a job that copies exactly once.

One that is alone is waited for, by name, until there is room again and it is started; of three the
others take over. Each row is there once, whatever was half written (see `KafkaOrdeal`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.kafka import KafkaBroker, own_broker, three_brokers
from tests.support.disk import mounted
from tests.support.kafka_ordeal import PARALLELISM, KafkaOrdeal
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(600)
PATIENCE_S = 120.0
N_ROWS, ROWS_PER_S = 80_000, 7_000
LEFT_BYTES = 64 << 10
"""Less than what the job has still to write when the disk is filled."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """One of 64 MB (tests run as root)."""
    with mounted(tmp_path / "disk", "size=64m") as folder:
        yield folder


def fill(disk: Path) -> Path:
    """A file that leaves little room: it is the job's own records that don't fit any more.

    The broker goes on writing meanwhile, so there may be no room left before the file is whole.
    """
    room, filler = os.statvfs(disk), disk / "filler"
    try:
        filler.write_bytes(bytes(room.f_bavail * room.f_frsize - LEFT_BYTES))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    return filler


def wait_for_its_end(broker: KafkaBroker) -> None:
    """Until it has found its disk full and has given up; what its keeper holds is let go."""
    wait_until(lambda: not broker.running, PATIENCE_S)
    broker.kill()
    assert "No space left on device" in broker.log()


def said(running: LocalFabric, *events: str) -> int:
    """How often an agent or the coordinator has said one of these."""
    assert running.coordinator is not None
    logs = [child.log.read_text() for child in (*running.agents, running.coordinator)]
    return sum(log.count(f'"event": "{event}"') for log in logs for event in events)


@pytest.mark.parametrize("n_refused", [0, pytest.param(3, marks=pytest.mark.soak)])
def test_a_job_waits_until_there_is_room(n_refused: int, short: dict[str, str], disk: Path) -> None:
    """The transaction's time must not be over then: while it starts, Kafka 4 forgets to abort in
    partitions that have no leader yet, and whoever commits next commits what lies there, too."""
    with (
        own_broker(data=disk) as broker,
        local_fabric(PARALLELISM, slots=2, environ=short) as running,
    ):
        ordeal = KafkaOrdeal(
            running, broker, n_rows=N_ROWS, rows_per_s=ROWS_PER_S, transaction_timeout="10 minutes"
        )
        ordeal.submit()
        ordeal.go_on(2, PATIENCE_S)
        filler = fill(disk)
        wait_for_its_end(broker)
        wait_until(
            lambda: said(running, "the Kafka client reported an error", "not published"), PATIENCE_S
        )
        wait_until(lambda: said(running, "not published") >= n_refused, PATIENCE_S)
        ordeal.check_runs()
        filler.unlink()
        broker.start()
        ordeal.end()


@pytest.mark.soak
def test_a_job_goes_on_with_the_other_brokers(short: dict[str, str], disk: Path) -> None:
    with (
        three_brokers(data={1: disk}) as kafka,
        local_fabric(PARALLELISM, slots=2, environ=short) as running,
    ):
        ordeal = KafkaOrdeal(running, kafka, n_rows=2 * N_ROWS, rows_per_s=ROWS_PER_S // 2)
        ordeal.submit()
        ordeal.go_on(2, PATIENCE_S)
        filler = fill(disk)
        wait_for_its_end(kafka.brokers[0])
        ordeal.go_on(3, PATIENCE_S)
        ordeal.check_runs()
        filler.unlink()
        kafka.brokers[0].start()
        ordeal.end()
