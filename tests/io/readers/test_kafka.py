"""Kafka's partitions read by one task, on a real broker: what comes, and what goes wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from fabric.clock import SystemClock
from fabric.errors import DataError, ExternalError, FabricError, NotFoundError
from fabric.io.kafka import attendant, metadata
from fabric.io.kafka.library import client
from fabric.io.kafka.partition import Budget
from fabric.io.kafka.settings import configuration
from fabric.io.kafka.splits import enumerate_partitions, kafka_schema
from fabric.io.readers import open_reader
from fabric.io.readers.protocol import ALL_OF_IT, END, BadRecord, Ended, Polled, Share
from fabric.io.readers.reader import StreamReader
from fabric.plan.places import RowFormat
from fabric.plan.sources import KafkaStream, Split
from fabric.plan.stream_facts import task_of
from fabric.testing import ManualClock
from tests.services.kafka import KafkaBroker, kafka_broker, own_broker
from tests.services.topics import Topics

WAIT_S = 30.0
VALUES = pa.schema([("id", pa.int64()), ("text", pa.string())])
RAW = RowFormat("raw")


@pytest.fixture(scope="module")
def broker() -> KafkaBroker:
    return kafka_broker()


def row(number: int, **more: Any) -> tuple[bytes, bytes]:
    return b"k%d" % number, json.dumps({"id": number, "text": "ä", **more}).encode()


def rows(*numbers: int) -> list[tuple[bytes, bytes]]:
    return [row(number) for number in numbers]


def stream(broker: Topics, *topics: str, **options: Any) -> KafkaStream:
    """Reads the offset of each record, too."""
    given = {"columns": (("partition", "p"), ("offset", "o")), **options}
    return KafkaStream(broker.servers, topics, **given)


class Reading:
    """A reader of a source, and what came of it."""

    def __init__(
        self,
        source: KafkaStream,
        splits: Sequence[Split] | None = None,
        positions: Mapping[str, bytes] | None = None,
        share: Share = ALL_OF_IT,
        values: pa.Schema = VALUES,
    ) -> None:
        self.splits = enumerate_partitions(source) if splits is None else list(splits)
        schema = kafka_schema(source, None, values)
        self.reader: StreamReader = open_reader(source, schema, SystemClock(), share=share)
        self.reader.open(self.splits)
        if positions is not None:
            self.reader.seek(positions)
        self.batches: list[pa.RecordBatch] = []
        self.found: list[str] = []
        self.bad: list[BadRecord] = []
        self.ended = False

    def once(self, rows_max: int = 100) -> None:
        polled = self.reader.poll(rows_max, 0.05)
        self.ended = self.ended or polled is END
        self.bad += self.reader.take_unreadable()  # type: ignore[arg-type]
        if isinstance(polled, Polled) and polled.batch.num_rows:
            self.batches.append(polled.batch)
        elif isinstance(polled, Polled):
            self.found.append(polled.split)

    def until(self, n_rows: int, rows_max: int = 100) -> list[dict[str, Any]]:
        """All rows so far, once there are `n_rows`."""
        deadline_s = time.monotonic() + WAIT_S
        while len(self.rows) < n_rows:
            assert time.monotonic() < deadline_s, f"{len(self.rows)} of {n_rows} rows came"
            assert not self.ended
            self.once(rows_max)
        return self.rows

    def end(self) -> list[dict[str, Any]]:
        deadline_s = time.monotonic() + WAIT_S
        while not self.ended:
            assert time.monotonic() < deadline_s, f"no end after {len(self.rows)} rows"
            self.once()
        return self.rows

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [one for batch in self.batches for one in batch.to_pylist()]

    def ids(self) -> list[int]:
        return sorted(one["id"] for one in self.rows)


@contextmanager
def reading(source: KafkaStream, *given: Any, **options: Any) -> Iterator[Reading]:
    found = Reading(source, *given, **options)
    try:
        yield found
    finally:
        found.reader.close()


def read_all(source: KafkaStream, **options: Any) -> list[dict[str, Any]]:
    with reading(replace(source, until="now"), **options) as found:
        return found.end()


def fails(source: KafkaStream, error: type[FabricError], text: str, **options: Any) -> None:
    with reading(source, **options) as found, pytest.raises(error, match=text):
        found.until(1 << 30)


# ---- what a record gives


def test_every_part_of_a_record_is_a_column(broker: KafkaBroker) -> None:
    topic = broker.new_topic("parts", 2)
    headers = [("h", b"1"), ("h", None)]
    broker.produce(topic, [(b"a", b"x", 1_000, headers), (None, None, 2_000)], partition=1)
    parts = (("topic", "t"), ("partition", "p"), ("offset", "o"), ("timestamp", "timestamp"),
             ("headers", "h"))  # fmt: skip
    source = KafkaStream(broker.servers, (topic,), value=RAW, key=("key",), columns=parts)
    first, second = read_all(source, values=pa.schema([("value", pa.binary())]))
    assert first.pop("t") == topic
    assert first == {
        "key": b"a", "value": b"x", "p": 1, "o": 0, "timestamp": datetime.fromtimestamp(1, UTC),
        "h": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }  # fmt: skip
    assert (second["key"], second["value"], second["h"]) == (None, None, [])


def test_null_keys_and_values_are_nulls(broker: KafkaBroker) -> None:
    topic = broker.new_topic("nulls")
    broker.produce(topic, [row(1), (None, row(2)[1]), (b"k", None)])
    source = stream(broker, topic, key=("key",), key_format=RowFormat("text"))
    found = [(one["key"], one["id"]) for one in read_all(source)]
    assert found == [("k1", 1), (None, 2), ("k", None)]


def test_only_wanted_columns_come(broker: KafkaBroker) -> None:
    topic = broker.new_topic("wanted")
    broker.produce(topic, rows(1, 2))
    source = stream(broker, topic, key=("key",), until="now")
    full = kafka_schema(source, None, VALUES)
    for names in (["o"], ["text", "id"], ["key"], []):
        wanted = pa.schema([full.field(name) for name in names])
        reader = open_reader(source, wanted, full=full)
        reader.open(enumerate_partitions(source))
        found = 0
        while (polled := reader.poll(10, 0.05)) is not END:
            if isinstance(polled, Polled):
                assert polled.batch.schema.names == names
                found += polled.batch.num_rows
        reader.close()
        assert found == 2


# ---- where it begins and ends


def test_the_end_is_found_behind_holes_and_control_records(broker: KafkaBroker) -> None:
    topic = broker.new_topic("holes", 2, cleanup_policy="compact")
    broker.produce(topic, rows(1, 2), partition=0)
    broker.produce(topic, rows(3), partition=0, transactional_id=topic)
    broker.produce(topic, rows(4, 5), partition=0, transactional_id=topic, abort=True)
    broker.wait_for_transactions(topic)
    source = stream(broker, topic)
    with reading(source) as found:
        assert [one["id"] for one in found.until(3)] == [1, 2, 3]
    assert [one["id"] for one in read_all(source)] == [1, 2, 3]
    everything = replace(source, isolation="read_uncommitted")
    assert [one["id"] for one in read_all(everything)] == [1, 2, 3, 4, 5]


def test_rows_that_come_later_are_not_in_what_ends_now(broker: KafkaBroker) -> None:
    topic = broker.new_topic("now", 2)
    broker.produce(topic, rows(1, 2, 3), partition=0)
    source = stream(broker, topic, until="now")
    splits = enumerate_partitions(source)
    broker.produce(topic, rows(4, 5), partition=0)
    with reading(source, splits) as found:
        assert [one["id"] for one in found.end()] == [1, 2, 3]


def test_where_it_begins(broker: KafkaBroker) -> None:
    topic = broker.new_topic("begin", 2)
    for partition in (0, 1):
        timed = [(*row(n), 1_000 * (n + 1)) for n in range(5)]  # 0 would be "now"
        broker.produce(topic, timed, partition=partition)

    def offsets(**start: Any) -> list[tuple[int, int]]:
        found = read_all(stream(broker, topic, **start))
        return sorted((one["p"], one["o"]) for one in found)

    assert offsets(start="time", start_ms=3_500) == [(0, 3), (0, 4), (1, 3), (1, 4)]
    assert offsets(start="time", start_ms=9_000) == []
    assert offsets(start="latest") == []
    given = ((topic, -1, 4), (topic, 1, 3))
    assert offsets(start="offsets", offsets=given) == [(0, 4), (1, 3), (1, 4)]
    with pytest.raises(NotFoundError, match=r"partition 7 of topic .* has 2 partitions"):
        offsets(start="offsets", offsets=((topic, 7, 0),))


def test_latest_is_as_of_the_submission(broker: KafkaBroker) -> None:
    topic = broker.new_topic("latest")
    broker.produce(topic, rows(1))
    source = stream(broker, topic, start="latest")
    splits = enumerate_partitions(source)
    broker.produce(topic, rows(2))
    for _ in range(2):  # also when it begins anew before there was a checkpoint
        with reading(source, splits) as found:
            assert [one["id"] for one in found.until(1)] == [2]


# ---- where it goes on


def test_positions_win_over_a_group_that_is_wrong(broker: KafkaBroker) -> None:
    topic = broker.new_topic("group", 2)
    for partition in (0, 1):
        broker.produce(topic, rows(*range(10)), partition=partition, transactional_id=topic)
    broker.wait_for_transactions(topic)
    source = stream(broker, topic, group=topic)
    with reading(source) as first:
        before = first.until(7, rows_max=1)
        at = first.reader.on_barrier(1)
        first.reader.on_complete(1)
        want = {one["p"]: one["o"] + 1 for one in before}
        deadline_s = time.monotonic() + WAIT_S
        while broker.committed(topic, topic) != want:
            assert time.monotonic() < deadline_s, "the group was not told"
            time.sleep(0.02)
    set_group(broker, topic, {0: 0, 1: 9})
    with reading(source, positions=at) as second:
        rest = second.until(13)
    places = [(one["p"], one["o"]) for one in [*before, *rest]]
    assert sorted(places) == [(p, o) for p in (0, 1) for o in range(10)]


def set_group(broker: Topics, topic: str, offsets: Mapping[int, int]) -> None:
    group = Consumer({"bootstrap.servers": broker.servers, "group.id": topic})
    wrong = [TopicPartition(topic, p, offset) for p, offset in offsets.items()]
    group.commit(offsets=wrong, asynchronous=False)
    group.close()


def test_a_position_lies_behind_what_was_left_out(broker: KafkaBroker) -> None:
    topic = broker.new_topic("behind")
    broker.produce(topic, [row(1), (b"k", b"{")])
    source = stream(broker, topic, on_bad="skip")
    with reading(source) as found:
        while not found.bad:
            found.once()
        at = found.reader.positions()
    broker.produce(topic, rows(2))
    with reading(source, positions=at) as found:
        assert [one["id"] for one in found.until(1)] == [2]
        assert found.bad == []


# ---- partitions that come


def test_partitions_are_found_while_it_runs_and_after(broker: KafkaBroker) -> None:
    topic = broker.new_topic("grows", 1)
    broker.produce(topic, rows(0), partition=0)
    source = stream(broker, topic, start="latest", discover_s=0.2)
    splits = enumerate_partitions(source)
    shares = [Share(0, 2), Share(1, 2)]
    mine = [[s for s in splits if task_of(s.uri, 2) == n] for n in (0, 1)]
    readings = [Reading(source, mine[n], share=shares[n]) for n in (0, 1)]
    try:
        for one in readings:
            assert one.reader.counts().get("records_behind", 0) == 0  # also before it has begun
            one.once()
        broker.add_partitions(topic, 4)
        for partition in (1, 2, 3):
            broker.produce(topic, rows(10 * partition, 10 * partition + 1), partition=partition)
        deadline_s = time.monotonic() + WAIT_S
        while sum(len(one.rows) for one in readings) < 6:
            assert time.monotonic() < deadline_s
            for one in readings:
                one.once()
        names = [f"{topic}-{partition}" for partition in (1, 2, 3)]
        assert sorted(readings[0].found + readings[1].found) == names
        assert sorted(readings[0].ids() + readings[1].ids()) == [10, 11, 20, 21, 30, 31]
        at = {k: v for one in readings for k, v in one.reader.on_barrier(1).items()}
        assert sorted(at) == [f"{topic}-{partition}" for partition in range(4)]
    finally:
        for one in readings:
            one.reader.close()
    broker.produce(topic, rows(99), partition=3)
    with reading(source, [Split(name) for name in at], positions=at) as again:
        assert [one["id"] for one in again.until(1)] == [99]
        assert again.found == []


def test_topics_of_a_pattern_come_later(broker: KafkaBroker) -> None:
    prefix = broker.new_topic("pattern")
    source = stream(broker, pattern=f"{prefix}-x.*", discover_s=0.2)
    with reading(source) as found:
        assert found.splits == []
        found.once()
        topic = broker.create_topic(f"{prefix}-x1", 1)
        broker.produce(topic, rows(5))
        assert found.until(1)[0]["id"] == 5
    assert found.found == [f"{topic}-0"]


# ---- what goes wrong


@pytest.mark.parametrize("policy", ["fail", "earliest", "latest"])
def test_records_that_are_kept_no_longer(broker: KafkaBroker, policy: Any) -> None:
    topic = broker.new_topic("expired")
    broker.produce(topic, rows(*range(6)))
    broker.delete_records(topic, 0, 4)
    source = stream(broker, topic, start="offsets", offsets=((topic, 0, 1),), on_expired=policy)
    if policy == "fail":
        fails(source, DataError, r"longer has offset 1: .* first available offset is 4, so 3 rec")
        return
    with reading(source) as found:
        if policy == "earliest":
            assert [one["id"] for one in found.until(2)] == [4, 5]
            return
        produced = 6  # what comes before the reader has found the end may be left out
        while not found.rows:
            broker.produce(topic, rows(produced))
            found.once()
            produced += 1
        want = list(range(first := found.rows[0]["id"], produced))
        assert first >= 6
        assert [one["id"] for one in found.until(len(want))] == want


def test_a_topic_that_was_made_anew(broker: KafkaBroker) -> None:
    topic = broker.new_topic("anew")
    broker.produce(topic, rows(1, 2))
    source = stream(broker, topic)
    with reading(source) as found:
        found.until(2)
        at = found.reader.positions()
    broker.delete_topic(topic)
    broker.create_topic(topic, 1)
    broker.produce(topic, rows(3, 4, 5))
    fails(source, DataError, "was recreated: its topic id changed", positions=at)
    with reading(replace(source, on_expired="earliest"), positions=at) as found:
        assert [one["id"] for one in found.until(3)] == [3, 4, 5]


def test_a_topic_that_is_gone(broker: KafkaBroker) -> None:
    topic = broker.new_topic("gone")
    source = stream(broker, topic, discover_s=0.3)
    with reading(source) as found:
        broker.produce(topic, rows(1))
        found.until(1)
        broker.delete_topic(topic)
        with pytest.raises(NotFoundError, match=f"there is no topic '{topic}'"):
            found.until(2)


POISON = [b"\x00\xff", b"", b"{", b'{"id": 1}{"id": 2}', b'{"id": "x"}', b"[1]"]


def test_bad_records_are_left_out_and_told(broker: KafkaBroker) -> None:
    topic = broker.new_topic("bad")
    broker.produce(topic, [one for p in POISON for one in (row(7), (b"k", p))])
    source = stream(broker, topic, on_bad="side")
    with reading(source) as found:
        ids = [one["id"] for one in found.until(len(POISON))]
        while len(found.bad) < len(POISON):
            found.once()
    assert ids == [7] * len(POISON)
    assert [(one.topic, one.partition, one.offset, one.data) for one in found.bad] == [
        (topic, 0, 2 * n + 1, data) for n, data in enumerate(POISON)
    ]
    assert all(one.error for one in found.bad)
    fails(
        replace(source, on_bad="fail"), DataError,
        rf"offset 1 of topic '{topic}', partition 0, cannot be read: .*on_bad=\"skip\"",
    )  # fmt: skip


def test_a_key_that_is_no_text(broker: KafkaBroker) -> None:
    topic = broker.new_topic("badkey")
    broker.produce(topic, [row(1), (b"\xff", row(2)[1]), row(3)])
    source = stream(broker, topic, key=("key",), key_format=RowFormat("text"), on_bad="skip")
    with reading(source) as found:
        assert [(one["key"], one["id"]) for one in found.until(2)] == [("k1", 1), ("k3", 3)]
    assert [(one.offset, one.data) for one in found.bad] == [(1, b"\xff")]


def test_a_topic_or_broker_that_is_not_there(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFoundError, match=r"there is no topic 'nothing' at 127.0.0.1"):
        enumerate_partitions(stream(broker, "nothing"))
    monkeypatch.setattr("fabric.io.kafka.metadata.ANSWER_S", 1.0)
    away = KafkaStream("127.0.0.1:9", ("t",))
    with pytest.raises(ExternalError, match=r"no broker at 127.0.0.1:9 answered within 1 s"):
        enumerate_partitions(away)


def test_a_broker_that_dies_and_comes_back() -> None:
    with own_broker() as broker:
        topic = broker.new_topic("dies", 2)
        for partition in (0, 1):
            broker.produce(topic, rows(*range(50)), partition=partition)
        source = stream(broker, topic)
        with reading(source) as found:
            found.until(10, rows_max=1)
            broker.kill()
            with suppress(AssertionError):
                found.once()
            broker.start()
            for partition in (0, 1):
                broker.produce(topic, rows(*range(50, 60)), partition=partition)
            places = [(one["p"], one["o"]) for one in found.until(120)]
            broker.stop()
            found.once()
            broker.start()
            broker.produce(topic, rows(60), partition=1)
            places.append(tuple(found.until(121)[-1][name] for name in ("p", "o")))
    assert sorted(places) == sorted([(p, o) for p in (0, 1) for o in range(60)] + [(1, 60)])


def test_no_more_is_read_than_was_said() -> None:
    clock = ManualClock()
    source = KafkaStream("h:1", ("t",), rows_per_s=100, bytes_per_s=20_000)
    budget = Budget(source, 2, clock)  # of two tasks
    rows, n_bytes, wait_s = budget.left()
    assert (rows, n_bytes, wait_s) == (5, 1_000, 0.0)
    budget.spend(5, 500)
    rows, _, wait_s = budget.left()
    assert (rows, wait_s) == (0, pytest.approx(0.02))
    clock.advance(0.02)
    assert budget.left()[0] == 1
    budget.spend(1, 11_000)  # one large record is read whole, and paid for
    assert budget.left()[2] == pytest.approx(1.03, abs=0.05)
    clock.advance(60.0)
    assert budget.left()[:2] == (5, 1_000), "no more than a tenth of a second is kept"
    assert Budget(KafkaStream("h:1", ("t",)), 2, clock).left()[0] > 1 << 40


def test_ended_splits_are_said_once(broker: KafkaBroker) -> None:
    topic = broker.new_topic("ends", 3)
    source = stream(broker, topic, until="now")
    reader = open_reader(source, kafka_schema(source, None, VALUES))
    reader.open(enumerate_partitions(source))
    ended = []
    while (polled := reader.poll(10, 0.05)) is not END:
        if isinstance(polled, Ended):
            ended.append(polled.split)
    reader.close()
    assert sorted(ended) == [f"{topic}-{partition}" for partition in range(3)]


def no_bounds(_asking: metadata.MetadataRequests, place: tuple[str, int]) -> tuple[int, int]:
    raise ExternalError(f"partition {place[1]} of {place[0]} has no leader")


def test_topics_are_looked_at_while_a_question_is_not_answered(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again and again, and is next in line each time."""
    monkeypatch.setattr(attendant, "AGAIN_S_MAX", 0.02)
    monkeypatch.setattr(metadata.MetadataRequests, "bounds", no_bounds)
    topic = broker.new_topic("unanswered", 1)
    source = stream(broker, topic, discover_s=0.05)
    with client().Reader(configuration(source)) as reader:
        asked = attendant.Attendant(source, reader, lambda: None)
        try:
            asked.ask_bounds((topic, 0))
            until_s, looks = time.monotonic() + WAIT_S, 0
            while looks < 3 and time.monotonic() < until_s:
                looks += sum(isinstance(answer, attendant.Seen) for answer in asked.take())
                time.sleep(0.02)
            assert looks >= 3
        finally:
            asked.close()
