"""Publishing to Kafka, again and beside others: each portion is seen once.

The names T-EO-… are those of the exactly-once sink tests: an older attempt's open publish is fenced
(3), markers rise by one (4), two publish at once (5), a commit without an answer (6), an epoch
without rows (8), fewer subtasks than before (9).
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from fabric import failpoints
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import (
    CancelledError,
    DataError,
    ExternalError,
    FabricError,
    PlanError,
    StorageError,
)
from fabric.ids import TaskId
from fabric.io.kafka.markers import Markers
from fabric.io.kafka.publisher import Publisher
from fabric.io.kafka.settings import configuration
from fabric.io.kafka.staging import Stored
from fabric.io.sinks import kafka, take_back
from fabric.io.sinks.protocol import Handle, SinkStart, unfolded
from fabric.operators.contract import Operator
from fabric.operators.node_operators import operator_of
from fabric.plan.event_windows import Count
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import StageInput, StreamAggregate
from fabric.plan.schema import schema_of
from fabric.plan.targets import KafkaTarget
from fabric.testing.operators import Rows, run_rescaled
from tests.services.kafka import kafka_broker
from tests.services.topics import Topics
from tests.support.leaks import n_kafka_threads
from tests.support.wait import wait_until

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
JOB = iter(f"job-{number}" for number in range(1000))


class Rig:
    """A topic, a job's folder, and publishers, each as of a process of its own."""

    def __init__(self, folder: Path, broker: Topics) -> None:
        self.folder, self.broker = folder, broker
        self.topic = broker.new_topic("published", partitions=2)
        self.target, self.schema = KafkaTarget(broker.servers, self.topic), SCHEMA
        self.job = f"{next(JOB)}-{self.topic}"
        self.publishers: list[Publisher] = []
        self._n = 0

    def publisher(self, **options: float) -> Publisher:
        self.publishers.append(Publisher(**options))
        return self.publishers[-1]

    def rows(self, n: int) -> pa.RecordBatch:
        numbers = range(self._n, self._n + n)
        self._n += n
        return pa.record_batch([[f"k{i % 7}" for i in numbers], list(numbers)], schema=SCHEMA)

    def task(self, number: int, *, run: int = 1, n_tasks: int = 1) -> Any:
        task = TaskId(self.job, 0, number)
        return kafka.open_stream(
            self.target, self.schema, task, n_tasks, SinkStart(run, str(self.folder))
        )

    def portion(self, n: int, *, task: int = 0, run: int = 1) -> list[dict[str, Any]]:
        """What one task prepares for a checkpoint of its own."""
        writer = self.task(task, run=run)
        writer.write(self.rows(n))
        return facts_of(writer.prepare(1))

    def seen(self) -> Counter[int]:
        found = [json.loads(record.value or b"")["n"] for record in self.broker.records(self.topic)]
        return Counter(found)

    def check(self, n: int) -> None:
        assert self.seen() == Counter(range(n))

    def transactions(self) -> dict[bytes, list[int]]:
        """The numbers of all markers of the job, by subtask."""
        found: dict[bytes, list[int]] = {}
        for record in self.broker.records("fabric-markers"):
            if record.key and record.value and json.loads(record.key)[0] == self.job:
                told = found.setdefault(record.key, [])
                told.append(json.loads(record.value)["transaction"])
        return found


def facts_of(handle: bytes) -> list[dict[str, Any]]:
    return [each.facts for each in unfolded([handle])]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, kafka_broker())
    yield made
    for publisher in made.publishers:
        publisher.close()


