"""The soak's stream from a topic of Kafka into another one, exactly once.

One job: `KafkaSoakJob`, which is `SoakJob` but for where rows come from and go to. A `Feeder` sends
the generator's rows at their rate, whatever happens to brokers; a `Watcher` reads the results all
the while, and none that it saw may be absent later.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from numpy.typing import NDArray

import fabric
from fabric import DataFrame
from fabric.clients.dataframe.targets import to_kafka
from fabric.io.codecs import make_encoder
from fabric.io.readers import generator
from fabric.plan.nodes import Node, Sink
from fabric.plan.places import RowFormat
from fabric.plan.sources import GeneratorStream
from tests.services.topics import Topics
from tests.support.kafka_ordeal import Watcher
from tests.support.soak.job import SoakJob

COLUMNS = pa.schema([f for f in generator.SCHEMA if f.name != "split"])
STEP_S = 0.1
_PARTITIONS_OUT = 3
_AGAIN_MAX = 0.001
_ROW, _SPLIT = re.compile(rb'"row":(\d+)'), 1 << 40


@dataclass(frozen=True, slots=True)
class KafkaSoakJob(SoakJob):
    """Use it in a ``with``, which begins to send rows and to read results."""

    _: KW_ONLY
    kafka: Topics
    source: str = ""
    topic: str = ""
    feeder: Any = None
    watcher: Any = None

    def __enter__(self) -> Self:
        self.feeder.start()
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            stack.callback(self.watcher.close)
            stack.callback(self.feeder.close)

    @classmethod
    def on(cls, kafka: Topics, rows_per_s: int, seed: int, **options: Any) -> KafkaSoakJob:
        """One with topics of its own."""
        job = SoakJob(Path(), rows_per_s, seed=seed, **options)
        source = kafka.new_topic("soak-rows", partitions=job.n_splits)
        topic = kafka.new_topic("soak-results", partitions=_PARTITIONS_OUT)
        return cls(
            Path(), rows_per_s, seed=seed, kafka=kafka, source=source, topic=topic,
            feeder=Feeder(kafka, source, job.made()),
            watcher=Watcher(kafka.servers, topic, _PARTITIONS_OUT), **options,
        )  # fmt: skip

    @property
    def takes_back(self) -> bool:
        """Kafka keeps what it got: a damaged checkpoint that was published ends the job by name."""
        return False

    def plan(self) -> Node:
        """What is submitted."""
        target = to_kafka(
            self.topic, servers=self.kafka.servers, key="key", key_format="json",
            publish_timeout="20 seconds",
        )  # fmt: skip
        return Sink(self.frame().plan.root, target, path="out")

    def rows(self) -> DataFrame:
        """What the windows are made of."""
        return fabric.read_kafka(self.source, servers=self.kafka.servers, schema=COLUMNS)

    def seen(self) -> pa.Table:
        """What the watcher has seen, once all is there that anybody may read."""
        records = self.kafka.records(self.topic)  # an AssertionError where a transaction is open
        now = {(r.partition, r.offset): r.value for r in records}
        deadline_s = time.monotonic() + 60.0
        while len(self.watcher.records) < len(now) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        assert self.watcher.records == now, "a record that was seen is absent, or another one"
        rows = [json.loads(value or b"") for value in now.values()]
        for row in rows:
            begin = datetime.fromisoformat(row["window_start"])
            row["window_start"] = begin.replace(tzinfo=begin.tzinfo or UTC)
        return pa.Table.from_pylist(rows)

    def n_seen(self) -> int:
        """How many results were seen so far."""
        return len(self.watcher.records)

    def unlike_model(self, seen: pa.Table, besides: Iterable[pa.Table] = ()) -> str:
        """As of `SoakJob`, whose model has what the topic has.

        A row lies there twice where a broker forgot the feeder's producer id while an answer was on
        its way: it is sent again right behind, and nobody knows.
        """
        fed, counts = np.unique(self._fed(), return_counts=True)
        again = np.repeat(fed, counts - 1)
        print(f"{len(again)} rows lie in the topic more than once")
        assert len(again) < _AGAIN_MAX * len(fed), divmod(int(again[0]), _SPLIT)
        made = self.made()
        twice = [
            generator.rows(made, split, row, row + 1, made.start_us)
            for split, row in (divmod(each, _SPLIT) for each in again.tolist())
        ]
        return super(KafkaSoakJob, self).unlike_model(seen, [*besides, *twice])

    def _fed(self) -> NDArray[np.int64]:
        """Split and number of the rows in the topic, read by confluent_kafka."""
        consumer = Consumer({
            "bootstrap.servers": self.kafka.servers, "group.id": "fed", "log_level": 0,
            "enable.auto.commit": False,
        })  # fmt: skip
        places = [TopicPartition(self.source, n, OFFSET_BEGINNING) for n in range(self.n_splits)]
        n_rows = sum(consumer.get_watermark_offsets(place)[1] for place in places)
        consumer.assign(places)
        found: list[int] = []
        while len(found) < n_rows:
            records = consumer.consume(10_000, 10.0)
            assert records, f"only {len(found)} of {n_rows} rows can be read"
            for record in records:
                row = _ROW.search(record.value() or b"")
                assert row is not None, record.error()
                found.append((record.partition() or 0) * _SPLIT + int(row.group(1)))
        consumer.close()
        return np.array(found)


class Feeder:
    """Sends rows to a topic at their rate, a split to a partition, each once and in order."""

    def __init__(self, kafka: Topics, topic: str, made: GeneratorStream) -> None:
        self._servers, self._topic, self._made = kafka.servers, topic, made
        self._encoder = make_encoder(RowFormat("json"), COLUMNS)
        self._over, self._flows = threading.Event(), threading.Event()
        self._flows.set()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self.failed: list[str] = []

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def pause(self) -> None:
        """Send nothing until `resume`."""
        self._flows.clear()

    def resume(self) -> None:
        """Go on with the next row."""
        self._flows.set()

    def close(self) -> None:
        """End; what was sent is sent."""
        self._over.set()
        self._flows.set()
        self._thread.join(60)
        assert not self.failed, f"rows were not taken: {self.failed[:3]}"

    def _run(self) -> None:
        producer = Producer({
            "bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 20,
            "message.timeout.ms": 0, "log_level": 0, "compression.type": "lz4",
            "max.in.flight": 1,  # with more, leaders that move double rows (librdkafka #4953)
        })  # fmt: skip
        each = max(1, round(self._made.rows_per_s * STEP_S / self._made.n_splits))
        begin = 0
        due_s = time.monotonic()
        while not self._over.is_set():
            for split in range(self._made.n_splits):
                self._send(producer, split, begin, begin + each)
            begin += each
            producer.poll(0)
            due_s = max(due_s + STEP_S, time.monotonic() - 1.0)
            self._over.wait(max(0.0, due_s - time.monotonic()))
            self._flows.wait()
        producer.flush(30)

    def _send(self, producer: Producer, split: int, begin: int, end: int) -> None:
        made = self._made
        rows = generator.rows(made, split, begin, end, made.start_us).select(COLUMNS.names)
        for batch in rows.to_batches():
            for value in self._encoder.encode(batch).to_pylist():
                while True:
                    try:
                        producer.produce(
                            self._topic, value, partition=split, on_delivery=self._delivered
                        )
                        break
                    except BufferError:
                        producer.poll(0.1)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
