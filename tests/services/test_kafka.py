"""The Kafka that tests start: real, shared by a run's processes, gone with the last of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from fabric.clients.demo.services.server import listens
from fabric.errors import ExternalError
from tests.services.kafka import KafkaBroker, kafka_broker, own_broker, three_brokers
from tests.support.wait import wait_until

CODE = """
import sys
from tests.services.kafka import kafka_broker
broker = kafka_broker()
print(broker.servers, flush=True)
sys.stdin.read()
"""


def user(run_id: str) -> subprocess.Popen[str]:
    """A process of a run that uses its shared broker until its standard input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTEST_XDIST_TESTRUNUID": run_id},
    )  # fmt: skip


def test_transactions_and_what_a_row_carries() -> None:
    broker = kafka_broker()
    topic = broker.new_topic("rows", 2, cleanup_policy="compact", max_message_bytes=2000)
    assert broker.topic_configs(topic)["cleanup.policy"] == "compact"
    broker.produce(topic, [(b"k", b"v", 1000, [("h", b"1"), ("h", None)])], partition=1)
    broker.produce(topic, [(b"k", None)], partition=1, transactional_id=topic)
    broker.produce(topic, [(b"k", b"x")], partition=0, transactional_id=topic, abort=True)
    first, second = broker.records(topic)
    assert (first.partition, first.offset, first.key, first.value) == (1, 0, b"k", b"v")
    assert (first.timestamp_ms, first.headers) == (1000, (("h", b"1"), ("h", None)))
    assert (second.offset, second.value) == (1, None)
    everything = broker.records(topic, isolation="read_uncommitted")
    assert [row.value for row in everything] == [b"x", b"v", None]
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        broker.produce(topic, [(b"k", bytes(3000))])
    broker.add_partitions(topic, 3)
    broker.delete_topic(topic)
    assert topic not in broker.metadata().topics


def test_the_run_s_broker_ends_with_the_last_process_that_uses_it(tmp_path: Path) -> None:
    first, second = user(tmp_path.name), user(tmp_path.name)
    address = first.stdout.readline()  # type: ignore[union-attr]
    assert address == second.stdout.readline()  # type: ignore[union-attr]
    port = int(address.rpartition(":")[2])
    first.communicate("")
    third = user(tmp_path.name)
    assert third.stdout.readline() == address  # type: ignore[union-attr]
    for process in (second, third):  # killed ones count as gone
        assert listens(port)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    wait_until(lambda: not listens(port))
    wait_until(lambda: not list(Path("/tmp").glob(f"fabric-kafka-*{tmp_path.name}*")))


def test_a_broker_of_one_s_own_comes_back_with_its_rows() -> None:
    with own_broker() as broker:
        topic = broker.create_topic("kept", 2)
        for end in (broker.kill, broker.stop):
            broker.produce(topic, [(b"k", b"v")], acks="all")
            end()
            assert not listens(broker.port)
            broker.start()
        assert len(broker.records(topic)) == 2
        broker.pause()
        with pytest.raises(KafkaException):
            broker.metadata(timeout_s=0.3)
        broker.resume()
        assert len(broker.records(topic)) == 2
        folder, pid = broker.folder, broker.pid
        other = KafkaBroker()
        other.port = broker.port
        with pytest.raises(ExternalError, match="another Kafka listens"):
            other.answers()
        other.close()
    assert not folder.exists()
    assert not Path(f"/proc/{pid}").exists()


def test_it_ends_with_the_process_that_started_it() -> None:
    code = (
        "from tests.services.kafka import own_broker\n"
        "with own_broker() as b: print(b.pid, b.folder, flush=True); input()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pid, folder = starter.stdout.readline().split()  # type: ignore[union-attr]
    starter.kill()
    starter.communicate()
    wait_until(lambda: not Path(f"/proc/{pid}").exists() and not Path(folder).exists())


@pytest.mark.soak
def test_a_cluster_outlives_one_of_its_brokers() -> None:
    with three_brokers() as cluster:
        topic = cluster.create_topic("replicated", 3)
        for broker in cluster.brokers:
            cluster.produce(topic, [(b"k", b"v")] * 10, transactional_id="t")
            broker.kill()
            cluster.produce(topic, [(b"k", b"v")] * 10, transactional_id="t")
            broker.start()
        assert len(cluster.records(topic)) == 60
