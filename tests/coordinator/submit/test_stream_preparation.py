"""Preparing plans of streams: their splits, and what can be known to fail before they start."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from fabric import DataFrame, streams
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.submit.preparation import Prepared, prepare
from fabric.coordinator.submit.splits import Surroundings
from fabric.errors import ConfigError, FabricError, PlanError
from fabric.plan.codec import encode
from fabric.plan.expr import Column
from fabric.plan.nodes import KeyedProcess, Node, Plan, Sink, StateField, Union
from fabric.plan.targets import StreamFileTarget
from fabric.security.tokens import Signer
from fabric.state import column_stores
from tests.support.plans.streams import FUNCTION


def prepared(
    root: Node, parallelism: int = 2, *, embedded: bool = True, signer: Signer | None = None
) -> Prepared:
    around = Surroundings(
        parallelism=parallelism, n_cpus=2, embedded=embedded, datasets={}, agents=frozenset()
    )
    return prepare(pb.SubmitRequest(plan=encode(Plan(root))), around, 1 << 20, signer)


def out(frame: DataFrame, folder: Path) -> Sink:
    return Sink(frame.plan.root, StreamFileTarget("parquet", str(folder)))


def test_splits_of_a_stream_are_the_sources_own(tmp_path: Path) -> None:
    rows = streams.generator(n_rows=10, n_splits=3)
    made = prepared(out(rows, tmp_path / "out"))
    dealt = [[split.uri for split in task[0][1]] for task in made.graph.stages[0].splits]
    assert [len(uris) for uris in dealt] == [2, 1]
    assert len({uri for uris in dealt for uri in uris}) == 3
    assert made.graph.stages[0].kind == "chain"
    assert made.explain(CheckpointConfig()).svg
    again = prepared(out(rows, tmp_path / "out"))
    assert again is made


def test_a_table_is_replayed_where_it_can_be_read(tmp_path: Path) -> None:
    ts = [datetime.datetime(2024, 1, day) for day in (1, 2, 3)]
    table = DataFrame({"ts": ts, "origin": ["JFK", "EWR", "JFK"]})
    root = out(streams.replay(table, "ts", split_by="origin"), tmp_path / "out")
    made = prepared(root)
    assert sum(len(task[0][1]) for task in made.graph.stages[0].splits) == 2
    with pytest.raises(PlanError, match="can only be read by an embedded fabric") as error:
        prepared(root, embedded=False)
    assert error.value.where.node == "stream_scan_1"


def test_an_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = streams.generator(n_rows=10).deduplicate("key").named("first")
    plan = encode(rows.configure("first", state="tonbo").plan)
    around = Surroundings(parallelism=2, n_cpus=2, embedded=True, datasets={}, agents=frozenset())
    monkeypatch.setattr(column_stores, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs the package flight-fabric-tonbo") as error:
        prepare(pb.SubmitRequest(plan=plan), around, 1 << 20)
    assert error.value.where.node == "first"
    monkeypatch.undo()
    assert prepare(pb.SubmitRequest(plan=plan), around, 1 << 20).graph.stages


def test_every_write_of_a_job_is_looked_at(tmp_path: Path) -> None:
    rows = streams.generator(n_rows=10)
    taken = tmp_path / "file"
    taken.write_text("in the way")
    root = Union((out(rows, tmp_path / "good"), out(rows, taken)))
    with pytest.raises(FabricError) as error:
        prepared(root)
    assert error.value.where.node == "sink_2"


def test_functions_of_streams_are_signed(tmp_path: Path) -> None:
    rows = streams.generator(n_rows=10)
    state = StateField("n", "reducing", pa.int64(), function=FUNCTION)
    schema = pa.schema([("key", pa.int64())])
    own = KeyedProcess(rows.plan.root, (Column("key"),), FUNCTION, schema, (state,))
    root = Sink(own, StreamFileTarget("parquet", str(tmp_path / "out")))
    step = prepared(root, signer=Signer(bytes(32))).plan.root.children[0]
    assert isinstance(step, KeyedProcess)
    assert step.function.mac
    assert step.states[0].function is not None
    assert step.states[0].function.mac
