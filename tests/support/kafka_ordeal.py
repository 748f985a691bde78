"""A stream into Kafka that is put through faults, and a consumer that reads all the while.

One job: `KafkaOrdeal`: records through a keyed window of event time into a topic, exactly once, and
`Watcher`, a consumer with read_committed. Each result is seen once; none that was seen is absent
later; markers, counts and rows agree; no transaction is left open.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

import fabric
from fabric.checkpoint.storage import FolderStorage
from fabric.clients.dataframe.targets import to_kafka
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.io.codecs import make_encoder
from fabric.io.readers import generator
from fabric.plan.nodes import Sink
from fabric.plan.places import RowFormat
from fabric.plan.sources import GeneratorStream
from tests.services.topics import Topics
from tests.services.transactions import is_open, transactions
from tests.support.local import LocalFabric
from tests.support.ordeal import PATIENCE_S, Submitted, patiently, wait_idle
from tests.support.wait import wait_until

PARALLELISM, N_SPLITS, N_KEYS = 2, 4, 1_000
GROUP, WRONG_OFFSET = "of-the-ordeal", 1_000_000
START_US, WINDOW_US = 1_767_225_600_000_000, 250_000
Result = tuple[int, int, int, int]
"""Key, the window's begin, rows in it, and their sum."""


class Watcher:
    """Reads a topic from its beginning with read_committed, from now until `close`."""

    def __init__(self, servers: str, topic: str, n_partitions: int) -> None:
        self.records: dict[tuple[int, int], bytes] = {}
        """All that was seen, by partition and offset."""
        self._closing, self._topic, self._n_partitions = threading.Event(), topic, n_partitions
        self._settings: dict[str, Any] = {
            "bootstrap.servers": servers, "group.id": "watcher", "enable.auto.commit": False,
            "isolation.level": "read_committed", "log_level": 0, "reconnect.backoff.max.ms": 500,
        }  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._closing.set()
        self._thread.join(30)

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        places = [
            TopicPartition(self._topic, number, OFFSET_BEGINNING)
            for number in range(self._n_partitions)
        ]
        consumer.assign(places)
        while not self._closing.is_set():
            for record in consumer.consume(1000, 0.1):
                if record.error() is None:
                    place = record.partition() or 0, record.offset() or 0
                    assert place not in self.records, f"{place} was read twice"
                    self.records[place] = record.value() or b""
        consumer.close()


