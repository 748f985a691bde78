"""Which agent runs which task.

One job: round-robin placement, the same for the same input. Task i of every stage of a job lands on
the same agent, so forward edges stay local; jobs begin at different agents, so many small jobs
spread. The tasks of a region joined by pipelined edges are spread in the same way: all of them run
at once, and rows for another agent go through an exchange.
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
    return tuple(
        tuple(ring[task % len(ring)] for task in range(stage.n_tasks)) for stage in graph.stages
    )


def settled(weights: Sequence[int], homes: Sequence[str | None], ring: Sequence[str]) -> list[str]:
    """Agents of tasks that read `weights` bytes: at home, the others where there is least to do.

    >>> settled([9, 4, 4, 1], [None, "a", None, None], ["a", "b"])
    ['b', 'a', 'a', 'a']
    """
    load = dict.fromkeys(ring, 0)
    found = [""] * len(weights)
    order = sorted(range(len(weights)), key=lambda i: (homes[i] is None, -weights[i]))
    for task in order:
        agent = homes[task] or min(ring, key=load.__getitem__)
        found[task] = agent
        load[agent] = load.get(agent, 0) + weights[task] + 1
    return found
