"""Work that two stages need is done once.

    stage A: f(X)                stage X: X ─┬─ forward ─ stage A: f(input)
    stage B: g(X)          =>                └─ forward ─ stage B: g(input)

One job: find nodes that ended up in more than one stage and give them a stage of their own; so also
a volatile one that two nodes of a stage read, since it would be computed for each. Only a
scan of something that can be read again is left alone: reading twice costs less than keeping it.
What is below the watermarks of a stream is cut last (`streams/branches.py`).
Rows that arrive over an edge and are read by two stages get an edge for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fabric.coordinator.planner.draft import Draft
from fabric.coordinator.planner.stages import EdgeKind
from fabric.coordinator.planner.streams.branches import branch_watermarks, put, untimed
from fabric.plan.nodes import Node, Scan, StageInput
from fabric.plan.sources import FlightSource
from fabric.plan.total import volatile
from fabric.plan.walk import walk


def cut_shared(draft: Draft) -> None:
    """Cut until no two stages compute the same node, and none computes a volatile one twice."""
    together = untimed(draft)
    while (found := _topmost_shared(draft, together)) is not None:
        node, users = found
        if isinstance(node, StageInput):
            for user in users[1:]:
                put(draft, user, node, draft.again(node.edge))
        else:
            _cut(draft, node, users)
    branch_watermarks(draft)


def _topmost_shared(draft: Draft, together: Mapping[int, Node]) -> tuple[Node, list[int]] | None:
    """A shared node with no shared node above it in any stage, and the stages it is in."""
    users: dict[int, list[int]] = {}
    for number, stage in enumerate(draft.stages):
        for node in walk(stage.root):
            users.setdefault(id(node), []).append(number)
    found: dict[int, Node] = {}
    below: set[int] = set()
    for stage in draft.stages:
        for node in reversed(walk(stage.root)):
            if len(users[id(node)]) > 1 and not (id(node) in together or _repeatable(node)):
                found[id(node)] = node
            if id(node) in found or id(node) in below:
                below.update(map(id, node.children))
    for key, node in found.items():
        if key not in below:
            return node, users[key]
    for number, stage in enumerate(draft.stages):
        if draft.is_endless(stage.root):
            continue  # a chain computes each node once
        if (changing := _volatile_and_shared(stage.root)) is not None:
            return changing, [number]
    return None


def _volatile_and_shared(root: Node) -> Node | None:
    """The topmost node with two parents that has a volatile expression in it or below."""
    order = list(walk(root))
    changing: set[int] = set()
    for node in order:
        if any(id(child) in changing for child in node.children) or any(
            map(volatile, node.expressions)
        ):
            changing.add(id(node))
    if not changing:
        return None
    parents = Counter(id(child) for node in order for child in node.children)
    shared = (node for node in reversed(order) if parents[id(node)] > 1 and id(node) in changing)
    return next(shared, None)


def _repeatable(node: Node) -> bool:
    return isinstance(node, Scan) and not isinstance(node.source, FlightSource)


def _cut(draft: Draft, node: Node, users: list[int]) -> None:
    n_tasks = max(draft.stages[user].n_tasks for user in users)
    own = draft.stage(node, n_tasks, flexible=False)
    made = draft.stages[own].n_tasks
    for user in users:
        if user == own:
            continue
        wanted = draft.stages[user].n_tasks
        kind: EdgeKind = "forward" if wanted == made else "gather" if wanted == 1 else "round_robin"
        leaf = draft.edge(own, path=node.path, kind=kind, n_partitions=wanted)
        put(draft, user, node, leaf)
