"""Sorts over several tasks.

    Sort(k)          Sort(k)
      X                exchange by range
                         place(k) ── samples of all tasks ── broadcast ── sample(k)
               =>          X ──────────────── forward ──────────────────────┘

One job: a sort whose tasks, one after another, hold all rows in order. The rows are computed once;
each task shows some of its keys to all, which thus agree on ranges without asking anybody. What is
small, or goes to one task anyway, is sorted there.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.planner.draft import MAX_PARALLELISM, Draft, Flow
from fabric.coordinator.planner.estimate import Size
from fabric.coordinator.planner.exchanges import exchange, gather
from fabric.plan.expr import Column
from fabric.plan.nodes import (
    Exchange,
    Filter,
    Limit,
    Node,
    Select,
    Sink,
    Sort,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.targets import FileTarget, FlightTarget, Target
from fabric.plan.walk import walk

SMALL_BYTES = 8 << 20
"""Sorted in one task: three exchanges would cost more than they spread."""
RANGE_BYTES = 128 << 20
"""About what a task should sort: in memory, one range after the other."""


_NARROW = Filter | Select | WithColumns


def sorts_of_one_task(root: Node) -> frozenset[int]:
    """By ``id``, the sorts whose rows must be in order in one task: for a file, a limit, a gather.

    Rows that several tasks send to one come in any order.
    """
    found: set[int] = set()
    for node in walk(root):
        if not _gathers(node):
            continue
        below = node.children[0]
        while isinstance(below, _NARROW):
            below = below.input
        if isinstance(below, Sort):
            found.add(id(below))
    return frozenset(found)


def in_order(root: Node) -> bool:
    """Whether the tasks of a stage, one after another, put out rows in the order of a sort."""
    while isinstance(root, _NARROW | Limit):
        root = root.input
    return isinstance(root, Sort) and root.phase == "single"


def is_single(target: Target) -> bool:
    """Whether one task writes all rows."""
    return isinstance(target, FlightTarget) or (isinstance(target, FileTarget) and target.single)


def _gathers(node: Node) -> bool:
    match node:
        case Limit() | Exchange(kind="gather"):
            return True
        case Sink(target=target):
            return is_single(target)
        case _:
            return False


def plan_sort(
    draft: Draft, node: Sort, flow: Flow, n: int, *, size: Size, configured: bool = False
) -> Flow:
    """The rows of `flow` in order over `n` tasks, or a multiple of that many where it was not
    `configured`."""
    small = size.n_bytes is not None and size.n_bytes <= SMALL_BYTES
    if flow.n == 1 or n == 1 or small:
        flow = gather(draft, flow, node.path, "gather")
        return replace(flow, node=replace(node, input=flow.node), flexible=False)
    n_bytes = size.cautious_bytes
    if not configured and n_bytes is not None:
        rounds = -(-n_bytes // (n * RANGE_BYTES))
        n *= max(1, min(rounds, MAX_PARALLELISM // n))
    return _by_ranges(draft, node, flow, n)


def _by_ranges(draft: Draft, node: Sort, flow: Flow, n: int) -> Flow:
    path = node.path
    shown = exchange(draft, flow, "forward", flow.n, path=f"{path}/shown")
    rows = exchange(draft, flow, "forward", flow.n, path=f"{path}/rows")
    sample = replace(node, input=shown.node, phase="sample", path=f"{path}/sample")
    samples = exchange(draft, shown.over(sample), "broadcast", flow.n, path=f"{path}/samples")
    place = replace(
        node, input=rows.node, phase="place", samples=samples.node, n_ranges=n, path=f"{path}/place"
    )
    *names, number = schema_of(place).names
    sent = exchange(
        draft, rows.over(place), "range", n, path=f"{path}/exchange", keys=(number,),
        settings=path,
    )  # fmt: skip
    columns = tuple(Column(name) for name in names)
    kept = Select(sent.node, columns, path=f"{path}/columns")
    return Flow(replace(node, input=kept), n)
