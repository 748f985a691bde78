"""What decoding gives: the rows, and the values that were none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Bad:
    """A value that could not be decoded: its place among those given, and why (no full stop)."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of the good values, in order, and the bad values.

    `origin` says which value each row came from, int64, shape (rows,), where a value may hold any
    number of rows; None: each good value is one row.
    """

    batch: pa.RecordBatch
    bad: tuple[Bad, ...] = ()
    origin: NDArray[np.int64] | None = None
