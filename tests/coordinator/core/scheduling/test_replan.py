"""Stages planned anew by script: what agents and clients are told of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fabric.config import AdaptiveConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.events import JobReleased
from fabric.coordinator.planner.stages import StageGraph
from fabric.plan.codec import decode
from fabric.plan.nodes import StageInput

MIB = 1 << 20


def shuffle(graphs: SimpleNamespace) -> StageGraph:
    graph: StageGraph = graphs.shuffle()
    return StageGraph(graph.stages, (replace(graph.edges[0], adaptive=True), graph.edges[1]))


def finish_first(world: Any, *sizes: list[int]) -> None:
    for (agent, task), found in zip((("x", 0), ("y", 1)), sizes, strict=True):
        total = pb.EdgeTotals(edge=0, rows=9, bytes=sum(found), partition_bytes=found)
        world.finish(agent, 0, task, outputs=[total])


def deploys(world: Any) -> dict[str, pb.Deploy]:
    found = {agent: world.heard(agent, "deploy") for agent in "xy"}
    return {agent: each[-1] for agent, each in found.items() if each and each[-1].stage == 1}


def read(task: pb.TaskAssignment) -> tuple[int, ...]:
    (one,) = task.reads
    return (one.first_partition, one.end_partition, one.first_producer, one.end_producer)


def test_parts_of_a_hot_partition_are_read_where_they_lie(
    world: Any, graphs: SimpleNamespace
) -> None:
    world.submit(shuffle(graphs))
    finish_first(world, [300 * MIB, MIB], [310 * MIB, MIB])
    told = deploys(world)
    tasks = {agent: {t.task: read(t) for t in deploy.tasks} for agent, deploy in told.items()}
    assert tasks == {"x": {0: (0, 1, 0, 1), 2: (1, 2, 0, 0)}, "y": {1: (0, 1, 1, 2)}}
    assert {deploy.n_tasks for deploy in told.values()} == {3}
    assert isinstance(decode(told["x"].fragment).root, StageInput)
    assert told["x"].outputs[0].n_partitions == 3
    edges = {e.edge: e for table in world.heard("y", "locations") for e in table.edges}
    assert (edges[1].n_partitions, edges[1].n_producers) == (3, 3)
    status = world.core.registry.status("job-1", world.now).stages[1]
    assert status.n_tasks == 3
    assert "partition 0 of edge_0 is hot (610.0 MiB" in status.adapted[0]
    for agent, task in (("x", 0), ("y", 1), ("x", 2)):
        world.finish(agent, 1, task)
    assert world.state() == "finished"
    assert not world.core.refused


def test_tiny_partitions_are_given_to_one_agent(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(shuffle(graphs))
    finish_first(world, [10, 20], [30, 40])
    (deploy,) = deploys(world).values()
    assert [read(task) for task in deploy.tasks] == [(0, 2, 0, 0)]
    assert deploy.outputs[0].n_partitions == 1
    world.finish("x", 1, 1)
    assert world.core.refused == {"unknown task": 1}  # it was planned once, and is no more


@pytest.mark.parametrize("enabled", [True, False])
def test_stages_stay_when_nothing_was_measured_or_nobody_wants_it(
    world: Any, graphs: SimpleNamespace, enabled: bool
) -> None:
    world.submit(shuffle(graphs), adaptive=AdaptiveConfig(enabled=enabled))
    finish_first(world, *([[], []] if enabled else [[10, 20], [30, 40]]))
    assert {agent: [t.task for t in d.tasks] for agent, d in deploys(world).items()} == {
        "x": [0], "y": [1],
    }  # fmt: skip
    assert not any(task.reads for deploy in deploys(world).values() for task in deploy.tasks)
    assert not world.core.registry.status("job-1", world.now).stages[1].adapted


def test_what_was_measured_is_forgotten_once_it_was_of_use(
    world: Any, graphs: SimpleNamespace
) -> None:
    world.submit(shuffle(graphs))
    finish_first(world, [10, 20], [30, 40])
    world.do(JobReleased("job-1"))
    assert list(world.store.scan("plans")) == [] or world.state() == "running"


@pytest.mark.parametrize("sizes", [([10, 20], [30, 40]), ([300 * MIB, MIB], [310 * MIB, MIB])])
def test_after_a_restart_a_stage_is_as_it_was_planned_anew(
    world: Any, graphs: SimpleNamespace, sizes: tuple[list[int], list[int]]
) -> None:
    """Some of its tasks may have run by that plan: by another one they would read rows twice."""
    world.submit(shuffle(graphs))
    finish_first(world, *sizes)
    before = world.core.registry.status("job-1", world.now)
    assert before.stages[1].adapted
    world.start()
    assert world.core.registry.status("job-1", world.now) == before
