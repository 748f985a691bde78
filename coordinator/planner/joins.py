"""Joins in stages.

    Join(L, R)      Join                     or   Join
               =>     exchange by key             L
                        L                         broadcast
                      exchange by key               R
                        R

One job: which of the two, and the common type of the keys. The right side is broadcast when asked
for, or when it is known to be small and smaller than the left; that is right for every kind of join
here, since each left row then meets all right rows.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from fabric.coordinator.planner.draft import Draft
from fabric.coordinator.planner.estimate import BROADCAST_BYTES_MAX, Size
from fabric.coordinator.planner.exchanges import exchange, gather, hash_by, refuse_broadcast
from fabric.coordinator.planner.flows import Flow, HashKeys
from fabric.plan.expr import Alias, Column, Expr
from fabric.plan.join import key_types
from fabric.plan.nodes import Join
from fabric.plan.schema import schema_of


def plan_join(
    draft: Draft, node: Join, left: Flow, right: Flow, *, sizes: tuple[Size, Size], n: int
) -> Flow:
    """The join of two flows; a hash join runs in `n` tasks."""
    refuse_broadcast(left)
    if left.n == 1 and (right.n == 1 or n == 1) and right.broadcast is None:
        right = gather(draft, right, path=f"{node.path}/right", settings=node.path)
        if n == 1:
            return _joined(node, left, right, left.keys)
    if right.broadcast is not None or _broadcasts(node, sizes):
        return _broadcast(draft, node, left, right)
    return _hashed(draft, node, left, right, n)


def _broadcasts(node: Join, sizes: tuple[Size, Size]) -> bool:
    if node.strategy != "auto":
        return node.strategy == "broadcast"
    left, right = (size.n_bytes for size in sizes)
    if right is None or right > BROADCAST_BYTES_MAX:
        return False
    return left is not None and right < left


def _broadcast(draft: Draft, node: Join, left: Flow, right: Flow) -> Flow:
    request = right.broadcast
    right = replace(right, broadcast=None)
    if request is None and right.n == 1 and left.n == 1:
        return _joined(node, left, right, left.keys)
    sent = exchange(
        draft,
        right,
        "broadcast" if left.n > 1 or request is not None else "gather",
        left.n,
        path=request.path if request is not None else f"{node.path}/right",
        mode=request.mode if request is not None else "auto",
        settings=request.path if request is not None else node.path,
    )
    return _joined(node, left, sent, left.keys)


def _hashed(draft: Draft, node: Join, left: Flow, right: Flow, n: int) -> Flow:
    types = key_types(node, schema_of(left.node), schema_of(right.node))
    wanted_left = _as_keys(node.left_keys, types)
    wanted_right = _as_keys(node.right_keys, types)
    fits_left = wanted_left is not None and left.keys == wanted_left
    fits_right = wanted_right is not None and right.keys == wanted_right
    if fits_left:
        n = left.n
    elif fits_right:
        n = right.n
    if not (fits_left and left.n == n):
        path = f"{node.path}/left"
        left = hash_by(draft, left, node.left_keys, types, n, path=path, settings=node.path)
    if not (fits_right and right.n == n):
        path = f"{node.path}/right"
        right = hash_by(draft, right, node.right_keys, types, n, path=path, settings=node.path)
    return _joined(node, left, right, left.keys)


def _joined(node: Join, left: Flow, right: Flow, keys: HashKeys | None) -> Flow:
    return Flow(replace(node, left=left.node, right=right.node), left.n, keys=keys)


def _as_keys(exprs: tuple[Expr, ...], types: list[pa.DataType]) -> HashKeys | None:
    """The hash partitioning that `exprs` ask for, when all of them are columns."""
    found = []
    for expr, dtype in zip(exprs, types, strict=True):
        bare = expr.input if isinstance(expr, Alias) else expr
        if not isinstance(bare, Column):
            return None
        found.append((bare.name, dtype))
    return tuple(found)
