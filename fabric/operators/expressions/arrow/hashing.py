"""The hash of a row, by the kernel that places rows.

One job: hash.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.hash import hash_columns
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    as_array,
)
from fabric.operators.expressions.arrow.buffers import from_numpy


def row_hash(*values: Datum) -> pa.Array:
    """The hash as int64; at least one value is an array.

    >>> row_hash(pa.array([7, None]), pa.scalar("a")).to_pylist()
    [-9090557558413329754, 543842818060867228]
    """
    n_rows = next(len(value) for value in values if isinstance(value, pa.Array))
    hashes = hash_columns([as_array(value, n_rows) for value in values])
    return from_numpy(hashes.view(np.int64), pa.int64())


def _hash(_: Request) -> Bound:
    return Bound(row_hash, order="all")


IMPLEMENTATIONS: dict[str, Implementation] = {"hash": _hash}
