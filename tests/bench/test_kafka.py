"""Bench kafka: what is right is known without Fabric, and a wrong topic is seen."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import fastavro
import pytest

from bench import homes, kafka
from bench.harness import BenchError, Case
from bench.kafka import broker, data, flink_engine, pacer, runs
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


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("exactly-once copy", runs.copy_run),
        ("exactly-once copy", runs.agents_copy_run),
        ("exactly-once window", runs.window_run),
    ],
)
def test_ours_are_right(name: str, make: Callable[[Case], runs.KafkaRun]) -> None:
    run = make(Case(name, ROWS, ROWS))
    try:
        run.work()
        answer = run.answer()
    finally:
        run.close()
    assert answer.rows == ROWS  # a user has one row a window
    assert answer.extra["broker_s_per_m"] >= 0
    parts = {ROWS, ROWS // 200} if name == "exactly-once copy" else set()
    assert answer.parts.keys() == parts


def test_a_wrong_output_is_no_line() -> None:
    case = Case("exactly-once copy", ROWS, ROWS)
    right = data.summed(data.rows(ROWS))
    assert runs.check(case, right)[ROWS] == right
    with pytest.raises(BenchError, match=f"it gives {ROWS - 1} rows"):
        runs.check(case, data.summed(data.rows(ROWS).slice(1)))


def test_every_engine_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "start", lambda: None)
    cases = [*kafka.cases(quick=True), *kafka.cases(quick=False)]
    for engine in {engine for case in cases for engine in kafka.engines(case)}:
        module, _, function = engine.factory.partition(":")
        assert callable(getattr(import_module(module), function))


@pytest.mark.parametrize("peer", ["quix", "bytewax", "faust", "flink"])
def test_a_peer_is_installed_as_locked(
    peer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls: list[tuple[str, ...]] = []

    def call(*command: str) -> None:
        calls.append(command)
        homes._place(peer).mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(homes, "call", call)
    assert not homes.is_installed(peer)
    home = homes.home_of(peer)
    assert homes.version_of(peer) in home.name
    assert "--require-hashes" in calls[-1]
    assert f"=={homes.version_of(peer)} " in Path(calls[-1][-1]).read_text()
    assert homes.is_installed(peer)
    assert homes.home_of(peer) == home
    assert len(calls) == 2


def test_a_quick_bench_leaves_out_what_takes_minutes_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    case = Case("exactly-once copy", ROWS, ROWS, {"quick": True})
    with pytest.raises(RuntimeError, match="it is left out, for to install it takes minutes"):
        flink_engine.copy_run(case)


def test_statements_of_flink_say_what_is_exactly_once() -> None:
    sink = flink_engine._sink("out-1", "`key` STRING, id BIGINT", "key", {})
    assert sink.startswith("CREATE TEMPORARY TABLE sink (`key` STRING, id BIGINT) WITH (")
    assert "'sink.delivery-guarantee' = 'exactly-once'" in sink
    assert "'scan.bounded.mode' = 'latest-offset'" in flink_engine._source("in-1", "id BIGINT")


def test_late_rows_are_those_behind_the_warm_up() -> None:
    first = int(pacer.RATE * pacer.WARM_S) + 1
    values = [json.dumps({"id": row, "ts": row}).encode() for row in range(first + 200)]
    seen = [row + (5_000 if row < first else 2_000) for row in range(first + 198)]
    told = pacer._late(values, [*seen, first + 90_000, first + 90_000])
    assert (told["rows"], told["p50_ms"], told["p99_ms"]) == (200, 2.0, 2.9)
