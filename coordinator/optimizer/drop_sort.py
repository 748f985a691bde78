"""No sort whose order nobody sees.

    Aggregate(k)        Aggregate(k)
      Filter(p)    =>     Filter(p)
        Sort(a)             X
          X

Valid below what promises no order of its rows, whatever theirs was: aggregates, joins, distinct,
windows and other sorts. A limit keeps the sort below it, and so does the end of the plan. It looks
at the whole plan: a sort that two parents read stays if one of them needs the order.
"""

from __future__ import annotations

from fabric.coordinator.optimizer.passes import Note
from fabric.plan.nodes import Aggregate, Distinct, Join, Limit, Node, Sink, Sort, Window
from fabric.plan.walk import walk


def drop_sort(root: Node, note: Note) -> Node:
    """Drop every sort that may go; `root` itself when there is none."""
    order = list(walk(root))
    if not any(isinstance(node, Sort) for node in order):
        return root
    seen = {id(root): True}
    for node in reversed(order):
        for child in node.children:
            seen[id(child)] = seen.get(id(child), False) or _shows(node, seen[id(node)])
    done: dict[int, Node] = {}
    for node in order:
        found = node.with_children(tuple(done[id(child)] for child in node.children))
        if isinstance(found, Sort) and not seen[id(node)]:
            found = note(found, found.input)
        done[id(node)] = found
    return done[id(root)]


def _shows(node: Node, seen: bool) -> bool:
    """Whether somebody sees the order of the rows that go into `node`."""
    match node:
        case Aggregate() | Join() | Distinct() | Window() | Sort():
            return False
        case Limit() | Sink():
            return True
        case _:
            return seen
