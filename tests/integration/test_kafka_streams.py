"""Kafka's topics through whole jobs: windows, sides, agents that are lost, partitions that come."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import fabric
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.control.errors import from_detail
from fabric.coordinator.config import CoordinatorConfig
from fabric.errors import DataError, NotFoundError
from fabric.plan.nodes import Node, SideOutput, Sink
from fabric.plan.targets import StreamFileTarget
from tests.services.kafka import KafkaBroker, kafka_broker
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(120)
SCHEMA = {"id": "int64", "user": "string", "at": "timestamp[us]"}
BEGIN = datetime(2024, 1, 1)
N_ROWS = 400


@pytest.fixture(scope="module")
def broker() -> KafkaBroker:
    return kafka_broker()


def record(number: int) -> tuple[bytes, bytes]:
    at = BEGIN + timedelta(seconds=number)
    row = {"id": number, "user": f"u{number % 5}", "at": at.isoformat()}
    return row["user"].encode(), json.dumps(row).encode()  # type: ignore[attr-defined]


def read(broker: KafkaBroker, topic: str, **options: Any) -> fabric.DataFrame:
    return fabric.read_kafka(topic, servers=broker.servers, schema=SCHEMA, **options)


def test_windows_by_key(broker: KafkaBroker) -> None:
    topic = broker.new_topic("windows", 4)
    broker.produce(topic, map(record, range(N_ROWS)))
    rows = read(broker, topic, until="now").with_watermark("at", "10 minutes")
    found = rows.group_by("user").window("1 minute").count().collect()
    want = Counter((f"u{n % 5}", BEGIN + timedelta(minutes=n // 60)) for n in range(N_ROWS))
    got = zip(found["user"].to_pylist(), found["window_start"].to_pylist(), strict=True)
    assert dict(zip(got, found["count"].to_pylist(), strict=True)) == want


def test_dead_letters_are_a_stream_of_their_own(broker: KafkaBroker) -> None:
    topic = broker.new_topic("dead", 2)
    for partition in (0, 1):
        broker.produce(topic, [record(1), (b"k", b"{no"), record(2)], partition=partition)
    rows = read(broker, topic, until="now", on_bad="side")
    assert rows.select("id").collect()["id"].to_pylist() == [1, 2] * 2
    dead = rows.side_output("unreadable").collect().to_pylist()
    places = [(one["topic"], one["partition"], one["offset"], one["data"]) for one in dead]
    assert sorted(places) == [(topic, partition, 1, b"{no") for partition in (0, 1)]


def test_what_only_brokers_know_is_an_error_before_anything_runs(broker: KafkaBroker) -> None:
    with pytest.raises(NotFoundError, match=r"there is no topic 'no-such-topic' at 127.0.0.1"):
        read(broker, "no-such-topic", until="now").collect()
    topic = broker.new_topic("poison")
    broker.produce(topic, [record(0), (b"k", b"\x00")])
    with pytest.raises(DataError, match=rf"offset 1 of topic '{topic}', partition 0, cannot be"):
        read(broker, topic, until="now").collect()


class Running:
    """An endless stream into files, with checkpoints."""

    def __init__(self, made: EmbeddedFabric, plan: Node) -> None:
        self._fabric = made
        self._job = made.submit(plan, parallelism=2)

    def go_on(self) -> None:
        """Two more checkpoints are published, and the job runs."""
        first = self.newest()
        wait_until(lambda: self.newest() >= first + 2, 60)
        assert self.status().state == pb.JOB_RUNNING

    def lose(self, agent: int) -> None:
        """An agent leaves: all goes back to the last good checkpoint."""
        self._fabric.agents[agent].close()

    def cancel(self) -> None:
        self._fabric.control.cancel(pb.JobRequest(job_id=self._job))
        wait_until(lambda: self.status().state == pb.JOB_CANCELLED, 60)

    def newest(self) -> int:
        asked = pb.CheckpointsRequest(job_id=self._job)
        told = self._fabric.control.list_checkpoints(asked).checkpoints
        return max((one.checkpoint for one in told if one.state == "published"), default=0)

    def status(self) -> pb.JobStatus:
        return self._fabric.control.status(pb.JobRequest(job_id=self._job))

    def rows_in(self) -> int:
        """Rows that the source's tasks have read."""
        return max((stage.rows_in for stage in self.status().stages), default=0)

    def counts(self) -> dict[str, int]:
        return {each.name: each.n for stage in self.status().stages for each in stage.counts}


@contextmanager
def running(folder: Path, plan: Node) -> Iterator[Running]:
    checkpoint = CheckpointConfig(folder=str(folder / "checkpoints"), interval_s=0.2)
    with embedded_pair(3, slots=2, config=CoordinatorConfig(checkpoint=checkpoint)) as made:
        yield Running(made, plan)


def seen(folder: Path) -> list[Any]:
    table = ds.dataset(folder).to_table() if folder.exists() else pa.table({"id": []})
    return sorted(table["id"].to_pylist()) if "id" in table.column_names else []


