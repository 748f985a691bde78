"""Both clients, native and Python's, on a real broker: what their users may rely on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from fabric._cython.kafka.faults import RowTooLargeError
from fabric._cython.kafka.results import COLUMNS, EARLIEST, HEADERS, LATEST
from fabric._cython.kafka.wake import Wake
from fabric.errors import (
    BrokerError,
    ConfigError,
    InternalError,
    NotFoundError,
    ProducerFencedError,
)
from fabric.io.kafka.library import KafkaClient, client
from tests.services.kafka import SharedBroker, kafka_broker
from tests.support.kafka_clients import KINDS, client_of_kind, reads, rows, settings, until

TEN = pa.array([f"v{i}".encode() for i in range(10)])
LARGE = os.urandom(50_000)  # does not compress


@pytest.fixture(params=KINDS)
def kafka(request: pytest.FixtureRequest) -> KafkaClient:
    return client_of_kind(request.param)


@pytest.fixture(scope="module")
def broker() -> SharedBroker:
    return kafka_broker()


@pytest.fixture
def topic(broker: SharedBroker) -> str:
    return broker.new_topic()


@pytest.fixture
def reader(kafka: KafkaClient, broker: SharedBroker) -> Iterator[Any]:
    with kafka.Reader(settings(broker)) as made:
        yield made


def test_the_library_is_the_one_that_was_asked_for() -> None:
    """Another run of these tests asks for the oldest."""
    assert client().version.startswith(os.environ.get("FABRIC_KAFKA_VERSION", "2."))


def test_rows_come_back_with_all_their_parts(
    kafka: KafkaClient, broker: SharedBroker, reader: Any
) -> None:
    topic = broker.new_topic(partitions=2)
    keys = pa.array([b"a", None, b"", b"\xff\x00", b"e"])
    values = pa.array([b"1", b"", None, b"x" * 5000, "é".encode()])
    headers = pa.array([[("h", b"1"), ("h", None)], [], [("é", b"")], [], []], HEADERS)
    times = pa.array([1, 2, 3, 4, 5_000_000], pa.timestamp("ms", "UTC"))
    parts = pa.array([0, 0, 1, 0, 0], pa.int32())
    with kafka.Writer(settings(broker)) as writer:
        given = {"partitions": parts, "headers": headers, "timestamps": times}
        assert writer.write(topic, keys, values, **given) == 5
        writer.flush()
        assert (writer.failures, writer.queued) == (0, 0)
    reader.assign({(topic, 0): 0, (topic, 1): EARLIEST})
    found = pa.concat_tables([rows(reader, topic, 0, 4), rows(reader, topic, 1, 1)])
    parts = {"partition": parts, "offset": [0, 1, 0, 2, 3], "timestamp": times, "headers": headers}
    mine = pa.table({"key": keys, "value": values, "topic": [topic] * 5, **parts})
    assert found.equals(mine.take([0, 1, 3, 4, 2]).cast(COLUMNS))
    until(lambda: reader.read(topic, 0) or reader.at_end(topic, 0))
    assert [reader.position(topic, p) for p in (0, 1)] == [4, 1]
    assert reader.errors() == []


def test_only_what_is_wanted_is_read_in_bounded_pieces(
    broker: SharedBroker, reader: Any, topic: str
) -> None:
    broker.produce(topic, [(None, bytes(100))] * 50)
    reader.assign({(topic, 0): 0})
    wants = frozenset({"offset"})
    one = until(lambda: reader.read(topic, 0, 7, wants=wants))
    assert (one.batch.schema.names, one.n_records, one.next_offset) == (["offset"], 7, 7)
    assert reader.position(topic, 0) == 7
    until(lambda: reader.high_watermark(topic, 0) == 50)
    assert reader.lag(topic, 0) == 43
    for read in reads(reader, topic, 0, 20, wants=wants, bytes_max=1050):
        assert read.n_records <= 10
    last = reader.read(topic, 0, wants=wants, bytes_max=1)
    assert (last.n_records, last.n_bytes) == (1, 100)  # one is always read
    with pytest.raises(ValueError, match="only"):
        reader.read(topic, 0, wants=frozenset({"nothing"}))
    with pytest.raises(ValueError, match="positive"):
        reader.read(topic, 0, 0)


def test_partitions_are_added_and_given_up_while_others_go_on(
    broker: SharedBroker, reader: Any
) -> None:
    topic = broker.new_topic(partitions=2)
    for partition in (0, 1):
        broker.produce(topic, [(None, b"x")] * 10, partition=partition)
    reader.assign({(topic, 0): 4})
    assert rows(reader, topic, 0, 6)["offset"].to_pylist() == [4, 5, 6, 7, 8, 9]
    reader.assign({(topic, 1): (8, 0)})
    assert rows(reader, topic, 1, 2)["offset"].to_pylist() == [8, 9]
    assert (reader.position(topic, 0), reader.leader_epoch(topic, 1)) == (10, 0)
    with pytest.raises(ValueError, match="already assigned"):
        reader.assign({(topic, 1): 0})
    reader.unassign([(topic, 1)])
    with pytest.raises(ValueError, match="is not assigned"):
        reader.read(topic, 1)
    reader.assign({(topic, 1): 0})
    assert rows(reader, topic, 1, 10)["offset"].to_pylist() == list(range(10))
    broker.produce(topic, [(None, b"y")], partition=0)
    assert rows(reader, topic, 0, 1)["value"].to_pylist() == [b"y"]


def test_a_broker_is_asked_about_topics(broker: SharedBroker, reader: Any) -> None:
    topic = broker.new_topic(partitions=3)
    broker.produce(topic, [(None, b"x", 1000 * i) for i in range(1, 11)], partition=1)
    known = reader.metadata([topic, "no-such-topic"])
    assert known[topic].partitions == [0, 1, 2]
    assert known["no-such-topic"].error == "UNKNOWN_TOPIC_OR_PART"
    assert topic in reader.metadata()
    assert reader.watermark_offsets(topic, 1) == (0, 10)
    times = {(topic, 1): 4500, (topic, 2): 4500}
    assert reader.offsets_for_times(times) == {(topic, 1): 4, (topic, 2): LATEST}
    with pytest.raises((NotFoundError, BrokerError)):
        reader.watermark_offsets(topic, 7, timeout_s=5)
    reader.commit({(topic, 1): 6})
    assert until(lambda: broker.committed("fabric", topic)) == {1: 6}
    assert reader.committed([(topic, 0), (topic, 1)]) == {(topic, 0): -1001, (topic, 1): 6}


def test_a_reader_closes_though_no_broker_answers_its_commit(kafka: KafkaClient) -> None:
    """librdkafka would wait for 45 s; a stream that goes on elsewhere waits for this."""
    reader = kafka.Reader({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"})
    reader.commit({("nowhere", 0): 6})
    closing = threading.Thread(target=reader.close, daemon=True)
    closing.start()
    closing.join(40)
    assert not closing.is_alive(), "it still waits for the coordinator of the group"


def test_a_wake_is_stopped_while_an_event_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread may end by that event, before it is told to."""
    descriptor, write = os.eventfd(0, os.EFD_NONBLOCK), os.eventfd_write
    wake = Wake(descriptor, lambda: None)

    def late(own: int, value: int) -> None:
        write(descriptor, 1)
        time.sleep(0.2)
        write(own, value)

    monkeypatch.setattr(os, "eventfd_write", late)
    wake.stop()
    wake.stop()
    os.close(descriptor)


