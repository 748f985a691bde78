"""The side that is sent to everybody is the right one, so the small one goes there.

    Join              Select(columns as they were)
      Few       =>      Join
      Many                Many
                          Few

Valid for inner joins whose keys and condition can't fail: pairs of rows match whichever side they
are on. Only where the left side may be broadcast (it is known to be small, and smaller than the
right one); the planner decides by the same estimate.
"""

from __future__ import annotations

from collections.abc import Collection

from fabric.coordinator.optimizer.join_chain import built, chain_of, is_link
from fabric.coordinator.optimizer.passes import Note
from fabric.coordinator.planner.estimate import BROADCAST_BYTES_MAX, Size, estimates
from fabric.plan.nodes import Join, Node, Scan
from fabric.plan.statistics import Statistics
from fabric.plan.walk import rewrite, walk


def smaller_side_right(
    statistics: Statistics, pinned: Collection[str], root: Node, note: Note
) -> Node:
    """Swap every join that gains by it; `root` itself when none does."""
    if not any(isinstance(node, Join) for node in walk(root)):
        return root
    sizes = estimates(root, lambda scan: _n_rows(scan, statistics))
    swapped = {
        id(node)
        for node in walk(root)
        if isinstance(node, Join)
        and node.how == "inner"
        and node.path not in pinned
        and _gains(sizes[id(node.left)], sizes[id(node.right)])
        and is_link(node)
    }
    if not swapped:
        return root
    order = iter([id(node) in swapped for node in walk(root)])

    def swap(node: Node) -> Node:
        if not next(order):
            return node
        assert isinstance(node, Join)
        return note(node, built(chain_of(node, lambda _: False), (1, 0)))

    return rewrite(root, swap)


def _n_rows(scan: Scan, statistics: Statistics) -> int | None:
    facts = statistics.get(scan.path)
    return None if facts is None else facts.n_rows


def _gains(left: Size, right: Size) -> bool:
    if left.n_bytes is None or right.n_bytes is None:
        return False
    return left.n_bytes <= BROADCAST_BYTES_MAX and left.n_bytes < right.n_bytes
