"""Window functions of rows, in stages.

    Window(by p)        Window
      X            =>     exchange by p
                            X

One job: rows with equal `partition_by` in one task: where they are, after an exchange, or all
gathered when there are no partitions. The functions then need no further exchange. Where a filter
above keeps the first rows of each partition, a task sends only those that are among its own first.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from fabric.coordinator.planner.draft import Draft, Flow
from fabric.coordinator.planner.exchanges import group_by, refuse_broadcast
from fabric.plan.expr import Agg, Alias, Call, Column, Literal, kept_names
from fabric.plan.nodes import Filter, Select, Window
from fabric.plan.nodes.window import unaliased_over
from fabric.plan.schema import schema_of


def plan_window(
    draft: Draft, node: Window, flow: Flow, n: int, *, first: int | None = None
) -> Flow:
    """The window over `flow`, spread over `n` tasks where it needs an exchange.

    `first` says that of each partition only so many first rows will be kept (`first_rows`).
    """
    refuse_broadcast(flow)
    keys = unaliased_over(node.exprs[0]).partition_by
    together = flow.has_together(kept_names(keys))
    if (flow.n == 1 and n == 1) or (together and keys):
        sent = replace(flow, flexible=False)
        return sent.over(replace(node, input=sent.node))
    if first is not None and flow.n > 1:
        flow = _first_rows(node, flow, first)
    sent = replace(group_by(draft, flow, keys, n, at=node.path), flexible=False)
    return sent.over(replace(node, input=sent.node))


def _first_rows(node: Window, flow: Flow, n: int) -> Flow:
    """The rows of each task that have a rank up to `n` in its part of their partition."""
    schema = schema_of(flow.node)
    name = "__rank"
    while name in schema.names:
        name += "_"
    over = replace(unaliased_over(node.exprs[0]), input=Agg("rank", None))
    ranked = Window(flow.node, (Alias(over, name),), path=f"{node.path}/local")
    bound = Call("le", (Column(name), Literal(n, pa.int32())))
    kept = Filter(ranked, bound, path=f"{node.path}/first")
    columns = tuple(Column(each) for each in schema.names)
    return replace(flow, node=Select(kept, columns, path=f"{node.path}/columns"), flexible=False)
