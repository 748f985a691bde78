"""How many rows and bytes a node may put out, roughly and never too few on purpose.

One job: an upper guess from the splits' statistics, for the choice between broadcasting and hashing
a join. Unknown stays unknown (None): then nothing is broadcast unless asked for. What filters and
joins will likely leave over (the optimizer's guess) counts with a wide margin, and only where being
wrong would not be a disaster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from fabric.plan.nodes import (
    Aggregate,
    Explode,
    Join,
    Limit,
    Node,
    Scan,
    Sink,
    Sort,
    StageInput,
    StreamScan,
    Union,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import Split
from fabric.plan.walk import walk

BROADCAST_BYTES_MAX = 64 << 20
"""Up to so many bytes the right side of a join may be sent to all tasks."""

_MARGIN = 8
"""A guess of what filters leave over may be too small by so much, and nothing is lost."""
_WRONG_BYTES_MAX = 512 << 20
"""What may be more than this, should all guesses be wrong, is not taken for small."""
_VARIABLE_BYTES = 24
"""Guess for a string or binary value with its offset."""


class Size(NamedTuple):
    """Rows and bytes at most, and those that are likely; None when unknown."""

    rows: int | None
    n_bytes: int | None
    likely_bytes: int | None = None

    @property
    def cautious_bytes(self) -> int | None:
        """What to weigh a side of a join by: its guess with a margin, else the most it can be."""
        if self.n_bytes is None or self.likely_bytes is None or self.n_bytes > _WRONG_BYTES_MAX:
            return self.n_bytes
        return min(self.n_bytes, _MARGIN * self.likely_bytes)


def row_bytes(schema: pa.Schema) -> int:
    """A guess of one row's bytes.

    >>> row_bytes(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    32
    """
    return max(1, sum(_value_bytes(field.type) for field in schema))


def estimates(
    root: Node,
    rows_of: Callable[[Scan], int | None],
    likely_rows: Callable[[Node], float | None] = lambda _: None,
) -> dict[int, Size]:
    """Size by ``id(node)`` for the inputs of joins and sorts.

    `rows_of` knows the sources, `likely_rows` guesses what comes out of a node.
    """
    rows: dict[int, int | None] = {}
    found: dict[int, Size] = {}
    for node in walk(root):
        rows[id(node)] = _rows(node, [rows[id(child)] for child in node.children], rows_of)
        if isinstance(node, Join | Sort):
            for side in node.children:
                n_rows = rows[id(side)]
                width, likely = row_bytes(schema_of(side)), likely_rows(side)
                found[id(side)] = Size(
                    n_rows,
                    None if n_rows is None else n_rows * width,
                    None if likely is None else int(likely * width),
                )
    return found


def _rows(
    node: Node, below: Sequence[int | None], rows_of: Callable[[Scan], int | None]
) -> int | None:
    """How many rows `node` puts out at most, or so; None when nothing is known."""
    match node:
        case Scan(limit=limit):
            found = rows_of(node)
            return found if limit is None or found is None else min(found, limit)
        case StageInput() | StreamScan():
            return None
        case Sink() | Aggregate(keys=()):
            return 1
        case Limit(n=n):
            return n if below[0] is None else min(n, below[0])
        case Join(how="semi" | "anti"):
            return below[0]
        case Join() | Union():
            known = [n for n in below if n is not None]
            if len(known) < len(below):
                return None
            return _joined_rows(node, known) if isinstance(node, Join) else sum(known)
        case Explode():
            return None
        case _:
            return below[0]


def _joined_rows(node: Join, below: Sequence[int]) -> int:
    """With keys, one side is thought to have each of them once."""
    left, right = below
    if not node.left_keys:
        return left * right
    return left + right if node.how == "full" else max(left, right)


def scan_rows(splits: Sequence[Split], schema: pa.Schema) -> int | None:
    """Rows of a source by what its splits say; by their bytes where they don't count rows."""
    rows = [split.n_rows for split in splits]
    if not splits or all(rows):
        return sum(rows)
    sizes = [split.n_bytes for split in splits]
    return sum(sizes) // row_bytes(schema) + 1 if all(sizes) else None


def _value_bytes(dtype: pa.DataType) -> int:
    try:
        return max(1, int(dtype.bit_width) // 8)
    except ValueError:
        return _VARIABLE_BYTES
