"""Records at a pace into one topic, and how late they are in another, by plain confluent-kafka.

One job: two programs, so that neither disturbs what is measured nor the other:
``python -m bench.kafka.pacer produce SERVERS TOPIC ROWS`` and ``consume``. The first record stands
alone: the consumer says ``first`` when it has come through, and is asked for the pace then.
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from bench.kafka import data
from fabric.clients.demo.checksum import checksum

RATE = 10_000
WARM_S = 2.0
_STEP_S = 0.001
_WAIT_S = 60.0


def produce(servers: str, topic: str, n_rows: int) -> None:
    """The first record; and behind a line of standard input all others, when each is due."""
    settings = {"bootstrap.servers": servers, "linger.ms": 1, "log_level": 0}
    producer = Producer(settings | {"partitioner": "murmur2_random"})
    _send(producer, topic, 0)
    producer.flush(_WAIT_S)
    sys.stdin.readline()
    begun = time.perf_counter()
    sent = 1
    while sent < n_rows:
        due = min(n_rows, 1 + int((time.perf_counter() - begun) * RATE))
        while sent < due:
            _send(producer, topic, sent)
            sent += 1
        producer.poll(0)
        time.sleep(_STEP_S)
    if producer.flush(_WAIT_S):
        raise RuntimeError("the broker does not take records at this pace")


def consume(servers: str, topic: str, n_rows: int) -> None:
    """Say ``first``; then, when all have come, percentiles of those behind the warm-up."""
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": f"pace-{secrets.token_hex(4)}",
        "enable.auto.commit": False, "isolation.level": "read_committed",
        "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, "log_level": 0,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, at, 0) for at in range(data.N_PARTITIONS)])
    values, seen_us = list[bytes](), list[int]()
    last = time.monotonic()
    while len(values) < n_rows:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            seen_us.append(time.time_ns() // 1000)
            values.append(_value(message))
            last = time.monotonic()
            if len(values) == 1:
                print("first", flush=True)
        elif time.monotonic() - last > _WAIT_S:
            break
    consumer.close()
    print(json.dumps(_late(values, seen_us)), flush=True)


def _late(values: list[bytes], seen_us: list[int]) -> dict[str, object]:
    found = [json.loads(value) for value in values]
    row = np.array([record["id"] for record in found], np.int64)
    late_ms = (np.array(seen_us) - [record["ts"] for record in found]) / 1e3
    measured = row > RATE * WARM_S
    rows, total = checksum(pa.table({"id": row[measured]}))
    return {
        "rows": rows, "checksum": total,
        "p50_ms": round(float(np.percentile(late_ms[measured], 50)), 1),
        "p99_ms": round(float(np.percentile(late_ms[measured], 99)), 1),
        "max_ms": round(float(late_ms[measured].max()), 1),
    }  # fmt: skip


def _send(producer: Producer, topic: str, number: int) -> None:
    user = number * 7919 % data.N_KEYS
    now_us = time.time_ns() // 1000
    text = f'{{"id":{number},"user":"customer-{user:08d}","amount":{number % 1000},"ts":{now_us}}}'
    producer.produce(topic, text.encode(), f"key-{user:016d}".encode())


def _value(message: Message) -> bytes:
    return message.value() or b""


if __name__ == "__main__":
    programs: dict[str, Callable[[str, str, int], None]] = {"produce": produce, "consume": consume}
    programs[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))
