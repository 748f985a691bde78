"""Kafka as a sink, on a real broker: what consumers see is each row once, or as it was promised."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

import fabric as fb
from fabric import col, streams
from fabric.clients.dataframe.verbs.kafka import upserted
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.errors import (
    AuthError,
    ConfigError,
    DataError,
    FabricError,
    NotFoundError,
    PlanError,
)
from fabric.io.readers import stream_schema
from fabric.plan.nodes import Sink, StreamScan
from fabric.plan.sources import GeneratorStream
from fabric.plan.targets import Guarantee, KafkaTarget
from tests.services.kafka import SharedBroker, kafka_broker, own_broker
from tests.services.sasl import PASSWORD, sasl_broker
from tests.support.buckets import keys, url_of
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.held import held
from tests.support.wait import wait_until

N_ROWS, N_SPLITS = 6_000, 3
ALL = {(split, row) for split in range(N_SPLITS) for row in range(N_ROWS // N_SPLITS)}


@pytest.fixture(scope="module")
def broker() -> SharedBroker:
    return kafka_broker()


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[EmbeddedFabric]:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    config = CoordinatorConfig(checkpoint=CheckpointConfig(folder=str(folder), interval_s=0.3))
    with embedded_pair(3, slots=4, config=config) as made:
        yield made
    left = [path for path in folder.rglob("*") if path.is_file() and path.parent.name == "sinks"]
    assert left == [], "records that are published, or never will be, are gone"


def into(target: KafkaTarget, rows_per_s: int) -> Sink:
    source = GeneratorStream(n_rows=N_ROWS, n_splits=N_SPLITS, rows_per_s=rows_per_s)
    return Sink(StreamScan(source, stream_schema(source), path="made"), target, path="out")


def seen(broker: SharedBroker, topic: str) -> Counter[tuple[int, int]]:
    """What a consumer with read_committed sees; it fails when a transaction is left open."""
    rows = [json.loads(record.value or b"") for record in broker.records(topic)]
    return Counter((row["split"], row["row"]) for row in rows)


def markers(broker: SharedBroker, job: str) -> dict[str, list[dict[str, Any]]]:
    """All markers of a job that were committed, by subtask."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in broker.records("fabric-markers"):
        assert record.key is not None
        if record.value and json.loads(record.key)[0] == job:
            found.setdefault(record.key.decode(), []).append(json.loads(record.value))
    return found


def check_markers(broker: SharedBroker, job: str, n_rows: int) -> None:
    """T-EO-4: of each subtask they rise by one, and tell of all rows."""
    by_task = markers(broker, job)
    for told in by_task.values():
        assert [each["transaction"] for each in told] == list(range(1, len(told) + 1))
        places = [(each["run"], each["number"]) for each in told]
        assert all(one < two for one, two in pairwise(places))
    assert sum(told[-1]["rows"] for told in by_task.values()) == n_rows


def published(fabric: EmbeddedFabric, job: str) -> int:
    told = fabric.control.list_checkpoints(pb.CheckpointsRequest(job_id=job)).checkpoints
    return max((one.checkpoint for one in told if one.state == "published"), default=0)


@pytest.fixture
def in_store(bucket: Path) -> Iterator[EmbeddedFabric]:
    """Its checkpoints, and what sinks have staged, lie in an object store."""
    checkpoint = CheckpointConfig(folder=url_of(bucket, "streams"), interval_s=0.3)
    with embedded_pair(3, slots=4, config=CoordinatorConfig(checkpoint=checkpoint)) as made:
        yield made
    left = [key for key in keys(bucket) if "/sinks/" in key]
    assert left == [], "records that are published, or never will be, are gone"