def test_a_transaction_is_all_or_nothing(
    kafka: KafkaClient, broker: SharedBroker, topic: str
) -> None:
    group = f"group-{topic}"
    with kafka.Writer(settings(broker, transactional_id=topic)) as writer:
        writer.init_transactions()
        assert writer.producer_id()[0] >= 0
        writer.begin()
        writer.write(topic, None, TEN)  # a topic that nobody has asked about yet
        writer.flush()  # else aborting drops them before a broker has them
        writer.abort()
        writer.begin()
        writer.write(topic, TEN, TEN, partitions=pa.array([0] * 10))
        writer.send_offsets({(topic, 0): 77}, group=group)
        writer.commit()
    found = broker.records(topic)
    assert [(r.key, r.value) for r in found] == [(v, v) for v in TEN.to_pylist()]
    assert found[0].offset == 11
    assert broker.committed(group, topic) == {0: 77}


def test_what_is_not_committed_is_not_read_unless_wanted(
    kafka: KafkaClient, broker: SharedBroker, reader: Any, topic: str
) -> None:
    dirty = kafka.Reader(settings(broker, isolation_level="read_uncommitted"))
    with dirty, kafka.Writer(settings(broker, transactional_id=topic), [topic]) as writer:
        reader.assign({(topic, 0): 0})
        dirty.assign({(topic, 0): 0})
        writer.init_transactions()
        writer.begin()
        writer.write(topic, None, TEN)
        writer.flush()
        assert rows(dirty, topic, 0, 10)["value"].to_pylist() == TEN.to_pylist()
        assert reader.read(topic, 0) is None
        writer.commit()
        assert rows(reader, topic, 0, 10)["value"].to_pylist() == TEN.to_pylist()


