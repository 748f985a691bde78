"""Keyed steps of a stream in stages.

    Step(k)             Step(k)
      X            =>     exchange by k
                            X

One job: rows with equal keys in one task, by an exchange or where they are already; a table that a
stream looks things up in, whole in every task. Steps are over columns (`columns.py`). A step by
more keys than the one below it gets its own exchange, as state is restored by the hash of them all.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.planner.draft import Draft, Flow
from fabric.coordinator.planner.exchanges import exchange, group_by, refuse_broadcast
from fabric.plan.expr import output_name
from fabric.plan.nodes import Keyed, KeyedProcess, LookupJoin, Node, StreamAggregate


def plan_keyed(draft: Draft, node: Keyed, flow: Flow, n: int) -> Flow:
    """The step over `flow`, in `n` tasks where it needs an exchange; without keys in one."""
    refuse_broadcast(flow)
    names = [output_name(key) for key in node.keys]
    together = flow.keys is not None and [name for name, _ in flow.keys] == names
    if names and (together or (flow.n == 1 and n == 1)):
        sent = flow
    else:
        sent = group_by(draft, flow, node.keys, n, at=node.path)
    sent = replace(sent, flexible=False)
    moved = replace(node, input=sent.node)
    if isinstance(node, KeyedProcess):
        return replace(sent, node=moved, keys=None)
    if isinstance(node, StreamAggregate):
        return sent.renamed(moved, {name: name for name in names})
    return sent.over(moved)


def plan_lookup(draft: Draft, node: LookupJoin, flow: Flow, table: Flow) -> Flow:
    """The rows of `flow` with those of `table`, which every task has whole before they come."""
    refuse_broadcast(flow)
    refuse_broadcast(table)
    sent = exchange(
        draft, table, "broadcast", flow.n, path=f"{node.path}/table", mode="materialised",
        fixed=True,
    )  # fmt: skip
    joined = replace(node, input=flow.node, table=sent.node)
    return replace(flow, node=joined, flexible=False)


def plan_side(draft: Draft, step: Node, flow: Flow, *, tag: str, path: str) -> Flow:
    """The rows that `step`, which computes `flow`, puts aside under `tag`."""
    producer = draft.stage(step, flow.n, flexible=flow.flexible)
    leaf = draft.edge(producer, path=path, kind="forward", n_partitions=flow.n, side=tag)
    return Flow(leaf, flow.n)
