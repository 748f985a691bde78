"""Whether rows of one input may go to any task of a stage, when each sees all of the others.

One job: `dealing`, which follows the input up to the stage's root and on. That is so as long as
each row alone decides what becomes of it:

    filter, select, …   always
    join                where the other side may be broadcast (`MAY_BE_SENT`)
    partial aggregate, local distinct, local limit, sample, place   they expect any rows
    aggregate, distinct   once, when parts can be merged: it is cut there

    stage: f(Aggregate(X))   =>   stage: partial(X) ── hash ── added stage: f(final)

What is above a cut must look at one row at a time. A Python function below might not give the same
twice, and replicated rows are computed more than once: such a stage is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric.coordinator.planner.adaptive.sizes import straight
from fabric.coordinator.planner.aggregates import has_partial_form
from fabric.coordinator.planner.joins import MAY_BE_SENT
from fabric.coordinator.planner.stages import Stage, StageGraph
from fabric.plan.expr import Udf
from fabric.plan.nodes import (
    ROW_BY_ROW,
    Aggregate,
    Distinct,
    Join,
    Limit,
    Node,
    Sink,
    Sort,
    StageInput,
)
from fabric.plan.walk import walk, walk_expr

Cut = Aggregate | Distinct
_THROUGH: tuple[type[Node], ...] = (*ROW_BY_ROW, Sink, StageInput)


@dataclass(frozen=True, slots=True)
class Dealing:
    """It may; with a `cut` the stage ends in the parts of that node."""

    cut: Cut | None = None


def dealing(graph: StageGraph, stage: Stage, edge: int) -> Dealing | None:
    """How `stage` runs when rows of `edge` go to any task; None: it would give other rows."""
    if any(map(_is_python, walk(stage.root))):
        return None
    cut: Cut | None = None
    touched: set[int] = set()
    for node in walk(stage.root):
        below = [child for child in node.children if id(child) in touched]
        if not below and not (isinstance(node, StageInput) and node.edge == edge):
            continue
        touched.add(id(node))
        if isinstance(node, _THROUGH):
            continue
        if cut is not None or len(below) > 1:
            return None
        if _is_mergeable(graph, stage, node):
            assert isinstance(node, Cut)
            cut = node
        elif not _takes_any(graph, stage, node, below[0]):
            return None
    if cut is not None:
        return Dealing(cut) if not straight(graph, stage) else None
    for out in straight(graph, stage):
        above = dealing(graph, graph.stages[out.consumer], out.edge)
        if above is None or above.cut is not None:
            return None
    return Dealing()


def _takes_any(graph: StageGraph, stage: Stage, node: Node, below: Node) -> bool:
    """Whether `node` means the same when each task sees some rows of `below`."""
    match node:
        case Join():
            other = "right" if below is node.left else "left"
            return node.left is not node.right and other in MAY_BE_SENT[node.how]
        case Aggregate():
            return node.phase == "partial"
        case Sort():
            return node.phase != "single" or _is_gathered(graph, stage, stage.root, node)
        case Limit():
            return node is stage.root and _is_gathered(graph, stage, node, node.input)
        case Distinct():
            return _is_local(graph, stage, node)
        case _:
            return False


def _is_gathered(graph: StageGraph, stage: Stage, root: Node, below: Node) -> bool:
    """Whether `root` is a task's own limit over `below`, and another follows."""
    kinds = {edge.kind for edge in graph.outputs[stage.stage]}
    return isinstance(root, Limit) and root.input is below and kinds == {"gather"}


def _is_local(graph: StageGraph, stage: Stage, node: Distinct) -> bool:
    """Whether every row of a distinct goes to another one of all tasks."""
    return node is stage.root and all(
        edge.kind == "hash" and edge.path == f"{node.path}/exchange"
        for edge in graph.outputs[stage.stage]
    )


def _is_merge(graph: StageGraph, stage: Stage, node: Distinct) -> bool:
    """Whether its rows are those of local ones already: parts of it would be no smaller."""
    producers = [graph.stages[edge.producer].root for edge in graph.inputs[stage.stage]]
    return any(isinstance(root, Distinct) and root.path == node.path for root in producers)


def _is_mergeable(graph: StageGraph, stage: Stage, node: Node) -> bool:
    if isinstance(node, Distinct):
        return not _is_local(graph, stage, node) and not _is_merge(graph, stage, node)
    whole = isinstance(node, Aggregate) and node.phase == "single" and bool(node.keys)
    return whole and isinstance(node, Aggregate) and has_partial_form(node)


def _is_python(node: Node) -> bool:
    return any(isinstance(part, Udf) for expr in node.expressions for part in walk_expr(expr))