def test_positions_pass_control_records(
    kafka: KafkaClient, broker: SharedBroker, reader: Any, topic: str
) -> None:
    """After a transaction "the last offset + 1" is its marker, not the end."""
    with kafka.Writer(settings(broker, transactional_id=topic), [topic]) as writer:
        writer.init_transactions()
        for end in (writer.commit, writer.abort):
            writer.begin()
            writer.write(topic, None, TEN)
            writer.flush()
            end()
    broker.wait_for_transactions(topic)
    reader.assign({(topic, 0): 0})
    assert rows(reader, topic, 0, 10)["offset"].to_pylist() == list(range(10))
    until(lambda: reader.read(topic, 0) or reader.at_end(topic, 0))
    assert reader.position(topic, 0) == 22 == reader.watermark_offsets(topic, 0)[1]
    assert reader.lag(topic, 0) == 0


def test_a_zombie_is_fenced(kafka: KafkaClient, broker: SharedBroker, topic: str) -> None:
    own = settings(broker, transactional_id=topic)
    with kafka.Writer(own, [topic]) as old, kafka.Writer(own, [topic]) as new:
        old.init_transactions()
        new.init_transactions()
        assert new.producer_id() > old.producer_id()
        old.begin()
        old.write(topic, None, pa.array([b"old"]))
        with pytest.raises(ProducerFencedError) as caught:
            old.commit()
        assert not caught.value.retryable
        new.begin()
        new.write(topic, None, pa.array([b"new"]))
        new.commit()
    assert [r.value for r in broker.records(topic)] == [b"new"]


def test_an_offset_that_is_gone_is_said(broker: SharedBroker, reader: Any, topic: str) -> None:
    broker.produce(topic, [(None, b"x")] * 10)
    broker.delete_records(topic, 0, 6)
    reader.assign({(topic, 0): 2})
    (fault,) = until(lambda: reader.read(topic, 0) or reader.errors())
    assert (fault.name, fault.topic, fault.partition) == ("_AUTO_OFFSET_RESET", topic, 0)
    reader.unassign([(topic, 0)])
    reader.assign({(topic, 0): EARLIEST})
    assert rows(reader, topic, 0, 4)["offset"].to_pylist() == [6, 7, 8, 9]


