"""Bench kafka: what is right is known without Fabric, and a wrong topic is seen."""

from __future__ import annotations

import io
import json
import os

import fastavro
import pytest

from bench import kafka
from bench.harness import BenchError, Case
from bench.kafka import broker, data, pacer, runs
from tests.services.kafka import kafka_broker

ROWS = 3_000


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> broker.Broker:
    monkeypatch.setenv("FABRIC_CHECKPOINT_INTERVAL_S", "1")
    monkeypatch.setenv("FABRIC_BENCH_KAFKA", f"{kafka_broker().servers} {os.getpid()}")
    return broker.found()


def test_a_topic_is_read_back_as_it_was_filled(found: broker.Broker) -> None:
    topic = data.filled(found, ROWS, 500)
    assert data.summed(data.read_back(found, topic)) == data.summed(data.rows(ROWS, 500))
    record = found.topics.records(topic)[0]
    row = json.loads(record.value or b"")
    assert list(row) == list(data.SCHEMA)
    assert record.key == f"key-{row['id'] * 7919 % data.N_KEYS:016d}".encode()
    assert data.filled(found, ROWS, 500) == topic
    data.produce(found, topic, [(record.key, record.value or b"")])
    assert data.summed(data.read_back(found, topic)) != data.summed(data.rows(ROWS, 500))


def test_avro_is_what_fastavro_reads(found: broker.Broker) -> None:
    topic = data.filled(found, ROWS, 300, avro=True)
    schema = fastavro.parse_schema(json.loads(data.AVRO))
    values = [io.BytesIO(record.value or b"") for record in found.topics.records(topic)]
    read = [fastavro.schemaless_reader(value, schema, schema) for value in values]
    expected = data.rows(ROWS, 300).drop_columns("key").to_pylist()
    assert sorted(map(repr, read)) == sorted(map(repr, expected))


@pytest.mark.parametrize("name", ["exactly-once copy", "exactly-once window"])
def test_ours_are_right(name: str) -> None:
    run = getattr(runs, kafka.CASES[name])(Case(name, ROWS, ROWS))
    try:
        run.work()
        answer = run.answer()
    finally:
        run.close()
    assert answer.rows == ROWS  # a user has one row a window
    assert answer.extra["broker_s_per_m"] >= 0
    assert list(answer.parts) == ([ROWS] if name == "exactly-once copy" else [])


def test_a_wrong_output_is_no_line() -> None:
    case = Case("exactly-once copy", ROWS, ROWS)
    right = data.summed(data.rows(ROWS))
    assert runs.check(case, right)[ROWS] == right
    with pytest.raises(BenchError, match=f"it gives {ROWS - 1} rows"):
        runs.check(case, data.summed(data.rows(ROWS).slice(1)))


def test_late_rows_are_those_behind_the_warm_up() -> None:
    first = int(pacer.RATE * pacer.WARM_S) + 1
    values = [json.dumps({"id": row, "ts": row}).encode() for row in range(first + 200)]
    seen = [row + (5_000 if row < first else 2_000) for row in range(first + 198)]
    told = pacer._late(values, [*seen, first + 90_000, first + 90_000])
    assert (told["rows"], told["p50_ms"], told["p99_ms"]) == (200, 2.0, 2.9)
