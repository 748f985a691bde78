"""A source of a stream that several branches go on with, each by event time of its own.

    stage A: f(Watermark(X))          stage S: Branches ── 0 ── stage A: f(input)
    stage B: g(X)               =>      Watermark ─ X ─ 1 ───── stage B: g(input)

One job: `branch_watermarks`. A watermark goes by the splits of its source, so it is computed where
these are read; and a split has one reader, so all branches of a source are read by one stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from fabric.coordinator.planner.draft import Draft
from fabric.coordinator.planner.stages import EdgeKind
from fabric.plan.nodes import (
    ROW_BY_ROW,
    Branches,
    Keyed,
    LookupJoin,
    MapAsync,
    Node,
    Sink,
    StageInput,
    StreamScan,
    TwoStreams,
    Watermark,
    branch_side,
)
from fabric.plan.walk import rewrite, walk

_BY_SPLIT: tuple[type[Node], ...] = (
    *(kind for kind in ROW_BY_ROW if kind is not MapAsync), LookupJoin,
)  # fmt: skip
"""Steps after which rows are still told apart by the split they came from."""


def untimed(draft: Draft) -> dict[int, Node]:
    """By ``id``: scans of streams with a watermark above, the steps that may be between, and what
    these read: they are computed together, see `branch_watermarks`."""
    found: dict[int, Node] = {}
    for scan in _scans(draft):
        steps = _steps(draft, scan)
        if any(_is_timing(node, steps) for stage in draft.stages for node in walk(stage.root)):
            found.update((id(part), part) for step in steps.values() for part in walk(step))
    return found


def branch_watermarks(draft: Draft) -> None:
    """Give each scan that is in several stages, under a watermark in one of them, its own stage.

    Nothing but `untimed` nodes may be shared by stages any more.
    """
    for scan in _scans(draft):
        steps = _steps(draft, scan)
        users = [
            number for number, stage in enumerate(draft.stages)
            if any(node is scan for node in walk(stage.root))
        ]  # fmt: skip
        timing = any(
            _is_timing(node, steps) for user in users for node in walk(draft.stages[user].root)
        )
        if timing and len(users) > 1:
            _branch(draft, scan, steps, users)


def _scans(draft: Draft) -> list[StreamScan]:
    found: dict[int, StreamScan] = {}
    for stage in draft.stages:
        for node in walk(stage.root):
            if isinstance(node, StreamScan):
                found[id(node)] = node
    return list(found.values())


def _steps(draft: Draft, scan: StreamScan) -> dict[int, Node]:
    """`scan` and the steps over its rows that may be below a watermark, by ``id``."""
    found: dict[int, Node] = {id(scan): scan}
    for stage in draft.stages:
        for node in walk(stage.root):
            if isinstance(node, _BY_SPLIT) and id(node.children[0]) in found:
                found[id(node)] = node
    return found


def _is_timing(node: Node, steps: dict[int, Node]) -> bool:
    return isinstance(node, Watermark) and id(node.input) in steps


def _branch(draft: Draft, scan: StreamScan, steps: dict[int, Node], users: list[int]) -> None:
    n_tasks = max(draft.stages[user].n_tasks for user in users)
    whole = [user for user in users if _is_branch(draft, user, scan, n_tasks)]
    n_users = Counter(
        id(node) for user in users for node in walk(draft.stages[user].root) if id(node) in steps
    )
    cuts = {
        user: [draft.stages[user].root]
        if user in whole
        else list(_cuts(draft.stages[user].root, steps, n_users))
        for user in users
    }
    tops = {id(node): node for found in cuts.values() for node in found}
    branch = {key: number for number, key in enumerate(tops)}
    root = Branches(tuple(tops.values()), path=f"{scan.path}/branches")
    _fit_tables(draft, root, n_tasks)
    own = draft.stage(root, n_tasks, flexible=False)
    for user in users:
        if user in whole:
            _hand_over(draft, user, own, branch[id(draft.stages[user].root)])
            continue
        wanted = draft.stages[user].n_tasks
        kind: EdgeKind = (
            "forward" if wanted == n_tasks else "gather" if wanted == 1 else "round_robin"
        )
        for node in cuts[user]:
            side = branch_side(branch[id(node)])
            leaf = draft.edge(own, path=node.path, kind=kind, n_partitions=wanted, side=side)
            put(draft, user, node, leaf)


def _is_branch(draft: Draft, user: int, scan: StreamScan, n_tasks: int) -> bool:
    """Whether all of a stage may move to where the scan is: it looks at single rows of it alone."""
    stage = draft.stages[user]
    nodes = walk(stage.root)
    return (
        all(node is scan or node.children for node in nodes)
        and not any(isinstance(node, Keyed | Sink | TwoStreams) for node in nodes)
        and not any(edge.is_result for edge in draft.edges if edge.producer == user)
        and (stage.flexible or stage.n_tasks == n_tasks)
    )


def _cuts(root: Node, steps: dict[int, Node], n_users: Counter[int]) -> Iterator[Node]:
    """Where a stage goes on with rows of the scan's: topmost first."""
    nodes = walk(root)
    timed = [node for node in nodes if _is_timing(node, steps)]
    below = {id(part) for node in timed for part in walk(node.children[0])}
    waiting = {id(root)}
    for node in reversed(nodes):
        if id(node) not in waiting:
            continue
        is_shared = id(node) in steps and (n_users[id(node)] > 1 or id(node) in below)
        if is_shared or _is_timing(node, steps):
            yield node
        else:
            waiting.update(map(id, node.children))


def _fit_tables(draft: Draft, root: Branches, n_tasks: int) -> None:
    """Tables that rows are looked up in below a branch are whole in every task, however many."""
    for node in walk(root):
        if isinstance(node, StageInput):
            edge = draft.edges[node.edge]
            draft.edges[node.edge] = replace(edge, n_partitions=n_tasks)


def _hand_over(draft: Draft, user: int, own: int, branch: int) -> None:
    """What left stage `user` leaves `own`, as that branch; nobody reads `user` any more."""
    for number, edge in enumerate(draft.edges):
        if edge.producer == user:
            side = branch_side(branch, edge.side)
            draft.edges[number] = replace(edge, producer=own, side=side)


def put(draft: Draft, user: int, old: Node, new: Node) -> None:
    """Let stage `user` read `new` where it computed `old`."""
    root = rewrite(draft.stages[user].root, lambda node: new if node is old else node)
    draft.set_root(user, root)
