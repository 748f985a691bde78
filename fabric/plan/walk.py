"""Walks and rewrites of plans and expressions, without recursion.

Every node is visited once, children first, so a plan may be thousands of nodes deep. Nodes are
told apart by identity, never hashed or compared (both would recurse). `with_exprs` and `map_exprs`
replace the expressions of one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from fabric.cancellation import check_wanted
from fabric.plan.expr import Agg, Alias, Call, Case, Cast, Expr, IsIn, Over, Udf
from fabric.plan.expr import children as expr_children
from fabric.plan.node import Node

T = TypeVar("T")


def postorder(root: T, below: Callable[[T], Sequence[T]]) -> Iterator[T]:
    """Each object once, after all objects below it, left to right."""
    seen: set[int] = set()
    stack: list[tuple[T, bool]] = [(root, False)]
    while stack:
        item, ready = stack.pop()
        if ready:
            yield item
        elif id(item) not in seen:
            seen.add(id(item))
            stack.append((item, True))
            stack.extend((child, False) for child in reversed(below(item)))


def _ordered(root: T, below: Callable[[T], Sequence[T]]) -> Sequence[T]:
    """What `postorder` gives; faster where nothing but leaves has two parents."""
    found: list[T] = []
    seen: set[int] = set()
    stack, again = [root], False
    while stack:  # right to left, parents first: the other way round it is what is wanted
        item = stack.pop()
        if children := below(item):
            if id(item) in seen:
                return list(postorder(root, below))
            seen.add(id(item))
            stack.extend(children)
        elif id(item) in seen:
            again = True
        else:
            seen.add(id(item))
        found.append(item)
    found.reverse()
    return list({id(item): item for item in found}.values()) if again else found


def walk(root: Node) -> Sequence[Node]:
    """Every node of the plan once (a shared one too), children before parents.

    >>> from fabric.plan.nodes import Limit, StageInput
    >>> import pyarrow as pa
    >>> [type(node).__name__ for node in walk(Limit(StageInput(0, pa.schema([])), 3))]
    ['StageInput', 'Limit']
    """
    check_wanted()
    return _ordered(root, _children)


def _children(node: Node) -> tuple[Node, ...]:
    return node.children


def rewrite(root: Node, fn: Callable[[Node], Node]) -> Node:
    """`fn` applied to every node once, bottom up, over its rewritten children.

    A node shared by two parents stays shared. Where nothing changes, the result is the same object.
    """
    done: dict[int, Node] = {}
    for node in walk(root):
        check_wanted()
        children = tuple(done[id(child)] for child in node.children)
        done[id(node)] = fn(node.with_children(children))
    return done[id(root)]


def walk_expr(root: Expr) -> Sequence[Expr]:
    """Every expression object in `root` once, arguments before what uses them."""
    if not expr_children(root):
        return (root,)
    below: tuple[Expr, ...] | None = getattr(root, "_below", None)
    if below is None:
        below = tuple(_ordered(root, expr_children)[:-1])
        object.__setattr__(root, "_below", below)  # a frozen expression has room for it
    return (*below, root)


def fold(root: Expr, fn: Callable[[Expr, tuple[T, ...]], T]) -> T:
    """``fn(expr, results of its children)`` from the leaves up; shared objects are computed once.

    >>> from fabric.plan.expr import Call, Column
    >>> fold(Call("add", (Column("a"), Column("b"))), lambda _, below: 1 + sum(below))
    3
    """
    done: dict[int, T] = {}
    for expr in walk_expr(root):
        below = expr_children(expr)
        done[id(expr)] = fn(expr, tuple([done[id(child)] for child in below]) if below else ())
    return done[id(root)]


def with_expr_children(expr: Expr, below: Sequence[Expr]) -> Expr:
    """`expr` over other children; the same object when they are the same objects."""
    for one, other in zip(expr_children(expr), below, strict=True):
        if one is not other:
            break
    else:
        return expr
    match expr:
        case Call() | Udf():
            return replace(expr, args=tuple(below))
        case Case():
            pairs = tuple(zip(below[:-1:2], below[1::2], strict=True))
            return Case(pairs, below[-1])
        case Cast() | IsIn() | Alias():
            return replace(expr, input=below[0])
        case Agg(input=source):
            given = None if source is None else below[0]
            return replace(expr, input=given, args=tuple(below[source is not None :]))
        case Over():
            return _with_over(expr, below)
        case _:
            return expr


def _with_over(expr: Over, below: Sequence[Expr]) -> Over:
    agg, n_keys = below[0], len(expr.partition_by)
    assert isinstance(agg, Agg)
    order = zip(expr.order_by, below[1 + n_keys :], strict=True)
    return Over(
        agg,
        tuple(below[1 : 1 + n_keys]),
        tuple(replace(key, input=source) for key, source in order),
        expr.frame,
    )


def rewrite_expr(root: Expr, fn: Callable[[Expr], Expr]) -> Expr:
    """`fn` applied to every part of `root` once, arguments first; unchanged is the same object.

    >>> from fabric.plan.expr import Column
    >>> rewrite_expr(Alias(Column("a"), "x"), lambda e: Column("b") if e == Column("a") else e)
    Alias(input=Column(name='b'), name='x')
    """
    return fold(root, lambda expr, below: fn(with_expr_children(expr, below)))


def with_exprs(node: Node, exprs: Sequence[Expr]) -> Node:
    """`node` with `exprs` in the places of its `expressions`; itself when they are the same."""
    before = node.expressions
    if all(a is b for a, b in zip(before, exprs, strict=True)):
        return node
    return node.with_expressions(tuple(exprs))


def map_exprs(node: Node, fn: Callable[[Expr], Expr]) -> Node:
    """`node` with `fn` applied to each of its whole expressions."""
    return with_exprs(node, tuple(fn(expr) for expr in node.expressions))
