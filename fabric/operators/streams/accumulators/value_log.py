"""Many values a group, of any type, that are read back as lists.

One job: `ValueLog`. Values lie in runs sorted by group; runs of like size become one, so there are
few and a value is moved a logarithmic number of times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.operators.fragment.aggregates.segments import offsets_of
from fabric.operators.streams.accumulators.row_groups import Ids


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
            if n := int(lengths.sum()):
                within = np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths)
                owners.append(np.repeat(np.arange(len(ids)), lengths))
                parts.append(run.values.take(pa.array(np.repeat(begins, lengths) + within)))
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