def failing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The next time somebody comes by `name`, it raises, as where a connection ends."""
    raised = threading.Event()

    def reach(point: str) -> None:
        if point == name and not raised.is_set():
            raised.set()
            raise ExternalError(f"lost at {name}")

    monkeypatch.setattr(failpoints, "reach", reach)


def test_again_is_once(rig: Rig) -> None:
    first, second = rig.portion(100), rig.portion(50, task=1)
    one, two = rig.publisher(), rig.publisher()
    for publisher in (one, one, two, one):
        publisher.publish(rig.target, [*first, *second])
    rig.check(150)
    assert list(rig.transactions().values()) == [[1], [1]]
    assert not any(Path(facts["path"]).exists() for facts in (*first, *second))


def test_an_agent_that_publishes_no_more_keeps_no_producer(rig: Rig) -> None:
    """As one that published for an agent that was away."""
    publisher = rig.publisher(idle_s=0.2)
    before = n_kafka_threads()
    publisher.publish(rig.target, [*rig.portion(10), *rig.portion(5, task=1)])
    wait_until(lambda: n_kafka_threads() <= before)
    publisher.publish(rig.target, rig.portion(5, run=2))
    wait_until(lambda: n_kafka_threads() <= before)
    rig.check(20)
    assert sorted(rig.transactions().values()) == [[1], [1, 2]]


def test_an_epoch_without_rows_is_no_transaction(rig: Rig) -> None:
    writer, publisher = rig.task(0), rig.publisher()
    for checkpoint, n in enumerate((3, 0, 0, 2), 1):
        writer.write(rig.rows(n))
        found = facts_of(writer.prepare(checkpoint))
        assert len(found) == (n > 0)
        if found:
            publisher.publish(rig.target, found)
        writer.on_complete(checkpoint)
    rig.check(5)
    assert list(rig.transactions().values()) == [[1, 2]]


@pytest.mark.parametrize("point", ["kafka.begun", "kafka.flushed", "kafka.committed"])
def test_what_a_publisher_left_is_decided_by_the_marker(
    rig: Rig, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-EO-6 where the answer to a commit is lost; T-EO-2 of the points before."""
    publisher, facts = rig.publisher(), rig.portion(20)
    failing(monkeypatch, point)
    with pytest.raises(ExternalError, match=f"lost at {point}"):
        publisher.publish(rig.target, facts)
    publisher.publish(rig.target, facts)
    publisher.publish(rig.target, rig.portion(5, run=2))
    rig.check(25)
    assert list(rig.transactions().values()) == [[1, 2]]


@pytest.mark.parametrize("stops_at", ["kafka.begun", "kafka.flushed"])
def test_an_older_publisher_is_fenced_in_mid_transaction(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, stops_at: str
) -> None:
    """T-EO-3: one that stopped with no or all records sent wakes after others have published.

    The files of those that it has not sent are gone by then.
    """
    old, new, facts = rig.publisher(), rig.publisher(), rig.portion(20)
    stopped, goes_on, errors = threading.Event(), threading.Event(), list[FabricError]()

    def reach(point: str) -> None:
        if point == stops_at and threading.current_thread() is zombie:
            stopped.set()
            assert goes_on.wait(60)

    def run() -> None:
        try:
            old.publish(rig.target, facts)
        except FabricError as error:
            errors.append(error)

    zombie = threading.Thread(target=run)
    monkeypatch.setattr(failpoints, "reach", reach)
    zombie.start()
    assert stopped.wait(60)
    new.publish(rig.target, facts)
    new.publish(rig.target, rig.portion(5, run=2))
    goes_on.set()
    zombie.join(60)
    assert not zombie.is_alive()
    assert [error.retryable for error in errors] == [True], "fenced, and it says so"
    old.publish(rig.target, facts)
    rig.check(25)
    assert list(rig.transactions().values()) == [[1, 2]]


