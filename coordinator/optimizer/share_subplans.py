"""The same work once, though it is written twice.

    Join                        Join
      Aggregate(k; sum a)         Aggregate(k; sum a) ─┐
        X                   =>      X                  │
      Aggregate(k; sum a)         (the same object) ───┘
        X

Valid because equal steps over equal inputs put out equal rows. Only work that costs more than
keeping its rows: aggregates, joins, distinct, windows and sorts, with all below them. Not what
calls a user's function, which may answer otherwise the second time.
"""

from __future__ import annotations

from fabric.coordinator.optimizer.passes import Note
from fabric.coordinator.optimizer.structure import Structure
from fabric.plan.expr import Udf
from fabric.plan.nodes import Aggregate, Distinct, Join, Node, Sink, Sort, StageInput, Window
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk, walk_expr

_COSTLY = Aggregate | Join | Distinct | Window | Sort


def share_subplans(root: Node, note: Note) -> Node:
    """Share whatever is there twice; `root` itself when nothing is."""
    order = list(walk(root))
    columns = [tuple(schema_of(node).names) for node in order if isinstance(node, _COSTLY)]
    if len(set(columns)) == len(columns):  # what differs in its columns is not the same work
        return root
    known = Structure()
    numbers: dict[int, int] = {}
    pays: dict[int, bool] = {}
    done: dict[int, Node] = {}
    first: dict[int, Node] = {}
    for node in order:
        number = known.node(node, tuple(numbers[id(child)] for child in node.children))
        numbers[id(node)] = number
        pays[id(node)] = isinstance(node, _COSTLY) or any(pays[id(c)] for c in node.children)
        made = node.with_children(tuple(done[id(child)] for child in node.children))
        if pays[id(node)] and number in first and _is_fixed(node):
            made = note(made, first[number])
        first.setdefault(number, made)
        done[id(node)] = made
    return done[id(root)]


def _is_fixed(node: Node) -> bool:
    """Whether it puts out the same rows every time."""
    return not any(isinstance(part, Sink | StageInput) or _calls_user(part) for part in walk(node))


def _calls_user(node: Node) -> bool:
    return any(isinstance(part, Udf) for expr in node.expressions for part in walk_expr(expr))