def test_a_topic_that_vanishes_is_said(broker: SharedBroker, kafka: KafkaClient) -> None:
    topic = broker.new_topic()
    quick = settings(
        broker, topic_metadata_refresh_interval_ms="100", topic_metadata_propagation_max_ms="100"
    )
    with kafka.Reader(quick) as reader:
        broker.produce(topic, [(None, b"x")])
        reader.assign({(topic, 0): 0})
        rows(reader, topic, 0, 1)
        broker.delete_topic(topic)
        found = until(lambda: reader.read(topic, 0) or reader.errors())
        assert {fault.topic for fault in found} == {topic}


def test_a_broker_that_is_not_there_is_said_on_the_main_queue(kafka: KafkaClient) -> None:
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}
    with kafka.Reader(nowhere) as reader, kafka.Writer(nowhere) as writer:
        for one in (reader, writer):
            found = until(one.errors)
            assert found[0].name in ("_TRANSPORT", "_ALL_BROKERS_DOWN")
            assert not found[0].fatal
        with pytest.raises(BrokerError) as caught:
            reader.metadata(timeout_s=0.1)
        assert caught.value.retryable
        with pytest.raises(BrokerError):
            writer.write("topic", None, TEN, timeout_s=0.1)


def test_settings_are_refused_by_name_without_secrets(kafka: KafkaClient) -> None:
    for kind in (kafka.Reader, kafka.Writer):
        with pytest.raises(ConfigError, match="no\\.such"):
            kind({"no.such": "1"})
        with pytest.raises(TypeError, match="must be a string, got int"):
            kind({"linger.ms": 5})  # type: ignore[dict-item]
        with pytest.raises(ConfigError) as caught:
            kind({"ssl.key.pem": "hunter2", "security.protocol": "ssl"})
        assert "hunter2" not in str(caught.value)


def test_a_row_over_the_limit_is_refused_by_its_index(
    kafka: KafkaClient, broker: SharedBroker
) -> None:
    topic = broker.new_topic(max_message_bytes=10_000)
    with kafka.Writer(settings(broker), [topic]) as writer:
        assert writer.message_bytes_max(topic) == 10_000
        with pytest.raises(RowTooLargeError, match="row 1 makes a message") as caught:
            writer.write(topic, None, pa.array([b"x", bytes(10_000)]))
        assert caught.value.row == 1
        writer.write(topic, None, pa.array([bytes(9_900)]))  # with what is around it
        writer.flush()
    assert [len(r.value or b"") for r in broker.records(topic)] == [9_900]


def test_many_small_rows_fit_a_topic_of_small_messages(
    kafka: KafkaClient, broker: SharedBroker
) -> None:
    """A broker holds a whole batch against the limit, and refuses it with all its rows."""
    topic, late = (broker.new_topic(max_message_bytes=5_000) for _ in range(2))
    values = pa.array([bytes(100)] * 1000)
    with kafka.Writer(settings(broker, transactional_id=topic), [topic]) as writer:
        writer.init_transactions()
        writer.begin()
        writer.write(topic, None, values)
        writer.write(late, None, values)  # takes as little: nothing has to change
        with pytest.raises(ConfigError, match="name the topic when the writer is created"):
            writer.write(broker.new_topic(max_message_bytes=3_000), None, values)
        writer.commit()
    with kafka.Writer(settings(broker)) as writer:
        writer.write(late, None, values)
        writer.flush()
        assert writer.failures == 0
    assert (len(broker.records(topic)), len(broker.records(late))) == (1000, 2000)


def test_a_row_that_a_broker_refuses_is_counted_and_fails_its_transaction(
    kafka: KafkaClient, broker: SharedBroker
) -> None:
    """Where rows are compressed only the broker knows how large they are."""
    topic = broker.new_topic(max_message_bytes=10_000)
    packed = settings(broker, compression_type="lz4")
    with kafka.Writer(packed, [topic]) as writer:
        writer.write(topic, None, pa.array([bytes(50_000)]))
        writer.flush()
        writer.write(topic, None, pa.array([LARGE]))
        with pytest.raises(RowTooLargeError, match="50000 bytes"):
            writer.flush()
        assert writer.failures == 1
        writer.write(topic, None, pa.array([b"more"]))
        writer.flush()  # it was said
    with kafka.Writer({**packed, "transactional.id": topic}, [topic]) as writer:
        writer.init_transactions()
        writer.begin()
        writer.write(topic, None, pa.array([LARGE]))
        with pytest.raises(RowTooLargeError, match="50000 bytes"):
            writer.commit()
        writer.abort()
        writer.begin()
        writer.write(topic, None, pa.array([b"small"]))
        writer.commit()
    assert [len(r.value or b"") for r in broker.records(topic)] == [50_000, 4, 5]


