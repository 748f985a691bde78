"""One select instead of two.

    Select(g(b) as c)        Select(g(f(a)) as c)
      Select(f(a) as b)  =>    X
        X

Valid because both look at one row at a time; what nobody reads is not computed any more. A computed
column that is read more than once stays below, so that nothing is computed twice. A constant is put
in only where it is the whole output, since it would change the types of a call.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fabric.coordinator.optimizer.expressions import fits, named, substitute, unaliased
from fabric.plan.expr import Column, Expr, Literal, output_name
from fabric.plan.nodes import Node, Select
from fabric.plan.walk import walk_expr


def merge_selects(node: Node) -> Node:
    """Merge one pair; `node` itself when it does not match."""
    match node:
        case Select(input=Select(input=source, exprs=inner), exprs=outer):
            values = {output_name(expr): unaliased(expr) for expr in inner}
            if not _may_merge(outer, values):
                return node
            merged = tuple(named(substitute(e, values), output_name(e)) for e in outer)
            return replace(node, input=source, exprs=merged) if all(map(fits, merged)) else node
        case _:
            return node


def _may_merge(outer: tuple[Expr, ...], values: dict[str, Expr]) -> bool:
    reads: Counter[str] = Counter()
    inside: set[str] = set()
    for expr in outer:
        columns = [part.name for part in walk_expr(expr) if isinstance(part, Column)]
        reads.update(columns)
        if not isinstance(unaliased(expr), Column):
            inside.update(columns)
    for name, n_reads in reads.items():
        value = values[name]
        if isinstance(value, Literal):
            if name in inside:
                return False
        elif not isinstance(value, Column) and n_reads > 1:
            return False
    return True