@pytest.mark.parametrize("made", ["fabric", "in_store"])
def test_rows_are_seen_once_when_agents_leave(
    made: str, broker: SharedBroker, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    fabric: EmbeddedFabric = request.getfixturevalue(made)
    topic = broker.new_topic("once", partitions=3)
    with held(tmp_path / "held"):
        job = fabric.submit(into(KafkaTarget(broker.servers, topic), 5000), parallelism=3)
        for agent in (fabric.agents[2], fabric.agents[1]):
            first = published(fabric, job)
            wait_until(lambda first=first: published(fabric, job) > first, 60)
            agent.close()
    fabric.wait(job)
    found = seen(broker, topic)
    assert set(found) == ALL
    assert set(found.values()) == {1}
    check_markers(broker, job, N_ROWS)


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_what_less_is_promised_is_held(
    fabric: EmbeddedFabric, broker: SharedBroker, guarantee: Any, tmp_path: Path
) -> None:
    topic = broker.new_topic("less", partitions=3)
    target = KafkaTarget(broker.servers, topic, guarantee=guarantee)
    with held(tmp_path / "held"):
        job = fabric.submit(into(target, 5000), parallelism=3)
        wait_until(lambda: published(fabric, job) > 0, 60)
        fabric.agents[2].close()
    fabric.wait(job)
    found = seen(broker, topic)
    if guarantee == "at_least_once":
        assert set(found) == ALL
    else:
        assert set(found.values()) == {1}


def test_results_that_change_are_upserts(fabric: EmbeddedFabric, broker: SharedBroker) -> None:
    topic = broker.new_topic("upserts", partitions=2)
    rows = streams.generator(n_rows=4000, rows_per_s=4000, n_splits=2, n_keys=20)
    counted = rows.group_by("key").count()
    written = streams.to_kafka(topic, servers=broker.servers, key="key", key_format="json")
    node, target = upserted(counted._node, written)
    fabric.wait(fabric.submit(Sink(node, target, path="out"), parallelism=2))
    last = {record.key: json.loads(record.value or b"") for record in broker.records(topic)}
    assert sum(row["count"] for row in last.values()) == 4000
    assert all(set(row) == {"key", "count"} for row in last.values())


def test_every_part_of_a_record(broker: SharedBroker) -> None:
    topics = [broker.new_topic(name, partitions=3) for name in ("left", "right")]
    table = pa.table(
        {
            "id": ["a", None, "c"],
            "at": pa.array([500, 1500, 2500], pa.timestamp("ms", "UTC")),
            "to": [topics[0], topics[1], topics[0]],
            "where": pa.array([2, 0, 1], pa.int64()),
            "extra": pa.array(
                [[("h", b"1"), ("h", None)], None, []], pa.map_(pa.string(), pa.binary())
            ),
            "n": [1, 2, None],
        }
    )
    fb.DataFrame(table).write_kafka(
        col("to"), servers=broker.servers, key="id", partitioner=col("where"), headers="extra",
        timestamp="at", columns=["n"],
    )  # fmt: skip
    left, right = broker.records(topics[0]), broker.records(topics[1])
    assert [(r.partition, r.key, json.loads(r.value or b""), r.timestamp_ms) for r in left] == [
        (1, b"c", {"n": None}, 2500), (2, b"a", {"n": 1}, 500),
    ]  # fmt: skip
    assert [dict(r.headers) if r.headers else {} for r in left] == [{}, {"h": None}]
    assert [(r.partition, r.key, json.loads(r.value or b"")) for r in right] == [
        (0, None, {"n": 2})
    ]


def test_a_record_that_no_topic_takes_is_named(broker: SharedBroker) -> None:
    topic = broker.new_topic("small", partitions=1, max_message_bytes=2000)
    rows = fb.DataFrame({"id": ["a", "b"], "text": ["x", "y" * 3000]})
    with pytest.raises(DataError, match=r"row 1 of task 0 .* makes a record of 3\d\d\d bytes"):
        rows.write_kafka(topic, servers=broker.servers, key="id")
    assert broker.records(topic) == []


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"key": "nr"}, PlanError, 'no column "nr"'),
        ({"key": ["id", "n"]}, PlanError, "a raw key is one column"),
        ({"key": "n"}, PlanError, 'key_format="json"'),
        ({"partitioner": "crc32"}, PlanError, 'partitioner must be "murmur2" or a column'),
        ({"timestamp": "n"}, PlanError, "cannot be the timestamp of a record: it is int64"),
        ({"guarantee": "twice"}, PlanError, "exactly_once"),
        ({"settings": {"acks": "1"}}, ConfigError, "use guarantee="),
        ({"publish_timeout": "20 minutes"}, ConfigError, "transaction.max.timeout.ms"),
        (
            {"transaction_timeout": "59 seconds"},
            ConfigError,
            "is shorter than the checkpoint interval of 0 s",
        ),
        ({"markers": "plain"}, ConfigError, "cleanup.policy=delete"),
        ({"colums": "n"}, PlanError, "columns"),
    ],
)
def test_what_can_not_be_is_refused_before_it_starts(
    broker: SharedBroker, given: dict[str, Any], error: type[FabricError], text: str
) -> None:
    topic = broker.new_topic("refused", partitions=1)
    if given.get("markers"):
        given = {"markers": broker.new_topic("plain", partitions=1)}
    with pytest.raises(error, match=text):
        fb.DataFrame({"id": ["a"], "n": [1]}).write_kafka(topic, servers=broker.servers, **given)
    assert broker.records(topic) == []


