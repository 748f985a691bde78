"""What changing results come to.

One job: `settled`, the rows that stand after all changes, for comparisons with an engine that
computes results once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from fabric.plan.stream import KIND

_SIGNS = (1, -1, 1, -1)
Settled = Counter[tuple[Any, ...]]


def settled(batches: Iterable[pa.RecordBatch]) -> Settled:
    """How often each row stands, without its kind; a batch without kinds only adds rows.

    Raises
    ------
    AssertionError
        If a row is taken back that is not there.

    Examples
    --------
    >>> batch = pa.record_batch({"a": [1, 1, 2], KIND: pa.array([0, 1, 2], pa.int8())})
    >>> settled([batch])
    Counter({(2,): 1})
    """
    found: Settled = Counter()
    for batch in batches:
        names = [name for name in batch.schema.names if name != KIND]
        has_kinds = KIND in batch.schema.names
        kinds = batch.column(KIND).to_pylist() if has_kinds else [0] * batch.num_rows
        columns = [batch.column(name).to_pylist() for name in names]
        for kind, *values in zip(kinds, *columns, strict=True):
            row = tuple(map(_equal, values))
            found[row] += _SIGNS[kind]
            assert found[row] >= 0, f"{row} was taken back, and is not there"
    return +found


def _equal(value: Any) -> Any:
    """One NaN, which as an object equals itself; one zero."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value
