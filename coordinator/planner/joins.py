"""Joins in stages.

    Join(L, R)      Join                     or   Join                or   Join
               =>     exchange by key             L                          gather
                        L                         broadcast                    L
                      exchange by key               R                        gather
                        R                                                      R

One job: which of the three, and the common type of the keys. A side may be broadcast when each row
of the other side, which stays where it is, decides alone what becomes of it:

    inner, cross       either side
    left, semi, anti   the right side
    right              the left side
    full               none: rows without a partner on either side must come out once

It is, when asked for, or when it is small and smaller than the other. Without keys
nothing can be hashed: the smaller side that may be broadcast is, whatever its size; else both sides
are gathered in one task.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pyarrow as pa

from fabric.coordinator.planner.draft import Draft, Flow, HashKeys, Request
from fabric.coordinator.planner.estimate import BROADCAST_BYTES_MAX, Size
from fabric.coordinator.planner.exchanges import exchange, gather, hash_by
from fabric.errors import PlanError
from fabric.plan.expr import Alias, Column, Expr
from fabric.plan.nodes import Join
from fabric.plan.nodes.join import key_types, merged_keys, output_columns
from fabric.plan.schema import schema_of

Side = Literal["left", "right"]
Sizes = tuple[Size, Size]

MAY_BE_SENT: dict[str, tuple[Side, ...]] = {
    "inner": ("right", "left"),
    "cross": ("right", "left"),
    "left": ("right",),
    "semi": ("right",),
    "anti": ("right",),
    "right": ("left",),
    "full": (),
}
"""The sides that may be broadcast, the usual one first."""


def plan_join(
    draft: Draft,
    node: Join,
    left: Flow,
    right: Flow,
    *,
    sizes: Sizes,
    n: int,
    broadcast_bytes: int = BROADCAST_BYTES_MAX,
) -> Flow:
    """The join of two flows; a hash join runs in `n` tasks."""
    sent = _sent_side(node, left, right, sizes, broadcast_bytes)
    asked = left.broadcast is not None or right.broadcast is not None
    together = left.n == 1 and right.n == 1 and (n == 1 or not node.left_keys or sent is not None)
    if not asked and (together or (n == 1 and 1 in (left.n, right.n))):
        return _gathered(draft, node, left, right)
    if sent is not None:
        return _broadcast(draft, node, left, right, sent)
    if not node.left_keys:
        return _gathered(draft, node, left, right)
    return _hashed(draft, node, left, right, n)


def _sent_side(
    node: Join, left: Flow, right: Flow, sizes: Sizes, broadcast_bytes: int
) -> Side | None:
    """The side to broadcast, or None; refuses what can't be."""
    allowed = MAY_BE_SENT[node.how]
    asked: list[Side] = []
    if left.broadcast is not None:
        asked.append("left")
    if right.broadcast is not None:
        asked.append("right")
    for side in asked:
        if side not in allowed or len(asked) == 2:
            raise _wrong_exchange(node, left if side == "left" else right, allowed)
    if asked:
        return asked[0]
    if node.strategy == "broadcast" and not allowed:
        raise PlanError(
            "a full join can't broadcast a side: its rows without a partner would come out of "
            "every task; leave strategy='broadcast' out",
            node=node.path,
        )
    if node.strategy == "hash" and not node.left_keys:
        raise PlanError(
            "a join without keys can't be hashed; leave strategy='hash' out", node=node.path
        )
    known = dict(zip(("left", "right"), sizes, strict=True))
    return _chosen(node, allowed, known, broadcast_bytes)


def _chosen(
    node: Join, allowed: tuple[Side, ...], sizes: dict[str, Size], broadcast_bytes: int
) -> Side | None:
    if not allowed or node.strategy == "hash":
        return None
    if node.strategy == "broadcast":
        return allowed[0]
    weights = {side: sizes[side].cautious_bytes for side in sizes}
    known = {side: n_bytes for side in allowed if (n_bytes := weights[side]) is not None}
    smallest = min(known or allowed, key=lambda side: known.get(side, 0))
    if not node.left_keys:
        return smallest
    other = weights["left" if smallest == "right" else "right"]
    if not known or other is None or not known[smallest] < other:
        return None
    return smallest if known[smallest] <= broadcast_bytes else None


def _wrong_exchange(node: Join, flow: Flow, allowed: tuple[Side, ...]) -> PlanError:
    assert flow.broadcast is not None
    places = " or ".join(f"the {side} side" for side in sorted(allowed)) or "no side"
    return PlanError(
        f"of a {node.how} join {places} may be broadcast, elsewhere it would repeat rows; leave "
        "this exchange out",
        node=flow.broadcast.path,
    )


def _gathered(draft: Draft, node: Join, left: Flow, right: Flow) -> Flow:
    """Both sides in one task."""
    left = gather(draft, left, node.path, "left")
    right = gather(draft, right, node.path, "right")
    return _joined(node, left, right, None)


def _broadcast(draft: Draft, node: Join, left: Flow, right: Flow, side: Side) -> Flow:
    """`side` to all tasks of the other one."""
    small, large = (left, right) if side == "left" else (right, left)
    request = small.broadcast or Request(f"{node.path}/{side}", "auto", "none")
    sent = exchange(
        draft,
        replace(small, broadcast=None),
        "broadcast" if large.n > 1 or small.broadcast is not None else "gather",
        large.n,
        path=request.path,
        mode=request.mode,
        compression=request.compression,
        settings=request.path if small.broadcast is not None else node.path,
    )
    if side == "right":
        return _joined(node, left, sent, left.keys)
    return _joined(node, sent, right, _of_right(node, right))


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
        left = hash_by(draft, left, node.left_keys, types, n, at=node.path, name="left")
    if not (fits_right and right.n == n):
        right = hash_by(draft, right, node.right_keys, types, n, at=node.path, name="right")
    return _joined(node, left, right, _kept_keys(node, left, right))


def _kept_keys(node: Join, left: Flow, right: Flow) -> HashKeys | None:
    """What a hash join's rows are still partitioned by.

    Rows without a partner have null for the keys of the other side, in every task; so only keys of
    a side whose rows all come out count, and in a full join only those that stand for both sides.
    """
    match node.how:
        case "right":
            return _of_right(node, right)
        case "full":
            merged = merged_keys(node)
            both = left.keys is not None and left.keys == right.keys
            return (
                left.keys if both and all(name in merged for name, _ in left.keys or ()) else None
            )
        case _:
            return left.keys


def _of_right(node: Join, right: Flow) -> HashKeys | None:
    """The right side's keys under their names in the output; None when one is not put out."""
    if right.keys is None:
        return None
    columns = output_columns(node, schema_of(node.left), schema_of(node.right))
    names = {column.source: column.name for column in columns if column.right}
    if node.how != "right":  # of rows with equal keys, so the left value will do
        names |= {name: name for name in merged_keys(node)}
    if any(name not in names for name, _ in right.keys):
        return None
    return tuple((names[name], dtype) for name, dtype in right.keys)


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
