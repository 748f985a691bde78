"""Keyed steps of a stream in stages.

    Step(k)             Step(k)
      X            =>     exchange by k
                            X

One job: rows with equal keys in one task, by an exchange or where they are already, those of both
sides of a join, too; what a stream looks things up in, or is broadcast, whole in every task. Steps
are over columns (`columns.py`). A step by more keys than the one below it gets its own exchange, as
state is restored by the hash of them all.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.planner.draft import Draft, Flow
from fabric.coordinator.planner.exchanges import (
    exchange,
    gather,
    group_by,
    hash_by,
    refuse_broadcast,
)
from fabric.plan.expr import Column, Expr, output_name
from fabric.plan.nodes import (
    Keyed,
    KeyedProcess,
    LookupJoin,
    Match,
    Node,
    Select,
    StreamAggregate,
    TwoStreams,
)
from fabric.plan.schema import schema_of, type_of


def plan_keyed(draft: Draft, node: Keyed, flow: Flow, n: int, rules: Flow | None = None) -> Flow:
    """The step over `flow`, in `n` tasks where it needs an exchange; without keys in one.

    Each of its tasks gets all of `rules`.
    """
    refuse_broadcast(flow)
    names = [output_name(key) for key in node.keys]
    together = flow.keys is not None and [name for name, _ in flow.keys] == names
    if names and (together or (flow.n == 1 and n == 1)):
        sent = flow
    else:
        sent = group_by(draft, flow, node.keys, n, at=node.path)
    sent = replace(sent, flexible=False)
    moved = replace(node, input=sent.node)
    if isinstance(moved, KeyedProcess):
        if rules is not None:
            moved = replace(moved, broadcast=_to_all(draft, moved, rules, sent.n).node)
        return replace(sent, node=moved, keys=None)
    if isinstance(node, StreamAggregate | Match):
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


def _to_all(draft: Draft, node: KeyedProcess, rules: Flow, n: int) -> Flow:
    """All rows in each of `n` tasks, in one order: they come through one task.

    Rows in flight to that task come in by a step that is there in any number of tasks, as in
    `_side_of_join`. The exchange behind it has none: its barriers are always waited for.
    """
    path = f"{node.path}/broadcast"
    one = gather(draft, rules, path, "gather")
    if node.broadcast_is == "table":
        return exchange(draft, one, "broadcast", n, path=path, mode="materialised", fixed=True)
    whole = Select(one.node, tuple(map(Column, schema_of(one.node).names)), path=path)
    one = replace(one, node=whole, flexible=False)
    if n == 1:
        return one
    return exchange(draft, one, "broadcast", n, path=f"{path}/exchange", fixed=True)


def plan_stream_join(draft: Draft, node: TwoStreams, left: Flow, right: Flow, n: int) -> Flow:
    """The join of both flows, each in `n` tasks by its keys."""
    sent = (
        _side_of_join(draft, left, node.left_keys, n, at=(node.path, "left")),
        _side_of_join(draft, right, node.right_keys, n, at=(node.path, "right")),
    )
    moved = node.with_children((sent[0].node, sent[1].node))
    by_left = node.as_join.how not in ("right", "full")  # else keys of the left side may be null
    return replace(sent[0], node=moved, keys=sent[0].keys if by_left else None)


def _side_of_join(
    draft: Draft, flow: Flow, keys: tuple[Expr, ...], n: int, *, at: tuple[str, str]
) -> Flow:
    """The rows of a side by its keys, through a step that has this side alone.

    Where an exchange is gone, because there is one task now, rows that were in flight over it come
    in by that step: the join could not tell sides with the same columns apart. It is there in any
    number of tasks, so that a plan has the same steps in all.
    """
    refuse_broadcast(flow)
    schema = schema_of(flow.node)
    types = [type_of(key, schema) for key in keys]
    asked = tuple(zip(map(output_name, keys), types, strict=True))
    if flow.n != n or (n > 1 and flow.keys != asked):
        flow = hash_by(draft, flow, keys, types, n, at=at[0], name=f"{at[1]}/exchange")
    whole = Select(flow.node, tuple(map(Column, schema.names)), path="/".join(at))
    return replace(flow, node=whole, flexible=False)


def plan_side(draft: Draft, step: Node, flow: Flow, *, tag: str, path: str) -> Flow:
    """The rows that `step`, which computes `flow`, puts aside under `tag`."""
    producer = draft.stage(step, flow.n, flexible=flow.flexible)
    leaf = draft.edge(producer, path=path, kind="forward", n_partitions=flow.n, side=tag)
    return Flow(leaf, flow.n)