def test_a_compacted_topic_wants_a_key(broker: SharedBroker) -> None:
    topic = broker.new_topic("compacted", cleanup_policy="compact")
    rows = fb.DataFrame({"id": ["a"], "n": [1]})
    with pytest.raises(PlanError, match=r"is compacted \(cleanup.policy=compact\).*key="):
        rows.write_kafka(topic, servers=broker.servers)
    rows.write_kafka(topic, servers=broker.servers, key="id")
    assert [record.key for record in broker.records(topic)] == [b"a"]


def test_a_topic_that_is_not_there_is_named(broker: SharedBroker) -> None:
    with pytest.raises(NotFoundError, match='no topic "missing-topic"'):
        fb.DataFrame({"id": ["a"]}).write_kafka("missing-topic", servers=broker.servers)


def test_a_topic_is_never_created_by_its_look_up() -> None:
    """Brokers create what a producer asks about, by default, and with a policy of their own."""
    rows = fb.DataFrame({"id": ["a"]})
    with own_broker({"auto.create.topics.enable": "true"}) as broker:
        for guarantee in get_args(Guarantee):
            with pytest.raises(NotFoundError, match='no topic "typo"'):
                rows.write_kafka("typo", servers=broker.servers, guarantee=guarantee)
        topic = broker.new_topic("there")
        rows.write_kafka(topic, servers=broker.servers)
        assert "typo" not in broker.metadata().topics
        assert broker.topic_configs("fabric-markers")["cleanup.policy"] == "compact"


@pytest.mark.parametrize("setting", [{"sasl.pasword": "x"}, {"socket.timeout.ms": "soon"}])
def test_a_setting_that_is_misspelt_is_named(
    broker: SharedBroker, setting: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match=rf"{next(iter(setting))}.*check .* in settings="):
        fb.DataFrame({"id": ["a"]}).write_kafka("t", servers=broker.servers, settings=setting)


def test_two_jobs_can_not_share_transactional_ids(
    fabric: EmbeddedFabric, broker: SharedBroker
) -> None:
    topic = broker.new_topic("prefix", partitions=1)
    target = KafkaTarget(broker.servers, topic, transactional_prefix=f"pay-{topic}")
    first = fabric.submit(into(target, 1000), parallelism=1)
    wait_until(lambda: published(fabric, first) > 0, 60)
    with pytest.raises(PlanError, match=f"is in use by job {first}"):
        fabric.submit(into(target, 1000), parallelism=1)
    fabric.control.cancel(pb.JobRequest(job_id=first))
    ended = pb.JOB_CANCELLED
    wait_until(lambda: fabric.control.status(pb.JobRequest(job_id=first)).state == ended)
    second = fabric.submit(into(target, 20_000), parallelism=1)
    fabric.wait(second)
    check_markers(broker, second, N_ROWS)


def test_credentials_lie_nowhere(tmp_path: Path) -> None:
    """Over SASL_SSL: a wrong password is refused by name, and a right one is in no file."""
    home = tmp_path / "checkpoints"
    home.mkdir()
    config = CoordinatorConfig(checkpoint=CheckpointConfig(folder=str(home), interval_s=0.3))
    with sasl_broker() as broker, embedded_pair(2, slots=4, config=config) as made:
        topic = broker.new_topic("secret", partitions=2)

        def target(password: str) -> KafkaTarget:
            return streams.to_kafka(
                topic,
                servers=broker.sasl_servers,
                settings=broker.sasl("SCRAM-SHA-512", password),
                markers="markers",
            )

        with pytest.raises(AuthError):
            made.submit(into(target("guessed"), 3000), parallelism=2)
        job = made.submit(into(target(PASSWORD), 3000), parallelism=2)
        wait_until(lambda: published(made, job) > 1, 60)
        stored = b"".join(p.read_bytes() for p in home.rglob("*") if p.is_file())
        assert stored
        assert PASSWORD.encode() not in stored
        made.wait(job)
        rows = [json.loads(record.value or b"") for record in broker.records(topic)]
        assert Counter((row["split"], row["row"]) for row in rows) == Counter(ALL)