def test_each_row_is_written_once_while_agents_go_and_partitions_come(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = broker.new_topic("once", 2)
    broker.produce(topic, map(record, range(100)))
    rows = read(broker, topic, discover="200 milliseconds", group=topic)
    # Rows of a partition that was found are no later for that: their own watermark counts.
    timed = rows.with_watermark("at", "1 hour")
    out = tmp_path / "out"
    plan = Sink(timed.plan.root, StreamFileTarget("parquet", str(out)), path="out")
    with running(tmp_path, plan) as job:
        wait_until(lambda: seen(out) == list(range(100)), 60)
        broker.add_partitions(topic, 5)
        for partition in range(2, 5):
            numbers = range(100 * partition, 100 * partition + 50)
            broker.produce(topic, map(record, numbers), partition=partition)
        want = [*range(100), *(100 * p + n for p in range(2, 5) for n in range(50))]
        wait_until(lambda: seen(out) == want, 60)
        job.go_on()
        job.lose(0)
        broker.produce(topic, map(record, range(1_000, 1_100)))
        want += range(1_000, 1_100)
        wait_until(lambda: seen(out) == want, 60)
        job.go_on()
        wait_until(lambda: job.counts().get("records_behind", 0) == 0, 60)
        wait_until(lambda: sum(broker.committed(topic, topic).values()) == len(want), 60)
        job.cancel()
    assert seen(out) == want


def test_bad_records_are_counted_and_go_to_files_once(broker: KafkaBroker, tmp_path: Path) -> None:
    topic = broker.new_topic("counted")
    broker.produce(topic, [record(1), (b"k", b"["), record(2)])
    out = tmp_path / "out"
    rows = read(broker, topic, on_bad="side").plan.root
    target = StreamFileTarget("parquet", str(out))
    plan = Sink(SideOutput(rows, "unreadable", path="side"), target, path="out")
    with running(tmp_path, plan) as job:
        wait_until(lambda: job.newest() >= 2 and out.exists(), 60)
        job.go_on()
        job.lose(1)
        job.go_on()
        assert job.counts()["unreadable"] <= 1
        job.cancel()
    assert ds.dataset(out).to_table().select(["offset", "data"]).to_pylist() == [
        {"offset": 1, "data": b"["}
    ]


def test_rows_of_a_partition_that_comes_are_in_their_windows(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    """It holds the watermark back from when it is found."""
    topic = broker.new_topic("held")
    broker.produce(topic, map(record, range(90)), partition=0)
    rows = read(broker, topic, discover="100 milliseconds").with_watermark("at", "1 minute")
    twice = fabric.udf(lambda number: number * 2, returns="int64", compile=False)
    windows = rows.with_columns(two=twice("id")).group_by("user").window("1 minute")
    counted = windows.agg(fabric.count().alias("n"), fabric.col("two").sum().alias("two"))
    out = tmp_path / "out"
    plan = Sink(counted.plan.root, StreamFileTarget("parquet", str(out)), path="out")
    with running(tmp_path, plan) as job:
        job.go_on()
        broker.add_partitions(topic, 2)
        broker.produce(topic, map(record, range(90, 100)), partition=1)
        wait_until(lambda: job.rows_in() == 100, 60)
        broker.produce(topic, map(record, range(1_000, 1_010)), partition=0)
        broker.produce(topic, map(record, range(1_010, 1_020)), partition=1)
        want = Counter((f"u{n % 5}", BEGIN + timedelta(minutes=n // 60)) for n in range(100))
        wait_until(lambda: len(windows_in(out)) >= len(want), 60)
        job.cancel()
    assert windows_in(out) == want


def windows_in(folder: Path) -> dict[tuple[str, datetime], int]:
    if not folder.exists() or not any(folder.iterdir()):
        return {}
    found = ds.dataset(folder, format="parquet").to_table().to_pylist()
    counts = {(one["user"], one["window_start"]): one["n"] for one in found}
    assert len(counts) == len(found), "a window was put out twice"
    return counts


def test_a_topic_that_vanishes_ends_its_job_by_name(broker: KafkaBroker, tmp_path: Path) -> None:
    topic = broker.new_topic("vanishes")
    broker.produce(topic, map(record, range(10)))
    rows = read(broker, topic, discover="200 milliseconds").plan.root
    plan = Sink(rows, StreamFileTarget("parquet", str(tmp_path / "out")), path="out")
    with running(tmp_path, plan) as job:
        job.go_on()
        broker.delete_topic(topic)
        wait_until(lambda: job.status().state == pb.JOB_FAILED, 60)
        error = from_detail(job.status().error)
    assert isinstance(error, NotFoundError)
    assert f"there is no topic '{topic}'" in str(error)


def test_a_moment_is_utc(broker: KafkaBroker) -> None:
    topic = broker.new_topic("moment")
    broker.produce(topic, [(*record(0), 5_000)])
    rows = read(broker, topic, until="now", timestamp="written").select("written").collect()
    assert rows["written"].to_pylist() == [datetime.fromtimestamp(5, UTC)]
