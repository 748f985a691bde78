"""Aggregates and distinct rows in stages.

    Aggregate(k; sum a)        Aggregate final
      X                   =>     exchange by k
                                   Aggregate partial
                                     X

One job: the two phases, and when one suffices: all rows in one task, or equal keys in one task
already. When one of the aggregates has no partial form (count_distinct, median), the rows travel.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from fabric.coordinator.planner.draft import Draft, Flow
from fabric.coordinator.planner.exchanges import group_by, hash_by, refuse_broadcast
from fabric.plan.expr import Agg, Alias, Column, Expr, Literal, columns_of, kept_names, output_name
from fabric.plan.functions import AGGREGATES
from fabric.plan.nodes import Aggregate, Distinct, Node, Select
from fabric.plan.nodes.aggregate import unaliased
from fabric.plan.schema import schema_of, type_of


def plan_aggregate(draft: Draft, node: Aggregate, flow: Flow, n: int) -> Flow:
    """The aggregate over `flow`, spread over `n` tasks where it needs an exchange."""
    refuse_broadcast(flow)
    names = kept_names(node.keys)
    if (flow.n == 1 and n == 1) or (flow.has_together(names) and node.keys):
        return replace(flow, flexible=False).renamed(replace(node, input=flow.node), names)
    return (_by_phases if has_partial_form(node) else _by_rows)(draft, node, flow, n)


def plan_distinct(draft: Draft, node: Distinct, flow: Flow, n: int) -> Flow:
    """Different rows: first of each task, then of all that may be equal."""
    refuse_broadcast(flow)
    if (flow.n == 1 and n == 1) or flow.keys is not None:
        return replace(flow, node=replace(node, input=flow.node), flexible=False)
    local = replace(flow, node=replace(node, input=flow.node), flexible=False)
    schema = schema_of(node)
    columns = [Column(name) for name in schema.names]
    sent = hash_by(draft, local, columns, schema.types, n, at=node.path)
    return sent.over(replace(node, input=sent.node))


def partial_of(node: Aggregate, source: Node) -> Aggregate:
    """The states of each task's groups."""
    return replace(node, input=source, phase="partial")


def final_of(node: Aggregate, source: Node) -> Aggregate:
    """Their sums, over all states of a group."""
    keys = tuple(Column(output_name(key)) for key in node.keys)
    aggs = tuple(_final(expr, schema_of(node.input)) for expr in node.aggs)
    return replace(node, input=source, keys=keys, aggs=aggs, phase="final")


def has_partial_form(node: Aggregate) -> bool:
    """Whether states of parts of a group can be put together."""
    return all(AGGREGATES[unaliased(expr).function].states is not None for expr in node.aggs)


def _by_phases(draft: Draft, node: Aggregate, flow: Flow, n: int) -> Flow:
    partial = partial_of(node, flow.node)
    local = replace(flow, node=partial, keys=None, flexible=False)
    keys = [Column(output_name(key)) for key in node.keys]
    sent = group_by(draft, local, keys, n, at=node.path)
    return sent.over(final_of(node, sent.node))


def _by_rows(draft: Draft, node: Aggregate, flow: Flow, n: int) -> Flow:
    schema = schema_of(flow.node)
    needed = frozenset().union(*map(columns_of, (*node.keys, *node.aggs)))
    columns = tuple(Column(name) for name in schema.names if name in needed)
    if columns and len(columns) < len(schema.names):
        flow = flow.over(Select(flow.node, columns, path=f"{node.path}/columns"))
    sent = group_by(draft, flow, node.keys, n, at=node.path)
    return sent.renamed(replace(node, input=sent.node), kept_names(node.keys))


def _final(expr: Expr, schema: pa.Schema) -> Expr:
    """`expr` for the final phase: a decimal mean must be told its input's type."""
    agg = unaliased(expr)
    if agg.function != "mean" or agg.input is None:
        return expr
    dtype = type_of(agg.input, schema)
    if not pa.types.is_decimal(dtype):
        return expr
    return Alias(Agg("mean", Literal(None, dtype)), output_name(expr))
