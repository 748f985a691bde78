"""Work that is done for nothing, or twice.

A distinct over rows that differ and a sort whose order nobody sees are left out; equal work is done
once. The last two rules look at the whole plan, since it depends on all parents of a node.
"""

from __future__ import annotations

from fabric.coordinator.optimizer.nodes import exact_columns
from fabric.coordinator.optimizer.passes import Note
from fabric.coordinator.optimizer.structure import Structure
from fabric.plan.expr import Udf
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Node,
    Sink,
    Sort,
    StageInput,
    Window,
)
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk, walk_expr

_COSTLY = Aggregate | Join | Distinct | Window | Sort


def drop_distinct(node: Node) -> Node:
    """No search for different rows where all are different.

        Distinct             Aggregate(k; ...)        Distinct        Distinct
          Aggregate(k; ...) =>  X                       Distinct =>     X
            X                                             X

    Valid because an aggregate puts out each combination of keys once, and its output has all keys;
    filters, sorts and limits in between make no rows alike. Not with floats in the output of an
    aggregate: distinct also makes 0.0 of -0.0.

    Drop one distinct; `node` itself when rows may be alike below it.
    """
    match node:
        case Distinct(input=source) if _all_differ(source):
            return source
        case _:
            return node


def _all_differ(node: Node) -> bool:
    while isinstance(node, Filter | Sort | Limit):
        node = node.input
    match node:
        case Distinct():
            return True
        case Aggregate(keys=keys, phase="single"):
            schema = schema_of(node)
            return len(exact_columns(schema)) == len(schema) or not keys
        case _:
            return False


def drop_sort(root: Node, note: Note) -> Node:
    """No sort whose order nobody sees.

        Aggregate(k)        Aggregate(k)
          Filter(p)    =>     Filter(p)
            Sort(a)             X
              X

    Valid below what promises no order of its rows, whatever theirs was: aggregates, joins,
    distinct, windows and other sorts. A limit keeps the sort below it, and so does the end of the
    plan. It looks at the whole plan: a sort that two parents read stays if one of them needs the
    order.

    Drop every sort that may go; `root` itself when there is none.
    """
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


def share_subplans(root: Node, note: Note) -> Node:
    """The same work once, though it is written twice.

        Join                        Join
          Aggregate(k; sum a)         Aggregate(k; sum a) ─┐
            X                   =>      X                  │
          Aggregate(k; sum a)         (the same object) ───┘
            X

    Valid because equal steps over equal inputs put out equal rows. Only work that costs more than
    keeping its rows: aggregates, joins, distinct, windows and sorts, with all below them. Not what
    calls a user's function, which may answer otherwise the second time.

    Share whatever is there twice; `root` itself when nothing is.
    """
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
