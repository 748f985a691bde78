"""A job's stage planned anew when its inputs are complete.

One job: `replan`, which gives the planner what was measured and puts its answer into the job:
graph, fragments, tasks and their agents. Nothing of the stage has been told to an agent yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.planner.adaptive.adapt import adapted
from fabric.coordinator.planner.adaptive.sizes import Sizes, straight
from fabric.coordinator.planner.placement import settled
from fabric.coordinator.planner.stages import Edge, Stage, StageGraph
from fabric.plan.codec import encode
from fabric.plan.nodes import Plan


def replan(job: Job, number: int, hellos: Mapping[str, pb.Hello]) -> list[Edge]:
    """Make the tasks of stage `number` anew if that is better; returns the edges that changed."""
    sizes = job.sizes(number)
    n_slots = sum(hellos[agent].slots for agent in job.agents() if agent in hellos)
    before, after = job.graph, adapted(job.graph, number, sizes, job.adaptive, n_slots)
    job.forget_sizes(number)
    if after is before:
        return []
    ring = list(dict.fromkeys([t.agent_id for t in job.tasks.stage(number)] + job.agents()))
    agents = _agents(job, after.stages[number], sizes, ring)
    fragments = list(job.fragments)
    job.graph = after
    for stage, placed in _changed(before, after, number, agents, ring):
        job.tasks.plan(stage.stage, placed)
        fragments[stage.stage :] = [encode(Plan(stage.root)), *fragments[stage.stage + 1 :]]
    job.fragments = tuple(fragments)
    old = {edge.edge: edge for edge in before.edges}
    return [edge for edge in after.edges if old.get(edge.edge) is not edge]


def _changed(
    before: StageGraph, after: StageGraph, number: int, agents: list[str], ring: list[str]
) -> Iterator[tuple[Stage, list[str]]]:
    """The stages that changed, in order, and where their tasks run."""
    following = set(_following(after, number))
    for stage in after.stages:
        if stage.stage in following:
            yield stage, agents
        elif stage.stage >= len(before.stages):
            yield stage, [ring[task % len(ring)] for task in range(stage.n_tasks)]


def _following(graph: StageGraph, number: int) -> Iterator[int]:
    """Stage `number` and those it sends its rows straight on to."""
    yield number
    for edge in straight(graph, graph.stages[number]):
        yield from _following(graph, edge.consumer)


def _agents(job: Job, stage: Stage, sizes: Sizes, ring: list[str]) -> list[str]:
    """Who reads what: a part of one agent's rows is read there."""
    weights, homes = [], []
    for task in range(stage.n_tasks):
        weight, home = 0, None
        for number, by_producer in sizes.items():
            read = stage.read(number, task)
            assert read is not None
            (begin, end), part = read.partitions, read.producers
            chosen = by_producer[slice(*part)] if part else by_producer
            weight += sum(sum(row[begin:end]) for row in chosen)
            if part:
                producers = job.tasks.stage(job.graph.edge(number).producer)[slice(*part)]
                owners = {producer.agent_id for producer in producers}
                home = owners.pop() if len(owners) == 1 else None
        weights.append(weight)
        homes.append(home)
    return settled(weights, homes, ring)