def test_many_publish_the_same_at_once(rig: Rig) -> None:
    """T-EO-5."""
    facts = [*rig.portion(30), *rig.portion(30, task=1)]
    refused: list[bool] = []

    def run(publisher: Publisher) -> None:
        for _ in range(20):
            try:
                publisher.publish(rig.target, facts)
            except FabricError as error:
                refused.append(error.retryable)
            else:
                return

    threads = [threading.Thread(target=run, args=(rig.publisher(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert all(refused)
    rig.check(60)
    assert list(rig.transactions().values()) == [[1], [1]]


class Rescaled:
    """The sinks of tasks whose number changes: each time some of the publishing breaks off."""

    def __init__(self, rig: Rig, lost_at: list[str]) -> None:
        self.rig, self.lost_at, self.owed = rig, lost_at, list[dict[str, Any]]()
        self.dies_at = ""
        self._writers: list[Any] = []

    def begin(self, turn: int, n_tasks: int) -> None:
        """What is owed is published by somebody else, before anything else."""
        if self.owed:
            self.rig.publisher().publish(self.rig.target, self.owed)
        tasks = range(n_tasks)
        self._writers = [self.rig.task(i, run=turn + 1, n_tasks=n_tasks) for i in tasks]

    def write(self, task: int, batch: pa.RecordBatch) -> None:
        """Rows of a task."""
        self._writers[task].write(batch)

    def barrier(self, turn: int) -> None:
        """All are prepared; whoever publishes is lost at each of the places, half through."""
        handles = [writer.prepare(turn + 1) for writer in self._writers]
        self.owed = [facts for handle in handles for facts in facts_of(handle)]
        for point in self.lost_at:
            self.dies_at = point
            with pytest.raises(ExternalError, match="lost at"):
                self.rig.publisher().publish(self.rig.target, self.owed)
        self.dies_at = ""


def test_other_numbers_of_subtasks_publish_what_old_ones_owe(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-EO-9, at 2, 3 and 1 subtasks of a window: transactions that are left open are ended."""
    lost_at = ["kafka.flushed", "kafka.begun", "kafka.committed"]
    sinks = Rescaled(rig, lost_at)

    def reach(point: str) -> None:
        if sinks.dies_at == point:
            raise ExternalError(f"lost at {point}")

    monkeypatch.setattr(failpoints, "reach", reach)
    rows = pa.record_batch({"k": [n % 5 for n in range(60)], "v": list(range(60))})
    steps: list[Any] = [Rows(rows.slice(begin, 10)) for begin in range(0, 60, 10)]
    total = Alias(Agg("sum", Column("v")), "total")
    node = StreamAggregate(StageInput(0, rows.schema), (Column("k"),), (total,), Count(3))
    rig.schema = pa.schema([(f.name, f.type) for f in schema_of(node)])

    def make() -> Operator:
        operator = operator_of(node, schema_of(node), [rows.schema])
        assert operator is not None
        return operator

    found = run_rescaled(make, steps, [2, 3, 1], keys=["k"], sinks=sinks)
    rig.publisher().publish(rig.target, sinks.owed)
    expected = [tuple(row.values()) for batch in found.rows for row in batch.to_pylist()]
    records = [json.loads(r.value or b"") for r in rig.broker.records(rig.topic)]
    assert sorted(tuple(row.values()) for row in records) == sorted(expected)
    assert len(expected) >= 20
    for told in rig.transactions().values():
        assert told == list(range(1, len(told) + 1))


def written_by(writer: Any, batch: pa.RecordBatch) -> tuple[threading.Thread, list[FabricError]]:
    """A thread that writes until it is done or refused."""
    errors = list[FabricError]()

    def run() -> None:
        try:
            writer.write(batch)
        except FabricError as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, errors


def test_a_task_waits_for_brokers_that_are_slower(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No epoch grows beyond one that is being published; what is not complete is never awaited."""
    monkeypatch.setattr(kafka, "AHEAD_BYTES", 1)
    writer, publisher = rig.task(0), rig.publisher()
    writer.write(rig.rows(20_000))
    first = facts_of(writer.prepare(1))
    writer.write(rig.rows(40_000))
    writer.write(rig.rows(20_000))  # checkpoint 1 is not complete: it may need this task's barrier
    writer.on_complete(1)
    thread, errors = written_by(writer, rig.rows(10))
    wait_until(lambda: writer.waits)
    publisher.publish(rig.target, first)
    thread.join(30)
    assert not thread.is_alive()
    assert not errors
    assert not writer.waits
    publisher.publish(rig.target, facts_of(writer.prepare(2)))
    writer.on_complete(2)
    writer.write(rig.rows(20_000))
    writer.write(rig.rows(10))
    publisher.publish(rig.target, facts_of(writer.prepare(3)))
    rig.check(100_020)


@pytest.mark.parametrize("end", ["interrupt", "abandon"])
def test_a_task_that_waits_for_brokers_can_be_ended(
    rig: Rig, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "AHEAD_BYTES", 1)
    writer = rig.task(0)
    writer.write(rig.rows(20_000))
    writer.prepare(1)
    writer.on_complete(1)
    writer.write(rig.rows(40_000))
    thread, errors = written_by(writer, rig.rows(10))
    wait_until(lambda: writer.waits)
    getattr(writer, end)()
    thread.join(30)
    assert not thread.is_alive()
    assert [type(error) for error in errors] == [CancelledError]
    writer.abandon()


def test_a_task_removes_what_earlier_runs_left(rig: Rig) -> None:
    kept = rig.portion(3, run=2)
    (gone,) = rig.portion(3, task=3, run=1)
    rig.task(1, run=2, n_tasks=2)
    assert not Path(gone["path"]).exists()
    assert Path(kept[0]["path"]).exists()


def test_records_that_are_not_what_was_written_are_refused(rig: Rig) -> None:
    (facts,) = rig.portion(100)
    data = bytearray(Path(facts["path"]).read_bytes())
    data[-200] ^= 1
    Path(facts["path"]).write_bytes(data)
    with pytest.raises(DataError, match=r"the staged records in .* are corrupt"):
        rig.publisher().publish(rig.target, [facts])
    Stored(facts).remove()
    with pytest.raises(StorageError, match=r"are missing: .* does not exist"):
        rig.publisher().publish(rig.target, [facts])
    assert rig.seen() == Counter()


def test_nothing_is_taken_back(rig: Rig) -> None:
    handle = Handle(kafka.KIND, rig.portion(1)[0]).encode()
    with pytest.raises(PlanError, match=f"committed to {rig.topic} can't be taken back"):
        take_back([handle], [], rig.target)
    take_back([handle], [handle], rig.target)  # which a restored checkpoint keeps


def test_a_job_that_has_ended_leaves_nothing(rig: Rig) -> None:
    kafka.publish([Handle(kafka.KIND, rig.portion(5)[0])], rig.target)
    markers = Markers(configuration(rig.target), rig.target.markers)
    assert len(markers.of_job(rig.job)) == 1
    rig.portion(5)
    kafka.discard(rig.target, rig.job, 0, str(rig.folder), published=True)
    assert markers.of_job(rig.job) == {}
    assert list(rig.folder.iterdir()) == []


def test_a_forgotten_job_leaves_no_records(rig: Rig) -> None:
    rig.portion(5)
    FolderStorage(rig.folder).remove_job(rig.job)
    assert list(rig.folder.iterdir()) == []


def test_a_broker_that_does_not_know_the_topic_of_markers_yet_is_asked_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several brokers not each has heard of a topic that was just made."""
    ask, gone = AdminClient.describe_configs, ConfigResource(ConfigResource.Type.TOPIC, "nowhere")
    asked: list[ConfigResource] = []

    def describe(admin: AdminClient, resources: list[ConfigResource], **options: Any) -> Any:
        asked.extend(resources)
        other = gone if len(asked) == 1 else resources[0]
        return {resources[0]: ask(admin, [other], **options)[other]}

    monkeypatch.setattr(AdminClient, "describe_configs", describe)
    assert Markers(configuration(rig.target), rig.target.markers).of_job(rig.job) == {}
    assert len(asked) == 2