class KafkaOrdeal(Submitted):
    """One stream on a fabric, from a topic into another one."""

    def __init__(
        self,
        running: LocalFabric,
        kafka: Topics,
        *,
        n_rows: int,
        rows_per_s: int,
        transaction_timeout: str | None = None,
    ) -> None:
        self.kafka, self._transaction_timeout = kafka, transaction_timeout
        self.topic = kafka.new_topic("results", partitions=3)
        self._made = GeneratorStream(
            rows_per_s, n_rows, N_KEYS, N_SPLITS, seed=5, start_us=START_US
        )
        checkpoint = pb.Checkpointing(interval_s=0.5, timeout_s=30.0, retained=2)
        super().__init__(running, self._plan_of(), parallelism=PARALLELISM, checkpoint=checkpoint)
        self.watcher = Watcher(kafka.servers, self.topic, 3)

    def _plan_of(self) -> Sink:
        made = self._made
        rows = fabric.read_kafka(
            self._filled(made), servers=self.kafka.servers, schema=_rows(made, 0).schema,
            until="now", rows_per_s=made.rows_per_s, group=GROUP,
        ).with_watermark("ts", "0 seconds")  # fmt: skip
        windows = rows.group_by("key").window(f"{WINDOW_US} us")
        results = windows.agg(n=fabric.count(), total=fabric.sum("row"))
        target = to_kafka(
            self.topic, servers=self.kafka.servers, key="key", key_format="json",
            publish_timeout="20 seconds", transaction_timeout=self._transaction_timeout,
        )  # fmt: skip
        return Sink(results._node, target)

    def _filled(self, made: GeneratorStream) -> str:
        """A topic with all records; the group's offsets are at its end, and mean nothing (T-EO-10).

        What is read is what checkpoints say, so that this loses nothing.
        """
        topic = self.source = self.kafka.new_topic("records", partitions=made.n_splits)
        for split in range(made.n_splits):
            rows = _rows(made, split)
            values = make_encoder(RowFormat("json"), rows.schema).encode(rows).to_pylist()
            self.kafka.produce(topic, [(None, value) for value in values], partition=split)
        consumer = Consumer({"bootstrap.servers": self.kafka.servers, "group.id": GROUP})
        ends = [TopicPartition(topic, split, WRONG_OFFSET) for split in range(made.n_splits)]
        consumer.commit(offsets=ends, asynchronous=False)
        consumer.close()
        return topic

    def complete(self) -> int:
        """The newest complete checkpoint; 0: there is none."""
        request = pb.CheckpointsRequest(job_id=self.job_id)
        told = patiently(lambda: self._fabric.control.list_checkpoints(request)).checkpoints
        over = ("under way", "aborted")
        return max((c.checkpoint for c in told if c.state not in over), default=0)

    def go_on(self, n: int, within_s: float = PATIENCE_S) -> None:
        """Wait until so many more checkpoints are complete, or it has ended."""
        first = self.complete()
        wait_until(lambda: self.complete() >= first + n or self.status().state in ENDED, within_s)

    def check_runs(self) -> None:
        """It has neither failed, nor ended with faults still to come."""
        if (status := self.status()).state in ENDED:
            self.watcher.close()
            self.finish()
            raise AssertionError(f"nothing is left to be broken: {pb.JobState.Name(status.state)}")

    def end(self, within_s: float = 120.0) -> None:
        """After the last fault: it ends, nothing is wrong, and nothing is left."""
        try:
            self.finish(within_s)
            self.check()
            print(self.told(), flush=True)
        finally:
            self.watcher.close()
        self.release()
        wait_idle(self._fabric)
        wait_until(lambda: not [*self._folder.parent.glob(f"{self.job_id}*")])

    def check(self) -> None:
        """What was seen is right, and was so all the while."""
        records = self.kafka.records(self.topic)  # an AssertionError where a transaction is open
        now = {(r.partition, r.offset): r.value for r in records}
        wait_until(lambda: len(self.watcher.records) >= len(now))
        assert self.watcher.records == now, "a record that was seen is absent, or another one"
        results = Counter(map(_result, now.values()))
        assert set(results.values()) == {1}, "some are seen twice"
        expected = reference(self._made)
        assert set(results) == expected, _differing(set(results), expected)
        left = [p.name for p in (self._folder / "sinks").glob("*")]
        assert left == [], "published records lie aside"
        self.check_markers(len(now))
        self.check_offsets()
        wait_until(lambda: not any(map(is_open, self._transactions().values())))
        assert self._transactions(), "brokers know none of its transactional ids"

    def told(self) -> str:
        """What came of it, in figures; before it is released."""
        by_subtask = self._markers()
        commits = [told[-1]["transaction"] for told in by_subtask.values()]
        runs = max(told[-1]["run"] for told in by_subtask.values())
        return (
            f"{self._made.n_rows} records, {len(self.watcher.records)} results, {sum(commits)} "
            f"transactions of {len(commits)} subtasks, run {runs}, {self.complete()} checkpoints"
        )

    def check_markers(self, n_rows: int) -> None:
        """Those of each subtask rise by one, none is missing, none there twice (T-EO-4)."""
        by_task = self._markers()
        for told in by_task.values():
            assert [each["transaction"] for each in told] == list(range(1, len(told) + 1))
            assert all((a["run"], a["number"]) < (b["run"], b["number"]) for a, b in pairwise(told))
        assert sum(told[-1]["rows"] for told in by_task.values()) == n_rows

    def _transactions(self) -> dict[str, str]:
        states = transactions(self.kafka.servers.split(","))
        return {name: state for name, state in states.items() if name.startswith(self.job_id)}

    def _markers(self) -> dict[bytes, list[dict[str, int]]]:
        found: dict[bytes, list[dict[str, int]]] = {}
        for record in self.kafka.records("fabric-markers"):
            if record.key and record.value and json.loads(record.key)[0] == self.job_id:
                found.setdefault(record.key, []).append(json.loads(record.value))
        return found

    def check_offsets(self) -> None:
        """The last checkpoint is behind all records, and the group was told nothing else.

        What it is told may be lost with a broker, so it may also not have been told anything.
        """
        storage = FolderStorage(self._folder.parent)
        last = storage.load(self.job_id, max(storage.checkpoints(self.job_id)))
        positions = {split: at for task in last.tasks for split, at in task.positions}
        n_rows = [
            generator.n_rows_of(self._made.n_rows, split, N_SPLITS) for split in range(N_SPLITS)
        ]
        ends = {f"{self.source}-{split}": n for split, n in enumerate(n_rows)}
        assert {split: json.loads(at)["next"] for split, at in positions.items()} == ends
        told = self.kafka.committed(GROUP, self.source)
        for split, n in enumerate(n_rows):
            assert told[split] <= n or told[split] == WRONG_OFFSET, f"the group has {told}"

    @property
    def _folder(self) -> Any:
        return self._fabric.home / "checkpoints" / self.job_id


def _differing(found: set[Result], expected: set[Result]) -> str:
    """How many results are absent or wrong, by window, and some of them."""
    absent, wrong = expected - found, found - expected
    windows = [sorted(Counter(begin for _, begin, *_ in some).items()) for some in (absent, wrong)]
    return f"absent {windows[0]}, as {sorted(absent)[:3]}; wrong {windows[1]}: {sorted(wrong)[:3]}"


def _result(value: bytes | None) -> Result:
    row = json.loads(value or b"")
    begin = datetime.fromisoformat(row["window_start"])
    at_us = round(begin.replace(tzinfo=begin.tzinfo or UTC).timestamp() * 1e6)
    return row["key"], at_us, row["n"], row["total"]


def _rows(made: GeneratorStream, split: int) -> pa.RecordBatch:
    n = generator.n_rows_of(made.n_rows, split, made.n_splits)
    rows = generator.rows(made, split, 0, n, START_US).select(["key", "row", "ts"])
    return pa.concat_batches(rows.to_batches())


def reference(made: GeneratorStream) -> set[Result]:
    """The results without any fabric."""
    found: dict[tuple[int, int], list[int]] = {}
    for split in range(made.n_splits):
        rows = _rows(made, split)
        times = rows.column("ts").cast("int64").to_pylist()
        for key, row, at_us in zip(
            rows.column("key").to_pylist(), rows.column("row").to_pylist(), times, strict=True
        ):
            known = found.setdefault((key, at_us - at_us % WINDOW_US), [0, 0])
            known[0] += 1
            known[1] += row
    return {(key, begin, n, total) for (key, begin), (n, total) in found.items()}
