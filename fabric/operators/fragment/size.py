"""How many rows each node of a fragment will about have.

One job: an estimate that is only good for telling the smaller side of a join.
"""

from __future__ import annotations

from collections.abc import Callable

from fabric.plan.nodes import Aggregate, Explode, Filter, Join, Limit, Node, Scan, StageInput
from fabric.plan.walk import walk

_FILTERED = 0.3
_GROUPED = 0.1
_EXPLODED = 4.0


def estimated_rows(root: Node, leaf_rows: Callable[[Scan | StageInput], float]) -> dict[int, float]:
    """Rows by ``id(node)``; `leaf_rows` knows the leaves."""
    rows: dict[int, float] = {}
    for node in walk(root):
        below = [rows[id(child)] for child in node.children]
        rows[id(node)] = _rows(node, below, leaf_rows)
    return rows


def _rows(node: Node, below: list[float], leaf_rows: Callable[[Scan | StageInput], float]) -> float:
    match node:
        case Scan() | StageInput():
            return leaf_rows(node) * (
                _FILTERED if isinstance(node, Scan) and node.predicate is not None else 1
            )
        case Filter():
            return below[0] * _FILTERED
        case Aggregate(keys=keys):
            return below[0] * _GROUPED if keys else 1.0
        case Limit(n=n):
            return min(below[0], n)
        case Join():
            return _joined_rows(node, *below)
        case Explode():
            return below[0] * _EXPLODED
        case _:
            return sum(below)


def _joined_rows(node: Join, left: float, right: float) -> float:
    """As if each row found one at most; without keys each may find every one."""
    if node.how in ("semi", "anti"):
        return left
    if not node.left_keys:
        return left * right * (1 if node.condition is None else _FILTERED)
    match node.how:
        case "right":
            return right
        case "full":
            return left + right
        case _:
            return left
