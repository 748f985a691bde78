"""Where the state of each node lies: what the job says, unless the node says something else."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabric
from fabric import DataFrame, col, count, streams
from fabric.config import CheckpointConfig, StateBackend
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.events import JobSubmitted
from fabric.coordinator.core.jobs import plan_records
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import StageGraph
from fabric.coordinator.planner.states import node_states, state_lines
from fabric.coordinator.submit.preparation import prepare
from fabric.coordinator.submit.splits import Surroundings
from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.codec import encode
from fabric.plan.nodes import Exchange, Plan, Scan, Sink, StreamScan
from fabric.plan.sources import Split
from fabric.plan.targets import DatasetTarget
from fabric.plan.walk import walk
from fabric.values import ByteSize
from tests.support.plans.streams import random_stream, written

AROUND = Surroundings(parallelism=2, n_cpus=2, embedded=True, datasets={}, agents=frozenset())
MEMORY = CheckpointConfig(state_memory=ByteSize(900))
ARROW = CheckpointConfig(state="arrow", state_memory=ByteSize(900))


class Own(fabric.Process):
    """Puts nothing out."""

    def on_rows(self, ctx: object, key: int, rows: object) -> list[object]:
        return []


def steps() -> DataFrame:
    """Four steps with state, in several stages: own, first, hourly, top."""
    rows = streams.generator(n_rows=10, n_splits=2).with_watermark("ts", "1 second")
    own = rows.process(
        Own(), keys="key", schema={"row": "int64", "key": "int64", "ts": "timestamp[us, UTC]"},
        time="ts",
    ).named("own")  # fmt: skip
    first = own.deduplicate("row").named("first")
    windows = first.group_by("key").window("1 hour").agg(n=count()).named("hourly")
    return windows.top_n(3, by=col("n").desc(), keys="window_end").named("top")


def prepared(frame: DataFrame) -> tuple[StageGraph, tuple[bytes, ...]]:
    made = prepare(pb.SubmitRequest(plan=encode(frame.plan)), AROUND, 1 << 20)
    return made.graph, made.fragments()


def told(graph: StageGraph, config: CheckpointConfig) -> dict[str, tuple[str, int | None]]:
    """Of every node: where its state lies, and what it may have in memory."""
    return {
        path: (state.state, state.bytes if state.HasField("bytes") else None)
        for stage in graph.stages
        for path, state in node_states(graph, stage, config).items()
    }


def test_what_the_job_says_is_so_for_all() -> None:
    graph, _ = prepared(steps())
    assert len(graph.stages) > 2
    in_files = dict.fromkeys(("first", "hourly", "top"), ("arrow", 300))
    assert told(graph, ARROW) == {"own": ("arrow", None), **in_files}
    names = "own", "first", "hourly", "top"
    assert told(graph, MEMORY) == dict.fromkeys(names, ("memory", None))


def test_a_node_with_a_budget_takes_none_of_the_others() -> None:
    own = steps().configure("hourly", state_memory=70)
    graph, _ = prepared(own)
    assert told(graph, ARROW)["hourly"] == ("arrow", 70)
    assert told(graph, ARROW)["first"] == told(graph, ARROW)["top"] == ("arrow", 450)
    assert told(graph, MEMORY)["hourly"] == ("memory", None)


def test_only_nodes_with_files_share_the_budget() -> None:
    one, _ = prepared(steps().configure("hourly", state="auto"))
    assert told(one, MEMORY)["hourly"] == ("auto", 900)
    assert told(one, MEMORY)["top"] == ("memory", None)
    two, _ = prepared(steps().configure("hourly", state="auto").configure("top", state="tonbo"))
    assert told(two, MEMORY)["hourly"] == ("auto", 450)
    assert told(two, MEMORY)["top"] == ("tonbo", 450)
    none, _ = prepared(steps().configure("hourly", state="memory"))
    assert told(none, ARROW)["hourly"] == ("memory", None)
    assert told(none, ARROW)["top"] == ("arrow", 450)


def test_a_person_is_told_the_engine_and_the_budget_of_each() -> None:
    frame = steps().configure("hourly", state="tonbo", state_memory=7_000)
    graph, _ = prepared(frame.configure("own", state="rocksdb"))
    lines = [line for stage in graph.stages for line in state_lines(graph, stage, MEMORY)]
    assert sorted(lines) == [
        "state of first: in memory",
        "state of hourly: up to 7,000 bytes of a task in memory, more in files (tonbo)",
        "state of own: in RocksDB",
        "state of top: in memory",
    ]
    lines = [line for stage in graph.stages for line in state_lines(graph, stage, ARROW)]
    assert "state of top: up to 450 bytes of a task in memory, more in files (arrow)" in lines


def test_a_stored_job_knows_it_still() -> None:
    frame = steps().configure("hourly", state="arrow").configure("top", state_memory=70)
    graph, fragments = prepared(frame)
    submitted = JobSubmitted(
        job_id="j", name="", client_key="", graph=graph, fragments=fragments, schema=b"",
        wall_s=0.0, checkpoint=ARROW,
    )  # fmt: skip
    job = Job(submitted, tuple(("",) * stage.n_tasks for stage in graph.stages), 0.0)
    again = plan_records.job(
        "j", pb.StoredPlan.FromString(plan_records.plan(job).SerializeToString()), 0.0
    )
    assert [stage.states for stage in again.graph.stages] == [s.states for s in graph.stages]
    assert told(again.graph, again.checkpoint) == told(graph, ARROW)
    assert told(graph, ARROW)["top"] == ("arrow", 70)


@given(seed=st.integers(0, 1 << 32))
def test_planning_changes_no_path_that_state_is_configured_by(seed: int) -> None:
    plan = check(Plan(written(random_stream(Random(seed)))))
    wanted = {node.path for node in walk(plan.root) if node.state_places}
    optimised = optimize(plan)
    splits = {
        node.path: [Split("a"), Split("b")]
        for node in walk(optimised.root)
        if isinstance(node, Scan | StreamScan)
    }
    assert set(told(plan_stages(optimised, splits, 2), ARROW)) == wanted


def test_settings_of_state_are_no_part_of_what_a_checkpoint_is_of() -> None:
    _, plain = prepared(steps())
    _, own = prepared(steps().configure("hourly", state="arrow", state_memory=70))
    assert own == plain


def test_a_view_has_files_where_the_job_has_some() -> None:
    rows = streams.generator(n_rows=10, n_splits=2).group_by("key").agg(n=count())
    target = DatasetTarget("sums", ("key",), mode="view", kind="row_kind")
    sent = Exchange(rows.changes().plan.root, "hash", ("key",))
    graph, _ = prepared(rows._then(Sink(sent, target)))
    places = {
        state: [line for stage in graph.stages for line in state_lines(graph, stage, config)][-1]
        for state, config in (
            (state, CheckpointConfig(state=state)) for state in get_args(StateBackend)
        )
    }
    files = "state of sink_1: in files (arrow)"
    assert places == {
        "memory": "state of sink_1: in memory", "rocksdb": "state of sink_1: in memory",
        "arrow": files, "tonbo": files, "auto": files,
    }  # fmt: skip


def test_a_view_without_an_exchange_by_its_key_is_refused() -> None:
    rows = streams.generator(n_rows=10, n_splits=2)
    target = DatasetTarget("newest", ("key",), mode="view")
    for other in (rows, rows.exchange("row"), rows.exchange()):
        with pytest.raises(PlanError, match="the rows of a view are exchanged by its key; write: "):
            prepared(rows._then(Sink(other.plan.root, target)))
    with pytest.raises(PlanError, match="mode"):
        rows.write_dataset("newest", keys=["key"], mode="view")
