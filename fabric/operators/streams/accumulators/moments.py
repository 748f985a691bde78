"""Variance and its kin, covariance and correlation.

One job: running moments. Those of one column are a kernel's. Of two columns a batch's moments are
computed by the fragment's kernels and merged with those before by the fragment's formulas (Chan's),
so that the answers are the fragment's.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric._cython.kernels import accumulators as kernels
from fabric.operators.fragment.aggregates.moments import (
    ONE,
    RESULTS,
    TWO,
    merge_two,
    moments_of_pairs,
)
from fabric.operators.streams.accumulators.accumulator import (
    Accumulator,
    Columns,
    Ids,
    RowGroups,
    nullable,
)
from fabric.operators.streams.accumulators.kernels import OfKernel
from fabric.operators.streams.group_values import Numbers

F64, I64 = pa.float64(), pa.int64()


class PairMoments(Accumulator):
    """Counts, means and sums of products of deviations; `function` says what is made of them.

    >>> together = PairMoments("covar_samp")
    >>> together.resize(1)
    >>> together.update(RowGroups(np.array([0, 0])), [pa.array([1.0, 3.0]), pa.array([5, 9])])
    >>> together.results(np.array([0])).to_pylist()
    [4.0]
    """

    def __init__(self, function: str) -> None:
        _, self._used, self._finish = RESULTS[function]
        self._count = Numbers(np.int64, 0)
        self._sums = {kind: Numbers(np.float64, 0.0) for kind in TWO}
        super().__init__(self._count, *self._sums.values())

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The count, then the moments."""
        return (I64, *[F64] * len(TWO))

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        if not len(rows):
            return
        order = pa.array(rows.order)
        lists = [_lists(column.cast(F64, safe=False).take(order), rows) for column in columns]
        self._merge_touched(rows.touched, moments_of_pairs(*lists).flatten())

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        with np.errstate(all="ignore"):
            numbers = [self._sums[kind].values[ids] for kind in self._used]
            answer, undefined = self._finish(self._count.values[ids].astype(np.float64), *numbers)
        return nullable(answer, ~undefined, F64)

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        columns = (self._count, *self._sums.values())
        return [pa.array(numbers.values[ids]) for numbers in columns]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        if len(rows):
            order = pa.array(rows.order)
            merged = merge_two(*(_lists(column.take(order), rows) for column in states))
            self._merge_touched(rows.touched, merged.flatten())

    def _merge_touched(self, touched: Ids, states: list[pa.Array]) -> None:
        """Merge one state each into groups that are all different."""
        pairs = pa.array(np.arange(0, 2 * len(touched) + 1, 2, dtype=np.int32))
        both = []
        for before, state in zip(self.states(touched), states, strict=True):
            values = np.empty(2 * len(touched), before.to_numpy().dtype)
            values[::2], values[1::2] = before.to_numpy(), state.to_numpy()
            both.append(pa.ListArray.from_arrays(pairs, pa.array(values)))
        count, *sums = merge_two(*both).flatten()
        self._count.values[touched] = count.to_numpy()
        for kind, column in zip(TWO, sums, strict=True):
            self._sums[kind].values[touched] = column.to_numpy()


def _lists(values: pa.Array, rows: RowGroups) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(rows.offsets.astype(np.int32)), values)


class Moments(OfKernel):
    """Of one column: variance, standard deviation, skewness, kurtosis, as the fragment ends them.

    >>> variance = Moments("var")
    >>> variance.update(RowGroups(np.array([0, 0])), [pa.array([1.0, 3.0])])
    >>> variance.results(np.array([0])).to_pylist()
    [2.0]
    """

    def __init__(self, function: str) -> None:
        super().__init__(kernels.Moments())
        _, kinds, self._finish = RESULTS[function]
        self._used = [1 + ONE.index(kind) for kind in kinds]

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        super().update(rows, [columns[0].cast(F64, safe=False)])

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        columns = [column.to_numpy() for column in self.states(ids)]
        with np.errstate(all="ignore"):
            answer, undefined = self._finish(columns[0], *(columns[i] for i in self._used))
        return nullable(answer, ~undefined, F64)