def test_a_partition_that_is_not_there_is_refused_by_row(
    kafka: KafkaClient, broker: SharedBroker, topic: str
) -> None:
    with kafka.Writer(settings(broker)) as writer:
        for partition, shown in ((1, "1"), (-1, "-1"), (None, "null")):
            given = pa.array([0, partition], pa.int32())
            with pytest.raises(NotFoundError, match=f"row 1 is for partition {shown}"):
                writer.write(topic, None, pa.array([b"x", b"y"]), partitions=given)
        with pytest.raises(NotFoundError, match="no-such-topic"):
            writer.write("no-such-topic", None, pa.array([b"x"]))
        with pytest.raises(ValueError, match="values has 2 rows, another column 1"):
            writer.write(topic, pa.array([b"k"]), pa.array([b"x", b"y"]))
    assert broker.records(topic) == []


def test_a_topic_that_grows_takes_rows_for_its_new_partitions(
    kafka: KafkaClient, broker: SharedBroker, topic: str
) -> None:
    with kafka.Writer(settings(broker)) as writer:
        assert writer.partitions(topic) == 1
        broker.add_partitions(topic, 3)
        until(lambda: writer.partitions(topic) == 3)
        writer.write(topic, None, pa.array([b"x"] * 3), partitions=pa.array([0, 1, 2]))
        writer.flush()
    assert [r.partition for r in broker.records(topic)] == [0, 1, 2]


def test_a_full_buffer_is_waited_for_and_then_said(
    kafka: KafkaClient, broker: SharedBroker, topic: str
) -> None:
    with kafka.Writer(settings(broker, queue_buffering_max_messages="100")) as writer:
        writer.write(topic, None, pa.array([str(i).encode() for i in range(2000)]))
        writer.flush()
    assert [int(r.value or b"") for r in broker.records(topic)] == list(range(2000))
    lazy = settings(broker, queue_buffering_max_messages="100", linger_ms="60000")
    with kafka.Writer(lazy, [topic]) as writer:
        with pytest.raises(BrokerError, match="queue is full at row 100") as caught:
            writer.write(topic, None, pa.array([b"x"] * 101), timeout_s=0.05)
        assert caught.value.retryable
        assert writer.queued == 100
        writer.purge()
        assert writer.queued == 0


def test_a_forked_process_is_refused_and_harms_nothing(
    kafka: KafkaClient, broker: SharedBroker, topic: str
) -> None:
    """A child has none of librdkafka's threads: rows would be taken and never sent."""
    with kafka.Writer(settings(broker)) as writer, kafka.Reader(settings(broker)) as reader:
        writer.write(topic, None, TEN)
        reader.assign({(topic, 0): 0})
        child = os.fork()
        if child == 0:
            try:
                refused = 0
                for verb in (lambda: writer.write(topic, None, TEN), reader.errors):
                    try:
                        verb()
                    except InternalError as error:
                        refused += "after the fork" in str(error)
                writer.close()
                reader.close()
                os._exit(refused)
            finally:
                os._exit(99)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        writer.flush()
        assert rows(reader, topic, 0, 10)["value"].to_pylist() == TEN.to_pylist()
    with pytest.raises(InternalError, match="closed"):
        reader.errors()
    reader.close()
    with pytest.raises(InternalError, match="closed"):
        writer.write(topic, None, TEN)
