"""Exchanges as the planner adds them.

One job: end a stage and go on in the next one. Whatever rows are hashed by is a column when they
travel: computed before, cast so that both sides of a join hash alike, and dropped after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from fabric.coordinator.planner.draft import Draft, Flow
from fabric.coordinator.planner.stages import EdgeKind
from fabric.errors import PlanError
from fabric.plan.expr import Alias, Cast, Column, Expr
from fabric.plan.nodes import Compression, ExchangeMode, Node, Select, WithColumns
from fabric.plan.schema import schema_of, type_of


def exchange(
    draft: Draft,
    flow: Flow,
    kind: EdgeKind,
    n_partitions: int,
    *,
    path: str,
    keys: Sequence[str] = (),
    mode: ExchangeMode = "auto",
    compression: Compression = "none",
    settings: str = "",
    fixed: bool = False,
) -> Flow:
    """End the stage of `flow` with an edge; the flow of the stage that reads it.

    A `fixed` one is as somebody wants it.
    """
    refuse_broadcast(flow)
    producer = draft.stage(flow.node, flow.n, flexible=flow.flexible)
    leaf = draft.edge(
        producer,
        path=path,
        kind=kind,
        n_partitions=n_partitions,
        keys=tuple(keys),
        mode=mode,
        compression=compression,
        settings=settings,
        fixed=fixed,
    )
    hashed = None
    if kind == "hash":
        hashed = tuple((key, leaf.schema.field(key).type) for key in keys)
    return Flow(leaf, n_partitions, keys=flow.keys if kind == "forward" else hashed)


def gather(draft: Draft, flow: Flow, at: str, name: str) -> Flow:
    """All rows in one task; the flow itself when they are.

    The exchange is called `name` and belongs to the node at the path `at`, which configures it.
    """
    refuse_broadcast(flow)
    if flow.n == 1:
        return flow
    return exchange(draft, flow, "gather", 1, path=f"{at}/{name}", settings=at)


def spread(draft: Draft, flow: Flow, n: int, at: str, name: str) -> Flow:
    """The rows in `n` tasks, whichever goes where; `at` and `name` as in `gather`."""
    refuse_broadcast(flow)
    if flow.n == n:
        return flow
    if flow.flexible:
        return replace(flow, n=n)
    kind: EdgeKind = "gather" if n == 1 else "round_robin"
    return exchange(draft, flow, kind, n, path=f"{at}/{name}", settings=at)


def hash_by(
    draft: Draft,
    flow: Flow,
    exprs: Sequence[Expr],
    types: Sequence[pa.DataType],
    n: int,
    *,
    at: str,
    name: str = "exchange",
) -> Flow:
    """Rows with equal `exprs`, as `types`, in one of `n` tasks. With one task it is a gather."""
    if n == 1:
        return gather(draft, flow, at, name)
    refuse_broadcast(flow)
    path, schema = f"{at}/{name}", schema_of(flow.node)
    names, added = _key_columns(exprs, types, schema)
    source: Node = flow.node
    if added:
        source = WithColumns(source, tuple(added), path=f"{path}/keys")
    keyed = replace(flow, node=source)
    sent = exchange(draft, keyed, "hash", n, path=path, keys=names, settings=at)
    if not added:
        return sent
    columns = tuple(Column(name) for name in schema.names)
    known = sent.keys if set(names) <= set(schema.names) else None
    return replace(sent, node=Select(sent.node, columns, path=f"{path}/columns"), keys=known)


def group_by(draft: Draft, flow: Flow, exprs: Sequence[Expr], n: int, *, at: str) -> Flow:
    """Rows with equal `exprs` in one of `n` tasks; without any, all rows in one task."""
    if not exprs:
        return gather(draft, flow, at, "exchange")
    schema = schema_of(flow.node)
    types = [type_of(expr, schema) for expr in exprs]
    return hash_by(draft, flow, exprs, types, n, at=at)


def refuse_broadcast(flow: Flow) -> None:
    """A broadcast exchange means nothing but to a join: it would double rows."""
    if flow.broadcast is not None:
        raise PlanError(
            "a broadcast exchange may only be a side of a join, elsewhere it would repeat every "
            "row; leave it out",
            node=flow.broadcast.path,
        )


def _key_columns(
    exprs: Sequence[Expr], types: Sequence[pa.DataType], schema: pa.Schema
) -> tuple[list[str], list[Expr]]:
    """Columns to hash by, and those of them that must be computed first."""
    names: list[str] = []
    added: list[Expr] = []
    for position, (expr, dtype) in enumerate(zip(exprs, types, strict=True)):
        bare = expr.input if isinstance(expr, Alias) else expr
        same = type_of(bare, schema) == dtype
        if isinstance(bare, Column) and same:
            names.append(bare.name)
            continue
        name = f"__key_{position}"
        while name in schema.names:
            name += "_"
        added.append(Alias(bare if same else Cast(bare, dtype), name))
        names.append(name)
    return names, added
