"""When groups are complete: at a time that is one of their keys.

One job: `Closing`, the closing time of each group, and which groups a watermark completes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.event_time import END_OF_TIME
from fabric.operators.streams.columns import Ints, grown, us


class Closing:
    """Closing times by group; a null one is the end of the input.

    >>> closing = Closing()
    >>> closing.note(np.array([0, 1, 0]), pa.array([9, 5, 9], pa.timestamp("us")))
    >>> closing.due(5).tolist(), closing.due(6).tolist(), closing.due(9).tolist()
    ([1], [], [0])
    """

    def __init__(self) -> None:
        self._times: Ints = np.empty(0, np.int64)
        self._waits = np.empty(0, np.bool_)
        self._soonest = END_OF_TIME

    def note(self, groups: Ints, times: pa.Array) -> None:
        """These groups have rows, and close at these times."""
        if not len(groups):
            return
        values = us(times)
        length = int(groups.max()) + 1
        self._times, self._waits = grown(self._times, length), grown(self._waits, length)
        self._times[groups] = values
        self._waits[groups] = True
        self._soonest = min(self._soonest, int(values.min()))

    def due(self, time_us: int) -> Ints:
        """The groups that close at `time_us` or before, by time; they are forgotten."""
        if time_us < self._soonest:
            return np.empty(0, np.int64)
        waiting = np.flatnonzero(self._waits)
        times = self._times[waiting]
        is_due = times <= time_us
        self._waits[waiting[is_due]] = False
        self._soonest = int(times[~is_due].min(initial=END_OF_TIME))
        found = waiting[is_due]
        return found[np.argsort(self._times[found], kind="stable")]

    def of(self, groups: Ints) -> Ints:
        """When these groups close."""
        return self._times[groups]

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._times.nbytes + self._waits.nbytes

    def forget(self, groups: Ints) -> None:
        """Those are gone."""
        if len(groups):
            self._waits = grown(self._waits, int(groups.max()) + 1)
            self._waits[groups] = False
