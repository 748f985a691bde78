"""Whether a stage puts out the same rows again when it reads the same rows in another order.

One job: `is_determinate`. What is not must not be mixed: when one of its tasks has to run again,
the tasks that read its earlier rows run again as well. The last digits of float sums do not count,
and a user's function is taken to return the same for the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from fabric.coordinator.planner.stages import Edge, Stage
from fabric.plan.expr import Agg, Expr, Over, children
from fabric.plan.nodes import Aggregate, Limit, MapAsync, Node, Window
from fabric.plan.total import volatile
from fabric.plan.walk import postorder, walk

E = TypeVar("E", Agg, Over)
_BY_ORDER = frozenset(
    ("any_value", "approx_quantile", "collect", "first", "last", "max_by", "min_by")
)
_SAME_FOR_TIES = frozenset(("rank", "dense_rank", "percent_rank", "cume_dist"))


def is_determinate(stage: Stage, outputs: tuple[Edge, ...]) -> bool:
    """Whether the rows of each partition are the same whatever the order of input."""
    if any(edge.kind == "round_robin" for edge in outputs):
        return False
    return all(
        _node(node) and not any(map(volatile, node.expressions)) for node in walk(stage.root)
    )


def _node(node: Node) -> bool:
    match node:
        case Limit() | MapAsync():  # a service may answer otherwise the next time
            return False
        case Aggregate(aggs=aggs):
            return all(agg.function not in _BY_ORDER for agg in _parts(aggs, Agg))
        case Window(exprs=exprs):
            return all(_over(over) for over in _parts(exprs, Over))
        case _:
            return True


def _over(over: Over) -> bool:
    function = over.input.function
    if function in _SAME_FOR_TIES:
        return True
    return not over.order_by and over.frame is None and function not in _BY_ORDER


def _parts(exprs: tuple[Expr, ...], kind: type[E]) -> Iterator[E]:
    return (e for expr in exprs for e in postorder(expr, children) if isinstance(e, kind))
