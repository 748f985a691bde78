"""The result of decoding: the rows, and the values that could not be decoded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Bad:
    """A value that could not be decoded: its index among the values, and why (no full stop)."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of the good values, in order, and the bad values.

    `origin` has the index of each row's value, int64, shape (rows,), for formats whose values have
    any number of rows; None: each good value is one row.
    """

    batch: pa.RecordBatch
    bad: tuple[Bad, ...] = ()
    origin: NDArray[np.int64] | None = None
