"""The records of the bench, and what a topic holds, read by others than Fabric.

One job: `rows` (the same ones in every process), `filled` (a topic that holds them) and `read_back`
(a topic as a table, by confluent-kafka's Python client and pyarrow alone).

A record is JSON of about 78 bytes, ``{"id":1,"user":"customer-00007919","amount":1.01,"ts":…}``
with a key of 20. Keys have one of 100,000 values, times go up by row over 30 seconds.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as paj
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bench.kafka.broker import Broker
from fabric.clients.demo.checksum import checksum

N_PARTITIONS, N_KEYS = 4, 100_000
START_MS, SPAN_MS = 1_700_000_000_000, 30_000
"""Event time: three windows of ten seconds."""
WINDOW_MS = 10_000
SCHEMA = {"id": "int64", "user": "string", "amount": "float64", "ts": "int64"}
TYPES = pa.schema([
    ("id", pa.int64()), ("user", pa.string()), ("amount", pa.float64()), ("ts", pa.int64()),
])  # fmt: skip
COMPRESSION = {"compression.type": "lz4"}
_FILL = {
    **COMPRESSION, "partitioner": "murmur2_random", "linger.ms": 5, "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 1_000_000, "log_level": 0,
}  # fmt: skip
_CHUNK, _WAIT_S = 10_000, 60.0
_JSON_BLOCK = 64 << 20


def rows(n_rows: int) -> pa.Table:
    """Key, and the columns of the value."""
    row = np.arange(n_rows)
    user = row * 7919 % N_KEYS
    users = np.array([f"customer-{number:08d}" for number in range(N_KEYS)])
    keys = np.array([f"key-{number:016d}" for number in range(N_KEYS)])
    return pa.table({
        "key": pa.array(keys).take(pa.array(user)),
        "id": row,
        "user": pa.array(users).take(pa.array(user)),
        "amount": (row * 101 % 100_000) / 100,
        "ts": START_MS + row * SPAN_MS // n_rows,
    })  # fmt: skip


def filled(broker: Broker, n_rows: int) -> str:
    """The topic with the first rows of the bench as JSON; it is made when it is not there."""
    return _made(broker, f"json-{n_rows}", lambda: _documents(rows(n_rows)))


def read_back(broker: Broker, topic: str, types: pa.Schema = TYPES) -> pa.Table:
    """Key and value of all records that a consumer with read_committed sees."""
    broker.topics.wait_for_transactions(topic)
    keys, values = list[bytes](), list[bytes]()
    for key, value in _records(broker, topic):
        keys.append(key)
        values.append(value)
    if not values:
        return pa.schema([("key", pa.string()), *types]).empty_table()
    parsed = paj.read_json(
        pa.BufferReader(b"\n".join(values)),
        paj.ReadOptions(block_size=_JSON_BLOCK),
        paj.ParseOptions(explicit_schema=types),
    )
    return parsed.select(types.names).add_column(0, "key", pa.array(keys, pa.binary()))


def summed(table: pa.Table) -> tuple[int, str]:
    """Rows and checksum, whatever their order; a key counts as text."""
    if "key" in table.column_names:
        table = table.set_column(0, "key", table["key"].cast(pa.string()))
    return checksum(table)


def _documents(table: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    for batch in table.to_batches(_CHUNK):
        columns = (column.to_pylist() for column in batch.columns)
        for key, number, user, amount, ts in zip(*columns, strict=True):
            text = f'{{"id":{number},"user":"{user}","amount":{amount},"ts":{ts}}}'
            yield key.encode(), text.encode()


def _made(broker: Broker, topic: str, documents: Any) -> str:
    if topic in broker.topics.metadata().topics:
        return topic
    aside = broker.topics.create_topic(topic, N_PARTITIONS)
    _produce(broker, aside, documents())
    return topic


def _produce(broker: Broker, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    producer = Producer({**_FILL, "bootstrap.servers": broker.servers})
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(_WAIT_S):
        raise RuntimeError(f"{left} records of {topic} were not taken within {_WAIT_S} s")


def _records(broker: Broker, topic: str) -> Iterator[tuple[bytes, bytes]]:
    consumer = Consumer({
        "bootstrap.servers": broker.servers, "group.id": f"read-{secrets.token_hex(4)}",
        "enable.auto.commit": False, "isolation.level": "read_committed",
        "auto.offset.reset": "earliest", "enable.partition.eof": True, "log_level": 0,
    })  # fmt: skip
    try:
        left = set(consumer.list_topics(topic, _WAIT_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            for message in consumer.consume(_CHUNK, 0.05):
                if (error := message.error()) is None:
                    yield message.key() or b"", message.value() or b""
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


@cache
def expected(n_rows: int) -> tuple[int, str]:
    """What `summed` says of the rows themselves."""
    return summed(rows(n_rows))
