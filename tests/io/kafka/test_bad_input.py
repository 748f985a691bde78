"""What others do to topics that are read and written: by policy or by name, never silently."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric.errors import DataError
from fabric.plan.targets import KafkaTarget
from tests.io.kafka.test_publisher import Rig, facts_of
from tests.io.readers.test_kafka import read_all, reading, row, rows, stream
from tests.services.kafka import SharedBroker, kafka_broker
from tests.services.transactions import is_open, transactions
from tests.support.wait import wait_until

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def broker() -> SharedBroker:
    return kafka_broker()


def test_a_topic_that_is_made_anew_while_it_is_read(broker: SharedBroker) -> None:
    topic = broker.new_topic("anew")
    broker.produce(topic, rows(1, 2))
    source = stream(broker, topic, discover_s=0.3)
    with reading(source) as found:
        found.until(2)
        broker.delete_topic(topic)
        broker.create_topic(topic, 1)
        broker.produce(topic, rows(3, 4, 5, 6))
        with pytest.raises(DataError, match="was recreated: its topic id changed"):
            found.until(7)
        at = found.reader.positions()
    with reading(replace(source, on_expired="earliest"), positions=at) as found:
        assert [one["id"] for one in found.until(4)] == [3, 4, 5, 6]


def test_holes_that_compaction_leaves(broker: SharedBroker) -> None:
    """Offsets that are not there, at the begin, in the middle, and behind the last record."""
    topic = broker.new_topic(
        "holes", cleanup_policy="compact", segment_ms=50, min_cleanable_dirty_ratio="0.01",
        delete_retention_ms=0,
    )  # fmt: skip
    for turn in range(4):
        written = [(b"k%d" % key, row(10 * turn + key)[1]) for key in range(turn, 5)]
        broker.produce(topic, written, transactional_id=topic if turn % 2 else None)
        time.sleep(0.06)  # a segment that is older is closed with the next record
    broker.produce(topic, rows(99))
    broker.wait_for_transactions(topic)
    wait_until(lambda: len(broker.records(topic)) == 6)
    kept = [(r.offset, r.key) for r in broker.records(topic)]
    assert kept[-1][0] >= 14
    source = stream(broker, topic, key=("key",))
    found = [(one["o"], one["key"]) for one in read_all(source)]
    assert found == kept
    with reading(source) as halfway:
        halfway.until(2, rows_max=1)
        at = halfway.reader.positions()
        first = [(one["o"], one["key"]) for one in halfway.rows]
    assert first + [(o["o"], o["key"]) for o in read_all(source, positions=at)] == kept


def test_a_clock_that_is_wrong(broker: SharedBroker) -> None:
    """One record of the year 2100: what comes behind it is late by name, not lost."""
    topic = broker.new_topic("skew", message_timestamp_after_max_ms=2**62)
    at_ms = round(BEGIN.timestamp() * 1000)
    times = [at_ms, at_ms + 1_000, 4_102_444_800_000, at_ms + 2_000, 1]
    broker.produce(topic, [(*row(n), at) for n, at in enumerate(times)])
    read = fabric.read_kafka(
        topic, servers=broker.servers, schema={"id": "int64"}, until="now", timestamp="written"
    ).with_watermark("written", "1 minute")
    windows = read.group_by("id").window("1 minute", late="side").count()
    assert sorted(windows.collect()["id"].to_pylist()) == [0, 1, 2]
    late = windows.side_output("late").select("id", "written").collect().to_pylist()
    assert sorted((one["id"], one["written"]) for one in late) == [
        (3, BEGIN + timedelta(seconds=2)),
        (4, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1)),
    ]


def test_a_limit_that_is_lowered_meanwhile(broker: SharedBroker, tmp_path: Path) -> None:
    """By name, and what was refused is published once there is room."""
    rig = Rig(tmp_path, broker)
    publisher = rig.publisher()
    rig.schema = pa.schema([("n", pa.int64()), ("text", pa.string())])

    def prepared(numbers: list[int], run: int) -> list[dict[str, Any]]:
        writer = rig.task(0, run=run)
        writer.write(
            pa.record_batch([numbers, [token_hex(1_000) for _ in numbers]], schema=rig.schema)
        )
        return facts_of(writer.prepare(1))

    publisher.publish(rig.target, prepared([0], 1))
    broker.alter_topic(rig.topic, max_message_bytes=1_000)
    facts = prepared([1, 2], 2)
    for text in (
        "MSG_SIZE_TOO_LARGE",
        r"row 0 of task 0 .* accepts at most 1000 bytes",
    ):  # known first, then asked
        with pytest.raises(DataError, match=text):
            publisher.publish(rig.target, facts)
    broker.alter_topic(rig.topic, max_message_bytes=100_000)
    publisher.publish(rig.target, facts)
    rig.check(3)
    publisher.close()


@pytest.mark.parametrize(
    ("clock", "policy", "text"),
    [
        ("at", "delete", r"Invalid timestamp .*leave out timestamp="),
        ("", "compact", "a compacted topic rejects records without a key"),
    ],
)
def test_records_that_brokers_never_take_are_refused_by_name(
    broker: SharedBroker, tmp_path: Path, clock: str, policy: str, text: str
) -> None:
    """Not tried again for ever, and no transaction stays open that others had to wait for."""
    rig = Rig(tmp_path, broker)
    topic = broker.new_topic("refuses", cleanup_policy=policy)
    rig.schema = pa.schema([("n", pa.int64()), ("at", pa.timestamp("ms", "UTC"))])
    rig.target = KafkaTarget(broker.servers, topic, timestamp=clock)
    writer = rig.task(0)
    writer.write(pa.record_batch([[1, 2], [1_000, 4_102_444_800_000]], schema=rig.schema))
    facts = facts_of(writer.prepare(1))
    with pytest.raises(DataError, match=text):
        rig.publisher().publish(rig.target, facts)

    def states() -> list[str]:
        found = transactions([broker.servers])
        return [state for name, state in found.items() if name.startswith(rig.job)]

    wait_until(lambda: not any(map(is_open, states())))  # by itself it takes 90 s
    assert len(states()) == 1
    assert broker.records(topic) == []
