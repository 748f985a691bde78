"""Windows in stages.

    Window(by p)        Window
      X            =>     exchange by p
                            X

One job: rows with equal `partition_by` in one task: where they are, after an exchange, or all
gathered when there are no partitions. The functions then need no further exchange.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.planner.draft import Draft
from fabric.coordinator.planner.exchanges import gather, hash_by, refuse_broadcast
from fabric.coordinator.planner.flows import Flow, kept_names
from fabric.plan.nodes import Window
from fabric.plan.schema import schema_of, type_of
from fabric.plan.window import unaliased_over


def plan_window(draft: Draft, node: Window, flow: Flow, n: int) -> Flow:
    """The window over `flow`, spread over `n` tasks where it needs an exchange."""
    refuse_broadcast(flow)
    keys = unaliased_over(node.exprs[0]).partition_by
    known = kept_names(keys)
    together = flow.keys is not None and all(name in known for name, _ in flow.keys)
    path = f"{node.path}/exchange"
    if (flow.n == 1 and n == 1) or (together and keys):
        sent = replace(flow, flexible=False)
    elif keys:
        schema = schema_of(flow.node)
        types = [type_of(key, schema) for key in keys]
        sent = hash_by(draft, flow, keys, types, n, path=path, settings=node.path)
    else:
        sent = replace(gather(draft, flow, path=path, settings=node.path), flexible=False)
    return sent.over(replace(node, input=sent.node))
