"""How many rows and bytes a node may put out, roughly and never too few on purpose.

One job: an upper guess from the splits' statistics, for the choice between broadcasting and hashing
a join. Unknown stays unknown (None): then nothing is broadcast unless asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from fabric.plan.nodes import Aggregate, Join, Limit, Node, Scan, Sink, StageInput, Union
from fabric.plan.schema import schema_of
from fabric.plan.sources import Split
from fabric.plan.walk import walk

_VARIABLE_BYTES = 24
"""Guess for a string or binary value with its offset."""


class Size(NamedTuple):
    """Rows and bytes; None when unknown."""

    rows: int | None
    n_bytes: int | None


UNKNOWN = Size(None, None)


def row_bytes(schema: pa.Schema) -> int:
    """A guess of one row's bytes.

    >>> row_bytes(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    32
    """
    return max(1, sum(_value_bytes(field.type) for field in schema))


def estimates(root: Node, splits: Mapping[str, Sequence[Split]]) -> dict[int, Size]:
    """Size by ``id(node)`` for every node of the plan; `splits` by the path of their scan."""
    found: dict[int, Size] = {}
    for node in walk(root):
        below = [found[id(child)] for child in node.children]
        found[id(node)] = _size(node, below, splits)
    return found


def _size(node: Node, below: list[Size], splits: Mapping[str, Sequence[Split]]) -> Size:
    width = row_bytes(schema_of(node))
    match node:
        case Scan(path=path, schema=schema):
            return _scan_size(splits.get(path, ()), width, row_bytes(schema))
        case StageInput():
            return UNKNOWN
        case Sink():
            return Size(1, width)
        case Aggregate(keys=()):
            return Size(1, width)
        case Limit(n=n):
            rows = n if below[0].rows is None else min(n, below[0].rows)
            return Size(rows, rows * width)
        case Join(how="semi" | "anti"):
            return below[0]
        case Join() | Union():
            rows_known = [size.rows for size in below if size.rows is not None]
            if len(rows_known) < len(below):
                return UNKNOWN
            rows = max(rows_known) if isinstance(node, Join) else sum(rows_known)
            return Size(rows, rows * width)
        case _:
            (source,) = below
            return UNKNOWN if source.rows is None else Size(source.rows, source.rows * width)


def _scan_size(splits: Sequence[Split], width: int, full_width: int) -> Size:
    rows = [split.n_rows for split in splits]
    if splits and all(rows):
        return Size(sum(rows), sum(rows) * width)
    sizes = [split.n_bytes for split in splits]
    if not splits or not all(sizes):
        return Size(0, 0) if not splits else UNKNOWN
    in_rows = sum(sizes) // full_width + 1
    return Size(in_rows, in_rows * width)


def _value_bytes(dtype: pa.DataType) -> int:
    try:
        return max(1, int(dtype.bit_width) // 8)
    except ValueError:
        return _VARIABLE_BYTES
