"""Both clients, native and Python's, on one real broker: rows, nulls, headers, transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from fabric._cython.kafka.results import HEADERS, Read
from fabric.errors import ProducerFencedError
from fabric.io.kafka.library import KafkaClient, client, python_client
from tests.services.kafka import SharedBroker, kafka_broker

WAIT_S = 30.0


@pytest.fixture(params=["native", "python"])
def kafka(request: pytest.FixtureRequest) -> KafkaClient:
    native = client()
    assert native.native, native.reason
    return native if request.param == "native" else python_client("a test asks for it")


@pytest.fixture
def broker() -> SharedBroker:
    return kafka_broker()


def settings(broker: SharedBroker, **more: str) -> dict[str, str]:
    plain = {name.replace("_", "."): value for name, value in more.items()}
    return {"bootstrap.servers": broker.servers, **plain}


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.005)
    return found


def reads(reader: Any, topic: str, partition: int, n: int, **how: Any) -> Iterator[Read]:
    """Reads of a partition until `n` records came."""
    while n > 0:
        read = until(lambda: reader.read(topic, partition, **how))
        n -= read.n_records
        yield read


def test_rows_come_back_with_all_their_parts(kafka: KafkaClient, broker: SharedBroker) -> None:
    topic = broker.new_topic(partitions=2)
    keys = pa.array([b"a", None, b"", b"\xff\x00", b"e"])
    values = pa.array([b"1", b"", None, b"x" * 5000, "é".encode()])
    headers = pa.array([[("h", b"1"), ("h", None)], [], [("é", b"")], [], []], HEADERS)
    times = pa.array([1, 2, 3, 4, 5_000_000], pa.timestamp("ms", "UTC"))
    parts = pa.array([0, 0, 1, 0, 0], pa.int32())
    with kafka.Writer(settings(broker)) as writer:
        assert (
            writer.write(topic, keys, values, partitions=parts, headers=headers, timestamps=times)
            == 5
        )
        writer.flush()
        assert (writer.failures, writer.queued) == (0, 0)
    with kafka.Reader(settings(broker)) as reader:
        reader.assign({(topic, 0): 0, (topic, 1): -2})
        zero = pa.Table.from_batches([r.batch for r in reads(reader, topic, 0, 4)]).combine_chunks()
        (one,) = [r.batch for r in reads(reader, topic, 1, 1)]
        until(lambda: reader.read(topic, 0) or reader.at_end(topic, 0))
        assert [reader.position(topic, p) for p in (0, 1)] == [4, 1]
        assert reader.errors() == []
    mine = pa.table(
        {
            "key": keys, "value": values, "topic": [topic] * 5, "partition": parts,
            "timestamp": times, "headers": headers,
        }
    )  # fmt: skip
    assert zero.drop_columns("offset").equals(mine.take([0, 1, 3, 4]))
    assert pa.Table.from_batches([one]).drop_columns("offset").equals(mine.take([2]))
    assert zero["offset"].to_pylist() == [0, 1, 2, 3]


def test_a_transaction_is_all_or_nothing(kafka: KafkaClient, broker: SharedBroker) -> None:
    topic = broker.new_topic(partitions=1)
    values = pa.array([str(i).encode() for i in range(1000)])
    with kafka.Writer(settings(broker, transactional_id=topic), [topic]) as writer:
        writer.init_transactions()
        assert writer.producer_id()[0] >= 0
        writer.begin()
        writer.write(topic, None, values)
        writer.flush()
        writer.abort()
        writer.begin()
        writer.write(topic, values, values)
        writer.send_offsets({(topic, 0): 77}, group="g-" + topic)
        writer.commit()
    with kafka.Reader(settings(broker, group_id="g-" + topic)) as reader:
        reader.assign({(topic, 0): 0})
        found = [r.batch["key"] for r in reads(reader, topic, 0, 1000, wants=frozenset({"key"}))]
        assert pa.chunked_array(found).to_pylist() == values.to_pylist()
        assert reader.committed([(topic, 0)]) == {(topic, 0): 77}


def test_positions_pass_control_records(kafka: KafkaClient, broker: SharedBroker) -> None:
    """After a transaction "the last offset + 1" is its marker, not the end."""
    topic = broker.new_topic(partitions=1)
    with kafka.Writer(settings(broker, transactional_id=topic), [topic]) as writer:
        writer.init_transactions()
        for end in (writer.commit, writer.abort):
            writer.begin()
            writer.write(topic, None, pa.array([b"x"] * 10))
            writer.flush()  # else aborting drops them before a broker has them
            end()
    with kafka.Reader(settings(broker)) as reader:
        reader.assign({(topic, 0): 0})
        assert sum(r.n_records for r in reads(reader, topic, 0, 10)) == 10
        # The broker writes a marker after it has answered that the transaction is over.
        until(lambda: reader.watermark_offsets(topic, 0) == (0, 22))
        until(lambda: reader.read(topic, 0) or reader.position(topic, 0) == 22)
        until(lambda: reader.read(topic, 0) or reader.at_end(topic, 0))
        assert reader.lag(topic, 0) == 0


def test_a_zombie_is_fenced(kafka: KafkaClient, broker: SharedBroker) -> None:
    topic = broker.new_topic()
    own = settings(broker, transactional_id=topic)
    with kafka.Writer(own, [topic]) as old, kafka.Writer(own, [topic]) as new:
        old.init_transactions()
        new.init_transactions()
        old.begin()
        old.write(topic, None, pa.array([b"x"]))
        with pytest.raises(ProducerFencedError) as caught:
            old.commit()
        assert not caught.value.retryable
        new.begin()
        new.write(topic, None, pa.array([b"y"]))
        new.commit()
