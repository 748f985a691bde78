"""Limits go down, so that rows that no limit lets through are neither computed nor read.

A limit merges with one below it, passes steps that keep number and order of rows, and tells scans
how many rows are enough.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fabric.coordinator.optimizer.passes import Note, over
from fabric.plan.nodes import (
    Exchange,
    Explode,
    Join,
    Limit,
    Node,
    Scan,
    Select,
    Union,
    WithColumns,
)
from fabric.plan.walk import rewrite, walk

_ROWS_MAX = 1 << 40


@over(Limit, Limit)
def merge_limits(node: Limit, below: Limit) -> Node:
    """One limit instead of two.

        Limit(n, offset)        Limit(min(n, m - offset), offset + skipped)
          Limit(m, skipped) =>    X
            X

    Valid because a limit keeps the order of its input.

    Merge one pair; `node` itself when it does not match.
    """
    left = max(0, below.n - node.offset)
    return replace(node, input=below.input, n=min(node.n, left), offset=node.offset + below.offset)


def limit_below_select(node: Node) -> Node:
    """Compute columns only for the rows that are kept.

        Limit(n)          Select(f)
          Select(f)   =>    Limit(n)
            X                 X

    Valid because a select keeps number and order of rows; the same for added columns. A limit then
    meets the sort below it, which the planner makes a top-n of.

    Swap one pair; `node` itself when it does not match.
    """
    match node:
        case Limit(input=Select(input=source) | WithColumns(input=source) as computed):
            return replace(computed, input=replace(node, input=source))
        case _:
            return node


def limit_into_scan(root: Node, note: Note) -> Node:
    """Read no more rows than a limit above lets through.

        Limit(n, m)          Limit(n, m)
          Select(f)    =>      Select(f)
            Scan                 Scan(limit n + m)

    Valid through what makes at least one row of each: columns, exchanges, unions, an outer explode,
    the left side of a left join. Each task then stops after so many rows; the limit itself stays,
    because there may be many tasks. Which rows they are is open unless there is a sort, and then
    none is below. A scan that somebody else reads too is left alone.

    Limit every scan that may be; `root` itself when there is none.
    """
    nodes = list(walk(root))
    parents = Counter(id(child) for node in nodes for child in node.children)
    limits: dict[int, int] = {}
    for node in nodes:
        if isinstance(node, Limit) and node.n + node.offset < _ROWS_MAX:
            for scan in _scans(node.input, parents):
                limits[id(scan)] = node.n + node.offset
    if not limits:
        return root

    def limited(node: Node) -> Node:
        wanted = limits.get(id(node))
        if not isinstance(node, Scan) or wanted is None:
            return node
        if node.limit is not None and node.limit <= wanted:
            return node
        return note(node, replace(node, limit=wanted))

    return rewrite(root, limited)


def _scans(node: Node, parents: Counter[int]) -> list[Scan]:
    """The scans whose every row becomes a row of `node` at least."""
    found: list[Scan] = []
    stack = [node]
    while stack:
        part = stack.pop()
        if parents[id(part)] > 1:
            continue
        match part:
            case Scan():
                found.append(part)
            case Select() | WithColumns() | Exchange() | Union() | Explode(outer=True):
                stack.extend(part.children)
            case Join(how="left"):
                stack.append(part.left)
    return found
