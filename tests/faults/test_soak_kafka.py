"""From Kafka to Kafka for minutes, exactly once, a fault in each: brokers among what breaks.

Three brokers are crashed, stopped and paused, so leaders move; and rows stay away until the brokers
have forgotten the job's transactional ids and producers, which come again. Rows are right, nothing
grows. ``FABRIC_SOAK_S`` and ``FABRIC_SEED`` change what is done.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.kafka import KafkaCluster, three_brokers
from tests.services.transactions import transactions
from tests.support.local import local_fabric
from tests.support.sampled import SEED
from tests.support.soak.kafka_job import KafkaSoakJob
from tests.support.soak.trial import Trial
from tests.support.soak.watch import LONG_S, Watch, check_growth, environ_of, told
from tests.support.wait import wait_until

pytestmark = [pytest.mark.timeout(2400), pytest.mark.soak]
SECONDS = float(os.environ.get("FABRIC_SOAK_S") or 600)
EVERY_S = max(8.0, SECONDS / 10)
RATE = int(os.environ.get("FABRIC_SOAK_RATE") or 6_000)
N_AGENTS, SLOTS = 3, 1
ENVIRON = {
    "FABRIC_CHECKPOINT_INTERVAL_S": "1",
    "FABRIC_AGENT_GIVE_BACK_S": "5",
    "FABRIC_COORDINATOR_TIMEOUT_S": "10",
    "FABRIC_COORDINATOR_EVENTS_KEPT_MAX": "200",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
}
"""As in test_soak_streams.py."""
FORGETFUL = {
    "transactional.id.expiration.ms": "15000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "2000",
    "producer.id.expiration.ms": "10000",
    "producer.id.expiration.check.interval.ms": "2000",
    "transaction.partition.verification.enable": "true",
}
"""A week and a day by default."""
FORGOTTEN_S, PAUSE_S = 90.0, 12.0
KNOWN = "30 seconds"
"""So that state has its full size before memory is judged."""
CONNECTIONS = 4
"""More than before, of a process with five clients: leaders move, and with them connections."""
BEFORE = 5
"""Restores before memory is judged; then each fault happens once. What is judged is what is in use:
the pages that hold it move by 2 MB with a restore or a broker that hangs, and stay, which is 12 MB
an hour in ten minutes."""


def faults_of(kafka: KafkaCluster, job: KafkaSoakJob, seed: int) -> list[Callable[[], str]]:
    """What may happen to brokers; each is over when it returns."""
    chosen = random.Random(f"{seed} brokers")

    def crash() -> str:
        i = chosen.randrange(len(kafka.brokers))
        kafka.brokers[i].kill()
        kafka.brokers[i].start()
        return f"kill broker {i}"

    def stop() -> str:
        i = chosen.randrange(len(kafka.brokers))
        kafka.brokers[i].stop()
        kafka.brokers[i].start()
        return f"stop broker {i}"

    def hang() -> str:
        i = chosen.randrange(len(kafka.brokers))
        kafka.brokers[i].pause()
        time.sleep(PAUSE_S)
        kafka.brokers[i].resume()
        return f"broker {i} hangs for {PAUSE_S:g} s"

    def forget() -> str:
        job.feeder.pause()
        began_s = time.monotonic()
        wait_until(lambda: not transactions(kafka.servers.split(",")), FORGOTTEN_S)
        job.feeder.resume()
        return f"transactional ids expire after {time.monotonic() - began_s:.0f} s"

    return [crash, stop, hang, forget]


def test_a_soak_with_a_fault_each_minute(tmp_path: Path) -> None:
    print(f"seed {SEED}, {SECONDS:g} s, a fault each {EVERY_S:g} s, {RATE} rows/s")
    environ = {**ENVIRON, **environ_of(tmp_path)}
    with (
        three_brokers(FORGETFUL) as kafka,
        local_fabric(N_AGENTS, slots=SLOTS, environ=environ) as running,
        KafkaSoakJob.on(kafka, RATE, SEED, known=KNOWN) as job,
        Watch(tmp_path) as watch,
    ):
        trial = Trial(running, job, watch, SEED, faults_of(kafka, job, SEED))
        trial.start()
        trial.begin_anew(BEFORE)
        trial.run(SECONDS, EVERY_S)
        watch.stop()
        job.feeder.pause()
        trial.finish()
        print(trial.facts)
        for series in watch.series():
            print(told(series, watch))
    check_growth(watch, needed=SECONDS >= 2 * LONG_S, descriptors_max=CONNECTIONS)
