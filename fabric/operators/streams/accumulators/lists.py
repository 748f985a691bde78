"""Aggregates that need all their values: collect, median, quantile; approx_quantile keeps a sample.

One job: gathering the values of each group; what is made of them is the fragment's (`quantiles`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.operators.fragment.aggregates.quantiles import SAMPLE, weighted_ranks
from fabric.operators.fragment.aggregates.segments import order_keys, segments, unviewed
from fabric.operators.streams.accumulators.base import Accumulator, Columns, Numbers, present
from fabric.operators.streams.accumulators.row_groups import Ids, RowGroups
from fabric.operators.streams.accumulators.value_log import ValueLog

Compute = Callable[[pa.Array], pa.Array]


class Values(Accumulator):
    """All values that are not null, as `dtype`; the result is `compute` of their lists.

    >>> everything = Values(pa.int64(), lambda lists: lists)
    >>> everything.update(RowGroups(np.array([0, 0])), [pa.array([1, None])])
    >>> everything.results(np.array([0])).to_pylist()
    [[1]]
    """

    def __init__(self, dtype: pa.DataType, compute: Compute) -> None:
        self._log, self._compute = ValueLog(dtype), compute

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The values."""
        return (pa.list_(self._log.dtype),)

    def resize(self, n_groups: int) -> None:
        """Nothing is kept for a group without values."""

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        ids, values = present(rows, columns[0])
        self._log.add(ids, unviewed(values))

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        return self._compute(self._log.lists(ids))

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [self._log.lists(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        self._log.add(*unfolded(rows, states[0]))

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        self._log.clear(ids)

    @property
    def nbytes(self) -> int:
        """See `Accumulator`."""
        return self._log.nbytes


class ApproximateQuantile(Accumulator):
    """A value about at `fraction`: of each group at most twice `SAMPLE` values, with weights."""

    def __init__(self, dtype: pa.DataType, fraction: float) -> None:
        self._dtype, self._fraction = dtype, fraction
        self._log = ValueLog(pa.struct([("value", dtype), ("weight", pa.float64())]))
        self._held = Numbers(np.int64, 0)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """The values with the number of rows that each stands for."""
        return (pa.list_(self._log.dtype),)

    def resize(self, n_groups: int) -> None:
        """See `Accumulator`."""
        self._held.resize(n_groups)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`."""
        ids, values = present(rows, columns[0])
        self._add(ids, self._weighted(unviewed(values), np.ones(len(ids))))

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        pairs, offsets = segments(self._log.lists(ids))
        weights = pairs.field("weight").to_numpy()
        return weighted_ranks(self._fraction, pairs.field("value"), weights, offsets)

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [self._log.lists(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        self._add(*unfolded(rows, states[0]))

    def clear(self, ids: Ids) -> None:
        """See `Accumulator`."""
        self._log.clear(ids)
        self._held.clear(ids)

    @property
    def nbytes(self) -> int:
        """See `Accumulator`."""
        return self._log.nbytes + self._held.nbytes

    def _weighted(self, values: pa.Array, weights: NDArray[np.float64]) -> pa.Array:
        return pa.StructArray.from_arrays([values, pa.array(weights)], fields=list(self._log.dtype))

    def _add(self, ids: Ids, pairs: pa.Array) -> None:
        self._log.add(ids, pairs)
        np.add.at(self._held.values, ids, 1)
        for group in np.unique(ids[self._held.values[ids] > 2 * SAMPLE]):
            self._thin(np.array([group]))

    def _thin(self, group: Ids) -> None:
        """Keep `SAMPLE` values of a group, evenly spaced in rank."""
        pairs, _ = segments(self._log.lists(group))
        values, weights = pairs.field("value"), pairs.field("weight").to_numpy()
        order = np.argsort(order_keys(values)[0])
        upto = np.cumsum(weights[order])
        chosen = np.searchsorted(upto, (np.arange(SAMPLE) + 0.5) * (upto[-1] / SAMPLE))
        thinned = values.take(pa.array(order[chosen]))
        self.clear(group)
        each = self._weighted(thinned, np.full(SAMPLE, upto[-1] / SAMPLE))
        self._log.add(np.repeat(group, SAMPLE), each)
        self._held.values[group] = SAMPLE


def unfolded(rows: RowGroups, lists: pa.Array) -> tuple[Ids, pa.Array]:
    """The values of all lists, and the group of each."""
    values, offsets = segments(lists)
    return np.repeat(rows.ids, np.diff(offsets)), values
