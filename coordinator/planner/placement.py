"""Which agent a task would best run on.

One job: preferred agents, the same for the same input; the scheduler takes another where one has
no free slot. A task that scans a dataset prefers the agent where most of its rows lie, and who gets
its rows straight follows it; otherwise task i of every stage of a job prefers the same agent, so
that forward edges stay local. Policy "spread" goes round the agents, each job beginning with the
next; "bin_pack" fills the slots of one agent after the other, so that the rest stay free for large
jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from fabric.coordinator.planner.stages import ScanSplits, StageGraph
from fabric.errors import PeerLostError

Placement = tuple[tuple[str, ...], ...]
"""Agent id by stage and task."""
Policy = Literal["spread", "bin_pack"]
POLICIES: tuple[Policy, ...] = ("spread", "bin_pack")


def place(
    graph: StageGraph, slots: Mapping[str, int], turn: int, policy: Policy = "spread"
) -> Placement:
    """Agents for every task; `slots` by agent, `turn` counts the jobs placed before.

    Raises `PeerLostError` when there is no agent.

    """
    if not slots:
        raise PeerLostError(
            "no agent is attached to the coordinator; start one with `fabric agent` or `fabric up`"
        )
    ring = _ring(slots, turn, policy)
    found: list[tuple[str, ...]] = []
    for stage in graph.stages:
        wanted = [ring[task % len(ring)] for task in range(stage.n_tasks)]
        for edge in graph.inputs[stage.stage]:
            if edge.kind == "forward" and edge.producer < len(found):
                wanted[: len(found[edge.producer])] = found[edge.producer]
        scanned = zip(
            stage.splits, wanted, strict=False
        )  # a stage that scans nothing has no splits
        homes = [_home(scans, slots, agent) for scans, agent in scanned]
        found.append(tuple(homes or wanted))
    return tuple(found)


def _home(scans: ScanSplits, agents: Collection[str], otherwise: str) -> str:
    """The agent that owns most of what a task scans; `otherwise` when none owns more than that."""
    weights = Counter[str]()
    for split in (split for _, splits in scans for split in splits):
        for owner in split.uri.split(","):  # of a dataset: all that have a replica
            if owner in agents:
                weights[owner] += max(1, split.n_bytes or split.n_rows)
    best = max(weights, key=weights.__getitem__, default=otherwise)
    return best if weights[best] > weights[otherwise] else otherwise


def _ring(slots: Mapping[str, int], turn: int, policy: Policy) -> list[str]:
    ordered = sorted(slots)
    if policy == "bin_pack":
        return [agent for agent in ordered for _ in range(max(1, slots[agent]))]
    first = turn % len(ordered)
    return ordered[first:] + ordered[:first]


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
