"""The records of the bench, and what a topic holds, read by others than Fabric.

One job: `rows` (the same ones in every process), `filled` (a topic that holds them), `read_back` (a
topic as a table, by confluent-kafka's Python client and pyarrow alone) and what is right.

A record is JSON of about 78 bytes, ``{"id":1,"user":"customer-00007919","amount":1.01,"ts":…}``
with a key of 20. Keys have one of 100,000 values, times go up by row over 30 seconds.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
AVRO = """{"type": "record", "name": "Payment", "fields": [
    {"name": "id", "type": "long"}, {"name": "user", "type": "string"},
    {"name": "amount", "type": "double"}, {"name": "ts", "type": "long"}]}"""
WINDOW_COLUMNS = ("user", "window_start", "n", "total")
WINDOW_TYPES = pa.schema([
    ("user", pa.string()), ("window_start", pa.string()), ("n", pa.int64()),
    ("total", pa.float64()),
])  # fmt: skip
COMPRESSION = {"compression.type": "lz4"}
_FILL = {
    **COMPRESSION, "partitioner": "murmur2_random", "linger.ms": 5, "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 1_000_000, "log_level": 0,
}  # fmt: skip
CHUNK = 10_000
_WAIT_S = 60.0
_JSON_BLOCK = 64 << 20


def rows(n_rows: int, taken: int = 0) -> pa.Table:
    """Key, and the columns of the value; the first `taken` of so many."""
    row = np.arange(taken or n_rows)
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


def windows(n_rows: int) -> pa.Table:
    """What is right of windows by user: how many rows, and the sum of amounts."""
    table = rows(n_rows)
    starts = np.asarray(table["ts"]) // WINDOW_MS * WINDOW_MS
    table = table.append_column("window_start", pa.array(starts).cast(pa.timestamp("ms")))
    summed_up = table.group_by(["user", "window_start"]).aggregate(
        [("id", "count"), ("amount", "sum")]
    )
    return summed_up.rename_columns(list(WINDOW_COLUMNS))


def filled(broker: Broker, n_rows: int, taken: int = 0, *, avro: bool = False) -> str:
    """The topic with (the first `taken` of) the rows; it is made when it is not there."""
    topic = f"{'avro' if avro else 'json'}-{n_rows}-{taken or n_rows}"
    if topic not in broker.topics.metadata().topics:
        broker.topics.create_topic(topic, N_PARTITIONS)
        encoded = _avro if avro else _json
        produce(broker, topic, encoded(rows(n_rows, taken)))
    return topic


def read_back(broker: Broker, topic: str, types: pa.Schema = TYPES) -> pa.Table:
    """Key and value of all records that a consumer with read_committed sees."""
    broker.topics.wait_for_transactions(topic)
    keys, values = list[bytes](), list[bytes]()
    for key, value in records(broker, topic):
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


def read_windows(broker: Broker, topic: str) -> pa.Table:
    """Windows that an engine wrote, whatever it has between date and time."""
    table = read_back(broker, topic, WINDOW_TYPES).drop_columns("key")
    starts = pc.replace_substring(table["window_start"], "T", " ").cast(pa.timestamp("us"))
    starts = starts.cast(pa.timestamp("ms"))
    return table.set_column(1, "window_start", starts)


def summed(table: pa.Table) -> tuple[int, str]:
    """Rows and checksum, whatever their order; a key counts as text."""
    if "key" in table.column_names:
        table = table.set_column(0, "key", table["key"].cast(pa.string()))
    return checksum(table)


def _json(table: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    for key, number, user, amount, ts in _values(table):
        text = f'{{"id":{number},"user":"{user}","amount":{amount},"ts":{ts}}}'
        yield key.encode(), text.encode()


def _avro(table: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    for key, number, user, amount, ts in _values(table):
        text = user.encode()
        parts = (_varint(number), _varint(len(text)), text, struct.pack("<d", amount), _varint(ts))
        yield key.encode(), b"".join(parts)


def _varint(number: int) -> bytes:
    left, found = number << 1, bytearray()  # none is negative
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _values(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(CHUNK):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def produce(
    broker: Broker,
    topic: str,
    records: Iterable[tuple[bytes, bytes]],
    transactional_id: str | None = None,
) -> None:
    """Write keys and values, with a `transactional_id` in one transaction."""
    settings: dict[str, Any] = {**_FILL, "bootstrap.servers": broker.servers}
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    producer = Producer(settings)
    if transactional_id is not None:
        producer.init_transactions(_WAIT_S)
        producer.begin_transaction()
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(_WAIT_S):
        raise RuntimeError(f"{left} records of {topic} were not taken within {_WAIT_S} s")
    if transactional_id is not None:
        producer.commit_transaction(_WAIT_S)


def records(broker: Broker, topic: str) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of all records there are, read_committed."""
    consumer = Consumer({
        "bootstrap.servers": broker.servers, "group.id": f"read-{secrets.token_hex(4)}",
        "enable.auto.commit": False, "isolation.level": "read_committed",
        "auto.offset.reset": "earliest", "enable.partition.eof": True, "log_level": 0,
    })  # fmt: skip
    try:
        left = set(consumer.list_topics(topic, _WAIT_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            for message in consumer.consume(CHUNK, 0.05):
                if (error := message.error()) is None:
                    yield message.key() or b"", message.value() or b""
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
