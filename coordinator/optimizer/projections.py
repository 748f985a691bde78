"""Fewer steps that compute columns: merged with the one below, or left out.

Each rule looks at a select or an added column and the step right below it. A merged step computes
nothing twice. Columns that nobody reads are the work of `prune_columns`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fabric.coordinator.optimizer.expressions import fits, named, substitute, unaliased
from fabric.coordinator.optimizer.passes import over
from fabric.plan.expr import Column, Expr, Literal, columns_of, output_name
from fabric.plan.nodes import Node, Select, WithColumns
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk_expr


@over(Select, Select)
def merge_selects(node: Select, below: Select) -> Node:
    """One select instead of two.

        Select(g(b) as c)        Select(g(f(a)) as c)
          Select(f(a) as b)  =>    X
            X

    Valid because both look at one row at a time; what nobody reads is not computed any more. A
    computed column that is read more than once stays below, so that nothing is computed twice. A
    constant is put in only where it is the whole output, since it would change the types of a call.

    Merge one pair; `node` itself when it does not match.
    """
    values = {output_name(expr): unaliased(expr) for expr in below.exprs}
    if not _may_merge(node.exprs, values):
        return node
    merged = tuple(named(substitute(e, values), output_name(e)) for e in node.exprs)
    return replace(node, input=below.input, exprs=merged) if all(map(fits, merged)) else node


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


def drop_select(node: Node) -> Node:
    """No select that selects everything as it is.

        Select(a, b)        X(a, b)
          X(a, b)       =>

    Valid because both have the same columns in the same order.

    Drop one select; `node` itself when it does not match.
    """
    match node:
        case Select(input=source, exprs=exprs):
            names = [expr.name for expr in exprs if isinstance(expr, Column)]
            if len(names) < len(exprs) or names != schema_of(source).names:
                return node
            return source
        case _:
            return node


@over(WithColumns, WithColumns)
def merge_with_columns(node: WithColumns, below: WithColumns) -> Node:
    """Columns added in one step instead of two.

        WithColumns(g(a) as c)        WithColumns(f(a) as b, g(a) as c)
          WithColumns(f(a) as b) =>     X
            X

    Valid if the upper ones read and overwrite nothing that the lower ones add: then both look at
    the same rows of the same columns. A frame made column by column would else be as deep as it is
    wide.

    Merge one pair; `node` itself when it does not match.
    """
    if not _are_independent(node, below):
        return node
    overwrites = node.replace or below.replace
    exprs = (*below.exprs, *node.exprs)
    return replace(node, input=below.input, exprs=exprs, replace=overwrites)


def _are_independent(node: WithColumns, below: WithColumns) -> bool:
    if not (node.replace or below.replace):  # then what is read is either there before or added
        schema = schema_of(below.input)
        reads = frozenset().union(*map(columns_of, node.exprs))
        return all(schema.get_field_index(name) >= 0 for name in reads)
    added = frozenset(map(output_name, below.exprs))
    return not any(output_name(expr) in added or added & columns_of(expr) for expr in node.exprs)
