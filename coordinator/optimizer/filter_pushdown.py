"""Filters go down to where rows are made: below other steps, into each other, into scans.

Each rule looks at a filter and the step right below it. A term of the predicate goes below a step
whose rows it can judge already there; the other terms stay above (`_moved_below`). What filters
have to do with joins is in `join_filters`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fabric.coordinator.optimizer.expressions import (
    conjoin,
    conjuncts,
    fits,
    passed_through,
    reads_only,
    renamed,
    split,
    substitute,
)
from fabric.coordinator.optimizer.nodes import exact_columns, filtered, moved_filter
from fabric.coordinator.optimizer.passes import over
from fabric.plan.expr import Alias, Column, Expr, Over, output_name
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Explode,
    Filter,
    Node,
    Scan,
    Select,
    Sort,
    Union,
    Window,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import FileSource
from fabric.plan.total import total


@over(Filter, Filter)
def merge_filters(node: Filter, inner: Filter) -> Node:
    """One filter instead of two.

        Filter(q)        Filter(p and q)
          Filter(p)  =>    X
            X

    Valid if `q` can't fail: in one predicate it may be computed for rows that `p` keeps away from
    it.

    Merge one pair; `node` itself when it does not match.
    """
    merged = conjoin([*conjuncts(inner.predicate), *conjuncts(node.predicate)])
    if not total(node.predicate, schema_of(inner.input)) or not fits(merged):
        return node
    return replace(node, input=inner.input, predicate=merged)


@over(Filter, Select)
def filter_below_select(node: Filter, select: Select) -> Node:
    """Filter before columns are computed, not after.

        Filter(p(b) and q(c))               Filter(q(c))
          Select(a as b, f(a) as c)   =>      Select(a as b, f(a) as c)
            X                                   Filter(p(a))
                                                  X

    Valid because a select changes no row. Only parts that read columns passed through under
    whatever name move, so nothing is computed twice.

    Swap one pair; `node` itself when nothing can move.
    """
    values = passed_through(select.exprs)
    return _moved_below(node, select, values, values)


@over(Filter, WithColumns)
def filter_below_with_columns(node: Filter, added: WithColumns) -> Node:
    """Filter before columns are added, not after.

        Filter(p(a) and q(c))         Filter(q(c))
          WithColumns(f(a) as c) =>     WithColumns(f(a) as c)
            X                             Filter(p(a))
                                            X

    Valid because adding columns changes no row. Parts that read an added (or replaced) column stay.

    Swap one pair; `node` itself when nothing can move.
    """
    names = frozenset(schema_of(added.input).names) - set(map(output_name, added.exprs))
    return _moved_below(node, added, names)


@over(Filter, Exchange)
def filter_below_exchange(node: Filter, exchange: Exchange) -> Node:
    """Filter before the network, not after it.

        Filter(p)          Exchange(k)
          Exchange(k)  =>    Filter(p)
            X                  X

    Valid because `p` looks at one row at a time and an exchange changes no row. A forward exchange
    sends nothing to another agent, and whoever taps it wants the rows as they are there.

    Swap one pair; `node` itself when it does not match.
    """
    if exchange.kind == "forward":
        return node
    return replace(exchange, input=replace(node, input=exchange.input))


@over(Filter, Union)
def filter_below_union(node: Filter, union: Union) -> Node:
    """Filter every input of a union instead of its output.

        Filter(p)         Union
          Union       =>    Filter(p)
            X                 X
            Y               Filter(p)
                              Y

    Valid because a union changes no row. Columns go by position, so `p` reads other names in `Y`.
    An input whose types differ from the union's is cast there, and then nothing moves.

    Swap one pair; `node` itself when it does not match.
    """
    schema = schema_of(union)
    below: list[Node] = []
    for source in union.inputs:
        found = schema_of(source)
        if found.types != schema.types:
            return node
        names = dict(zip(schema.names, found.names, strict=True))
        below.append(replace(node, input=source, predicate=renamed(node.predicate, names)))
    return replace(union, inputs=tuple(below))


@over(Filter, Aggregate)
def filter_below_aggregate(node: Filter, grouped: Aggregate) -> Node:
    """Filter rows of groups that would be dropped, before grouping.

        Filter(p(k) and q(n))           Filter(q(n))
          Aggregate(a as k; sum n) =>     Aggregate(a as k; sum n)
            X                               Filter(p(a))
                                              X

    Valid because every row of a group has the same key, and every group has a row. Only keys that
    are columns as they are, and no floats (-0.0 and 0.0 are one group but two texts). Without keys
    there is one row whatever comes in, so nothing moves.

    Swap one pair; `node` itself when nothing can move.
    """
    if not grouped.keys or grouped.phase != "single":
        return node
    exact = exact_columns(schema_of(grouped.input))
    found = passed_through(grouped.keys)
    values = {name: column for name, column in found.items() if column.name in exact}
    return _moved_below(node, grouped, values, values)


@over(Filter, Window)
def filter_below_window(node: Filter, window: Window) -> Node:
    """Filter whole partitions before a window looks at them.

        Filter(p(k) and q(n))             Filter(q(n))
          Window(n over partition k) =>     Window(n over partition k)
            X                                 Filter(p(k))
                                                X

    Valid for parts that read only columns by which all functions are partitioned: they are true for
    all rows of a partition or for none. No floats (-0.0 and 0.0 are one partition but two texts),
    and no part that can fail, since the others may protect it.

    Swap one pair; `node` itself when nothing can move.
    """
    names = _partition_columns(window).intersection(exact_columns(schema_of(window.input)))
    return _moved_below(node, window, names, only_total=True) if names else node


def _partition_columns(window: Window) -> frozenset[str]:
    """Columns among the keys; all functions of a window have the same."""
    first = window.exprs[0]
    bare = first.input if isinstance(first, Alias) else first
    keys = bare.partition_by if isinstance(bare, Over) else ()
    return frozenset(key.name for key in keys if isinstance(key, Column))


@over(Filter, Explode)
def filter_below_explode(node: Filter, explode: Explode) -> Node:
    """Filter rows before their lists are taken apart.

        Filter(p(a) and q(e))        Filter(q(e))
          Explode(e)            =>     Explode(e)
            X                            Filter(p(a))
                                           X

    Valid for parts that read neither the elements nor their places: they are true for all rows made
    of one row, or for none. A part that can fail stays: a row without elements is not looked at
    above.

    Swap one pair; `node` itself when nothing can move.
    """
    names = frozenset(schema_of(explode.input).names) - {explode.column}
    return _moved_below(node, explode, names, only_total=True)


@over(Filter, Sort)
def filter_below_sort(node: Filter, sort: Sort) -> Node:
    """Filter before sorting, not after.

        Filter(p)      Sort(k)
          Sort(k)  =>    Filter(p)
            X              X

    Valid because a sort only changes the order of rows, and a filter keeps the order of what it
    keeps.

    Swap one pair; `node` itself when it does not match.
    """
    return replace(sort, input=replace(node, input=sort.input))


@over(Filter, Distinct)
def filter_below_distinct(node: Filter, distinct: Distinct) -> Node:
    """Filter before looking for different rows, not after.

        Filter(p)      Distinct
          Distinct =>    Filter(p)
            X              X

    Valid because equal rows pass or fail `p` together. That is not so for floats inside `p`: -0.0
    and 0.0 are one row to a distinct but two texts to a cast, so parts that read a float stay.

    Swap one pair; `node` itself when nothing can move.
    """
    return _moved_below(node, distinct, exact_columns(schema_of(distinct.input)))


@over(Filter, Scan)
def filter_into_scan(node: Filter, scan: Scan) -> Node:
    """Filter while reading files.

        Filter(p)                    Scan(files, predicate=p)
          Scan(files)            =>

    Valid because a scan with a predicate puts out exactly the rows for which it is true; it may
    skip row groups by their statistics. A second predicate joins the first only if it can't fail,
    since both are then computed for every row. Only files: other sources know no predicates.

    Merge one pair; `node` itself when it does not match.
    """
    if not isinstance(scan.source, FileSource):
        return node
    if scan.predicate is None:
        return replace(scan, predicate=node.predicate)
    merged = conjoin([*conjuncts(scan.predicate), *conjuncts(node.predicate)])
    if not total(node.predicate, scan.schema) or not fits(merged):
        return node
    return replace(scan, predicate=merged)


def _moved_below(
    node: Filter,
    step: Select | WithColumns | Aggregate | Window | Explode | Distinct,
    names: Iterable[str],
    values: Mapping[str, Expr] | None = None,
    *,
    only_total: bool = False,
) -> Node:
    """`step` over a filter of the terms that read only `names`; `node` itself when none moves.

    `values` are the expressions below for the names above, where they differ. With `only_total` a
    term that can fail stays.
    """
    moved, kept = split(node.predicate, schema_of(step), reads_only(names), only_total=only_total)
    if not moved:
        return node
    below = [substitute(part, values) for part in moved] if values else moved
    return filtered(node, replace(step, input=moved_filter(node, step.input, below)), kept)
