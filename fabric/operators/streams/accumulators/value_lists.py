"""Aggregates that need all their values: collect, median, quantile; approx_quantile keeps a sample.

One job: gathering the values of each group; what is made of them is the fragment's (`quantiles`).
`ValueLog` keeps values in runs sorted by group; runs of like size become one, so there are few and
a value is moved a logarithmic number of times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.operators.fragment.aggregates.quantiles import SAMPLE, weighted_ranks
from fabric.operators.fragment.aggregates.segments import offsets_of, order_keys, segments, unviewed
from fabric.operators.streams.accumulators.accumulator import (
    Accumulator,
    Columns,
    Ids,
    RowGroups,
    present,
)
from fabric.operators.streams.group_values import ByGroup, Numbers, spans

Compute = Callable[[pa.Array], pa.Array]


class OfValues(Accumulator):
    """What is made of values that are kept: these are the state."""

    def __init__(self, kept: pa.DataType, *others: ByGroup) -> None:
        self._log = ValueLog(kept)
        super().__init__(self._log, *others)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        """Lists of what is kept."""
        return (pa.list_(self._log.dtype),)

    def update(self, rows: RowGroups, columns: Columns) -> None:
        """See `Accumulator`; nulls are left out."""
        ids, values = present(rows, columns[0])
        self._add(ids, self._kept(values))

    def states(self, ids: Ids) -> list[pa.Array]:
        """See `Accumulator`."""
        return [self._log.lists(ids)]

    def merge(self, rows: RowGroups, states: Columns) -> None:
        """See `Accumulator`."""
        self._add(*unfolded(rows, states[0]))

    def _kept(self, values: pa.Array) -> pa.Array:
        """What is kept of values."""
        return unviewed(values)

    def _add(self, ids: Ids, kept: pa.Array) -> None:
        """Keep more."""
        self._log.add(ids, kept)


class Values(OfValues):
    """All values that are not null, as `dtype`; the result is `compute` of their lists.

    >>> everything = Values(pa.int64(), lambda lists: lists)
    >>> everything.update(RowGroups(np.array([0, 0])), [pa.array([1, None])])
    >>> everything.results(np.array([0])).to_pylist()
    [[1]]
    """

    def __init__(self, dtype: pa.DataType, compute: Compute) -> None:
        super().__init__(dtype)
        self._compute = compute

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        return self._compute(self._log.lists(ids))


class ApproximateQuantile(OfValues):
    """A value about at `fraction`: of each group at most twice `SAMPLE` values, with weights."""

    def __init__(self, dtype: pa.DataType, fraction: float) -> None:
        self._fraction, self._held = fraction, Numbers(np.int64, 0)
        super().__init__(pa.struct([("value", dtype), ("weight", pa.float64())]), self._held)

    def results(self, ids: Ids) -> pa.Array:
        """See `Accumulator`."""
        pairs, offsets = segments(self._log.lists(ids))
        weights = pairs.field("weight").to_numpy()
        return weighted_ranks(self._fraction, pairs.field("value"), weights, offsets)

    def _kept(self, values: pa.Array) -> pa.Array:
        return self._weighted(unviewed(values), np.ones(len(values)))

    def _weighted(self, values: pa.Array, weights: NDArray[np.float64]) -> pa.Array:
        return pa.StructArray.from_arrays([values, pa.array(weights)], fields=list(self._log.dtype))

    def _add(self, ids: Ids, kept: pa.Array) -> None:
        self._log.add(ids, kept)
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


class _Run(NamedTuple):
    ids: Ids  # not decreasing
    values: pa.Array


class ValueLog:
    """Lists of values of `dtype` by group.

    >>> log = ValueLog(pa.string())
    >>> log.add(np.array([1, 0, 1]), pa.array(["a", "b", "c"]))
    >>> log.lists(np.array([0, 1, 2])).to_pylist()
    [['b'], ['a', 'c'], []]
    """

    def __init__(self, dtype: pa.DataType) -> None:
        self.dtype = dtype
        self._runs: list[_Run] = []

    def resize(self, n_groups: int) -> None:
        """Nothing is kept for a group without values."""

    def add(self, ids: Ids, values: pa.Array) -> None:
        """Append a value to the list of each of these groups."""
        if not len(ids):
            return
        self._runs.append(_sorted(ids, values))
        while len(self._runs) > 1 and 2 * len(self._runs[-1].ids) >= len(self._runs[-2].ids):
            self._runs[-2:] = [_merged(self._runs[-2:])]

    def lists(self, ids: Ids) -> pa.Array:
        """The values of each of these groups, which are different, in the order they came."""
        owners, parts = [], []
        for run in self._runs:
            begins = np.searchsorted(run.ids, ids)
            lengths = np.searchsorted(run.ids, ids, side="right") - begins
            if lengths.any():
                owners.append(np.repeat(np.arange(len(ids)), lengths))
                parts.append(run.values.take(pa.array(spans(begins, lengths))))
        if not parts:
            offsets = pa.array(np.zeros(len(ids) + 1, np.int32))
            return pa.ListArray.from_arrays(offsets, pa.array([], self.dtype))
        owner, values = np.concatenate(owners), pa.concat_arrays(parts)
        if len(parts) > 1:
            values = values.take(pa.array(np.argsort(owner, kind="stable")))
        offsets = offsets_of(np.bincount(owner, minlength=len(ids)))
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)

    def clear(self, ids: Ids) -> None:
        """Forget the values of these groups."""
        runs = []
        for run in self._runs:
            kept = ~np.isin(run.ids, ids, kind="table" if len(ids) else None)
            if kept.all():
                runs.append(run)
            elif kept.any():
                runs.append(_Run(run.ids[kept], run.values.filter(pa.array(kept))))
        self._runs = runs

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return sum(run.ids.nbytes + int(run.values.nbytes) for run in self._runs)


def _sorted(ids: Ids, values: pa.Array) -> _Run:
    if (ids[1:] >= ids[:-1]).all():
        return _Run(ids, values)
    order: NDArray[np.int64] = np.argsort(ids, kind="stable")
    return _Run(ids[order], values.take(pa.array(order)))


def _merged(runs: list[_Run]) -> _Run:
    ids = np.concatenate([run.ids for run in runs])
    return _sorted(ids, pa.concat_arrays([run.values for run in runs]))
