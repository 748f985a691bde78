"""What rules ask of expressions: their conjuncts, other columns put in.

One job: pure questions and copies. Whether an expression can fail is `fabric.plan.total`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from fabric.plan.expr import (
    Alias,
    Call,
    Column,
    Expr,
    columns_of,
    output_name,
)
from fabric.plan.total import total, volatile
from fabric.plan.walk import fold, with_expr_children

_MERGED_DEPTH_MAX = 100
_MERGED_SIZE_MAX = 2000


def conjuncts(predicate: Expr) -> list[Expr]:
    """The parts that must all be true, in the order in which they are written.

    >>> a, b, c = Column("a"), Column("b"), Column("c")
    >>> conjuncts(Call("and", (Call("and", (a, b)), c))) == [a, b, c]
    True
    """
    found: list[Expr] = []
    stack = [predicate]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Call) and expr.function == "and":
            stack.extend(reversed(expr.args))
        else:
            found.append(expr)
    return found


def conjoin(parts: Sequence[Expr]) -> Expr:
    """One predicate of one or more parts: a balanced tree, so that many parts do not nest deep.

    >>> conjoin([Column("a")])
    Column(name='a')
    """
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Call("and", (conjoin(parts[:middle]), conjoin(parts[middle:])))


def split(
    predicate: Expr,
    schema: pa.Schema,
    can_move: Callable[[Expr], bool],
    *,
    only_total: bool = False,
) -> tuple[list[Expr], list[Expr]]:
    """Conjuncts that may be evaluated earlier than the others, and the rest; both keep their order.

    One that can fail moves only if all before it move too, because they may protect it; with
    `only_total` it never moves. One that is volatile stays, since it is about the rows here.
    """
    moved: list[Expr] = []
    kept: list[Expr] = []
    for part in conjuncts(predicate):
        free = (not kept and not only_total) or total(part, schema)
        if can_move(part) and free and not volatile(part):
            moved.append(part)
        else:
            kept.append(part)
    return moved, kept


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with each column replaced by its value, where `values` has one."""

    def put(node: Expr, below: tuple[Expr, ...]) -> Expr:
        if isinstance(node, Column):
            return values.get(node.name, node)
        return with_expr_children(node, below)

    return fold(expr, put)


def renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    """`expr` with each column under its other name, where `names` has one."""
    return substitute(expr, {name: Column(other) for name, other in names.items()})


def unaliased(expr: Expr) -> Expr:
    """`expr` without the name at its top."""
    return expr.input if isinstance(expr, Alias) else expr


def named(expr: Expr, name: str) -> Expr:
    """`expr` under the output name `name`.

    >>> named(Column("a"), "a"), named(Column("a"), "b")
    (Column(name='a'), Alias(input=Column(name='a'), name='b'))
    """
    bare = unaliased(expr)
    return bare if output_name(bare) == name else Alias(bare, name)


def passed_through(exprs: Iterable[Expr]) -> dict[str, Column]:
    """Outputs that are an input column under some name: that column by output name.

    Constants are left out: put into a call they would change its types, since a decimal's precision
    follows from a constant's digits.
    """
    found = ((output_name(expr), unaliased(expr)) for expr in exprs)
    return {name: value for name, value in found if isinstance(value, Column)}


def reads_only(names: Iterable[str]) -> Callable[[Expr], bool]:
    """Whether an expression reads no other columns than `names`."""
    known = frozenset(names)
    return lambda expr: columns_of(expr) <= known


def fits(expr: Expr) -> bool:
    """Whether a merged expression stays far below the limits of `fabric.plan.infer`.

    >>> fits(Column("a"))
    True
    """

    def measure(_: Expr, below: tuple[tuple[int, int], ...]) -> tuple[int, int]:
        deepest = max((depth for depth, _ in below), default=0)
        return 1 + deepest, 1 + sum(size for _, size in below)

    depth, size = fold(expr, measure)
    return depth <= _MERGED_DEPTH_MAX and size <= _MERGED_SIZE_MAX
