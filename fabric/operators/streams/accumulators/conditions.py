"""Conditions over all values: bool_and, bool_or.

One job: what is known of each group; null where no value is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.operators.streams.accumulators.base import (
    Accumulator,
    Columns,
    Numbers,
    nullable,
    present,
)
from fabric.operators.streams.accumulators.row_groups import Ids, RowGroups


class Condition(Accumulator):
    """Whether all values are true, or any is; nulls are left out."""

    def __init__(self, *, every: bool) -> None:
        self._decisive = not every
        self._seen, self._decided = Numbers(np.bool_, False), Numbers(np.bool_, False)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The answer so far."""
        return (pa.bool_(),)

    def resize(self, n_groups: int) -> None:
        """See `Accumulator`."""
        self._seen.resize(n_groups)
        self._decided.resize(n_groups)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        ids, values = present(rows, columns[0].cast(pa.bool_()))
        self._seen.values[ids] = True
        self._decided.values[ids[values.to_numpy(zero_copy_only=False) == self._decisive]] = True

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        answers = self._decided.values[ids] == self._decisive
        return nullable(answers, self._seen.values[ids], pa.bool_())

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [self.results(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        self.update(rows, states)

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        self._seen.clear(ids)
        self._decided.clear(ids)

    @property
    def nbytes(self) -> int:
        """See `Accumulator`."""
        return self._seen.nbytes + self._decided.nbytes
