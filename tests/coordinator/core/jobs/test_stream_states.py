"""What agents are told to read the state of a stream: its keyed steps, and no secret."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fabric.coordinator.core.jobs.stream_states import stream_states
from fabric.coordinator.planner.stages import Stage
from fabric.errors import NotFoundError
from fabric.operators.kept_states import kept_in
from fabric.plan.codec import decode, encode
from fabric.plan.expr import Agg, Alias, Column, Udf
from fabric.plan.nodes import (
    KeyedProcess,
    Node,
    Plan,
    Sink,
    StageInput,
    StateField,
    StreamAggregate,
    StreamScan,
)
from fabric.plan.sources import KafkaStream
from fabric.plan.targets import PostgresTarget
from fabric.plan.walk import walk

ROWS = pa.schema([("k", pa.string()), ("v", pa.int64())])
PASSWORD = "pass-word-of-ann"


def stage(number: int, root: Node) -> Stage:
    return Stage(
        stage=number, path=root.path, root=root, kind="chain", n_tasks=1, splits=(), region=0
    )


def job_of(*roots: Node) -> Any:
    stream = SimpleNamespace(region=0, checkpoints=SimpleNamespace(readable=None))
    fragments = [encode(Plan(root)) for root in roots]
    return SimpleNamespace(
        job_id="job-1", state_id="job-1", stream=stream, fragments=fragments,
        checkpoint=SimpleNamespace(folder="/kept"),
        graph=SimpleNamespace(stages=[stage(i, root) for i, root in enumerate(roots)]),
    )  # fmt: skip


def told(*roots: Node) -> tuple[bytes, dict[str, Any]]:
    found = stream_states(job_of(*roots))
    kept: dict[str, Any] = {}
    for fragment in found.fragments:
        kept |= kept_in(decode(fragment).root)
    return found.SerializeToString(), kept


def counted(rows: Node) -> StreamAggregate:
    return StreamAggregate(rows, (Column("k"),), (Alias(Agg("count", None), "n"),), path="counts")


def test_neither_source_nor_sink_is_told() -> None:
    source = KafkaStream("host:9092", ("t",), secrets=(("sasl.password", PASSWORD),))
    scan = StreamScan(source, ROWS, path="made")
    target = PostgresTarget("t", secrets=(("password", PASSWORD),))
    data, kept = told(Sink(counted(scan), target, path="out"))
    assert PASSWORD.encode() not in data
    assert list(kept) == ["counts"]
    assert [type(node) for node in walk(kept["counts"].node)] == [StageInput, StreamAggregate]
    assert kept["counts"].states[0].schema.names == ["k", "n"]


def test_the_functions_of_users_are_not_told() -> None:
    def udf(name: str) -> Udf:
        return Udf(name, (), pa.int64(), "object", f"{PASSWORD} of {name}".encode(), b"m" * 32)

    states = (
        StateField("seen", "value", pa.int64()),
        StateField("most", "reducing", pa.int64(), function=udf("most")),
    )
    step = KeyedProcess(
        StageInput(3, ROWS), (Column("k"),), udf("f"), ROWS, states=states, path="own"
    )
    data, kept = told(Sink(step, PostgresTarget("t"), path="out"))
    assert PASSWORD.encode() not in data
    assert [state.name for state in kept["own"].states] == ["seen", "most"]


def test_a_job_of_rows_with_an_end_keeps_nothing() -> None:
    with pytest.raises(NotFoundError, match="reads no stream"):
        stream_states(SimpleNamespace(job_id="job-1", stream=None))  # type: ignore[arg-type]
