"""Windows: the way of each function, and one data frame of all.

One job: `lower_window`. Functions that DataFusion has with Spark's meaning stay in DataFusion; the
others make the rows be stored first, once for each different order.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fabric.operators.fragment.relation import Relation, select
from fabric.operators.fragment.scan import Tables
from fabric.operators.fragment.windows.inputs import Inputs
from fabric.operators.fragment.windows.native import Native, is_native
from fabric.operators.fragment.windows.pruned import can_prune, pruned
from fabric.operators.fragment.windows.stored import Collect, store
from fabric.plan.expr import Over, SortKey
from fabric.plan.nodes import Window
from fabric.plan.nodes.window import unaliased_over
from fabric.plan.schema import schema_of

Wanted = Sequence[tuple[Over, pa.Field]]


def lower_window(
    node: Window,
    source: Relation,
    tables: Tables,
    collect: Collect,
    *,
    first: int | None = None,
    n_rows: float = 0.0,
) -> Relation:
    """`node` over `source`, about `n_rows`; `collect` runs a data frame to the end.

    `first` says that of each partition only so many first rows will be kept.
    """
    schema = schema_of(node)
    fields = list(schema)[len(source.schema) :]
    wanted = [(unaliased_over(e), f) for e, f in zip(node.exprs, fields, strict=True)]
    native = [(over, field) for over, field in wanted if is_native(over, source.schema)]
    others = [(over, field) for over, field in wanted if not is_native(over, source.schema)]
    if first is not None and can_prune(wanted[0][0], source.schema):
        source = pruned(source, wanted[0][0], first, tables, collect, n_rows=n_rows)
    for group in _by_order(others):
        source = store(source, group, tables, collect)
    work = Native(Inputs(source))
    for over, field in native:
        work.add(over, field)
    df, made = work.outputs()
    known = {output.name: output for output in (*source.outputs(), *made)}
    return select(df, [known[field.name] for field in schema], source.names)


def _by_order(wanted: Wanted) -> list[Wanted]:
    """Those with the same order together."""
    found: dict[tuple[SortKey, ...], list[tuple[Over, pa.Field]]] = {}
    for over, field in wanted:
        found.setdefault(over.order_by, []).append((over, field))
    return list(found.values())
