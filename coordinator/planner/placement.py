"""Which agent runs which task.

One job: round-robin placement, the same for the same input. Task i of every stage of a job lands on
the same agent, so forward edges stay local; jobs begin at different agents, so many small jobs
spread. A region joined by pipelined edges goes to one agent as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric.coordinator.planner.stages import StageGraph
from fabric.errors import PeerLostError

Placement = tuple[tuple[str, ...], ...]
"""Agent id by stage and task."""


def place(graph: StageGraph, agents: Sequence[str], turn: int) -> Placement:
    """Agents for every task; `turn` counts the jobs placed before.

    Raises `PeerLostError` when there is no agent.
    """
    if not agents:
        raise PeerLostError(
            "no agent is attached to the coordinator; start one with `fabric agent` or `fabric up`"
        )
    ordered = sorted(agents)
    first = turn % len(ordered)
    ring = ordered[first:] + ordered[:first]
    hosts: dict[int, tuple[str, ...]] = {}
    for position, stages in enumerate(graph.regions().values()):
        together = len(stages) > 1
        for stage in stages:
            hosts[stage.stage] = tuple(
                ring[(position if together else task) % len(ring)] for task in range(stage.n_tasks)
            )
    return tuple(hosts[stage.stage] for stage in graph.stages)
