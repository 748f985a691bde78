"""How long groups live: until they close, or until they had no row for some time.

One job: `Closing`, when each group is complete: at a time that is one of its keys; `TimeToLive`,
when it last had a row by processing time; and late rows, which come when their group is complete.
What is forgotten is decided by the time of the next row alone; `swept` only gives memory back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.windows import closed, closed_at
from fabric.operators.contract import Batches
from fabric.operators.snapshots import Facts, GroupTimes, greatest
from fabric.operators.streams.columns import Bools, Ints, row_watermarks, rows_of, shown, us
from fabric.operators.streams.group_values import Numbers
from fabric.plan.stream import LATE
from fabric.state.backend import SnapshotReader


class Closing:
    """Closing times by group; a null one is the end of the input.

    >>> closing = Closing()
    >>> closing.note(np.array([0, 1, 0]), pa.array([9, 5, 9], pa.timestamp("us")))
    >>> closing.due(5).tolist(), closing.due(6).tolist(), closing.due(9).tolist()
    ([1], [], [0])
    """

    def __init__(self) -> None:
        self._times, self._waits = Numbers(np.int64, 0), Numbers(np.bool_, False)
        self._soonest = END_OF_TIME

    def note(self, groups: Ints, times: pa.Array) -> None:
        """These groups have rows, and close at these times."""
        if not len(groups):
            return
        values = us(times)
        self._times.put(groups, values)
        self._waits.put(groups, True)
        self._soonest = min(self._soonest, int(values.min()))

    def due(self, time_us: int) -> Ints:
        """The groups that close at `time_us` or before, by time; they are forgotten."""
        if time_us < self._soonest:
            return np.empty(0, np.int64)
        waiting = np.flatnonzero(self._waits.values)
        times = self._times.values[waiting]
        is_due = times <= time_us
        self._waits.clear(waiting[is_due])
        self._soonest = int(times[~is_due].min(initial=END_OF_TIME))
        found = waiting[is_due]
        return found[np.argsort(self._times.values[found], kind="stable")]

    def of(self, groups: Ints) -> Ints:
        """When these groups close."""
        found: Ints = self._times.values[groups]
        return found

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._times.nbytes + self._waits.nbytes

    def forget(self, groups: Ints) -> None:
        """Those are gone."""
        self._waits.put(groups, False)


_WATERMARK, _NOW = "watermark", "now"
_SWEEPS = 8
"""How often within `ttl_us` groups are looked through."""


class TimeToLive:
    """The last processing time of each group.

    >>> ttl = TimeToLive(80)
    >>> ttl.woken(np.array([0, 1])).tolist(), ttl.woken(np.array([0])).tolist()
    ([], [])
    >>> ttl.swept(100).tolist(), ttl.woken(np.array([0, 1])).tolist()
    ([], [])
    >>> ttl.swept(175).tolist(), ttl.woken(np.array([1])).tolist()
    ([], [])
    >>> ttl.swept(181).tolist(), ttl.woken(np.array([0, 0, 1])).tolist()
    ([], [0])
    >>> ttl.swept(300).tolist()
    [0, 1]
    """

    def __init__(self, ttl_us: int) -> None:
        self._ttl_us = ttl_us
        self.now = BEGINNING
        """The last processing time that was told, as far as anybody knows."""
        self._next_sweep = BEGINNING
        self._last, self._known = Numbers(np.int64, 0), Numbers(np.bool_, False)

    def woken(self, groups: Ints) -> Ints:
        """Note rows of `groups` now; returns those that had been forgotten before, each once."""
        if not len(groups):
            return groups
        self._last.reach(groups)
        self._known.reach(groups)
        rested = groups[self._known.values[groups] & self._is_over(groups)]
        self.load(groups, self.now)
        return np.unique(rested)

    def swept(self, now_us: int) -> Ints:
        """It is `now_us`; the groups whose time is over, now and then."""
        if self.now == BEGINNING:  # rows before the first time came about now
            last = self._last.values
            last[self._known.values & (last == BEGINNING)] = now_us
        self.now = max(self.now, now_us)
        if self.now < self._next_sweep:
            return np.empty(0, np.int64)
        self._next_sweep = self.now + max(1, self._ttl_us // _SWEEPS)
        known = np.flatnonzero(self._known.values)
        over = known[self._is_over(known)]
        self._known.clear(over)
        return over

    def forget(self, groups: Ints) -> None:
        """Those are gone for another reason."""
        self._known.put(groups, False)

    def last(self, groups: Ints) -> Ints:
        """When each of `groups` last had a row."""
        found: Ints = self._last.values[groups]
        return found

    def fresh(self) -> TimeToLive:
        """The same without any group."""
        made = TimeToLive(self._ttl_us)
        made.now, made._next_sweep = self.now, self._next_sweep
        return made

    def over_at(self, last: Ints) -> Ints:
        """When groups that last had rows at `last` are forgotten."""
        return np.minimum(last, END_OF_TIME - self._ttl_us) + self._ttl_us

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._last.nbytes + self._known.nbytes

    def load(self, groups: Ints, last: Ints | int) -> None:
        """Groups last had rows at `last`."""
        self._last.put(groups, last)
        self._known.put(groups, True)

    def _is_over(self, groups: Ints) -> Bools:
        if self.now == BEGINNING:  # nobody has told the time yet
            return np.zeros(len(groups), np.bool_)
        found: Bools = self.last(groups) <= max(self.now, BEGINNING + self._ttl_us) - self._ttl_us
        return found


def times_of(watermark: GroupTimes, ttl: TimeToLive | None) -> Facts:
    """The times of an operator, as facts of its snapshot."""
    return {_WATERMARK: watermark.fact(), _NOW: BEGINNING if ttl is None else ttl.now}


def restored_times(
    snapshots: Sequence[SnapshotReader], key_groups: range, ttl: TimeToLive | None
) -> GroupTimes:
    """Tell `ttl` the time of old tasks, and return their watermarks."""
    if ttl is not None:
        ttl.now = greatest(snapshots, _NOW, BEGINNING)
    return GroupTimes.restored(snapshots, _WATERMARK, key_groups, BEGINNING)


class LateRows:
    """Rows that came too late: counted, and kept for a side output if `aside`."""

    def __init__(self, *, aside: bool) -> None:
        self.aside, self._rows = aside, list[pa.RecordBatch]()
        self.n_rows = 0
        """How many were late since the start of this attempt."""

    def put(self, batch: pa.RecordBatch, late: Bools) -> None:
        """The rows of a mask."""
        self.n_rows += int(np.count_nonzero(late))
        if self.aside:
            self._rows.append(rows_of(batch, late).select(shown(batch.schema).names))

    def take(self) -> dict[str, Batches]:
        """Those since the last call, under their tag."""
        rows, self._rows = self._rows, []
        return {LATE: rows} if rows else {}


class Late(LateRows):
    """Takes late rows out of batches, where groups close by the time in column `closes`.

    A row is late iff that time and the allowed lateness are not after the watermark that the row
    carries, or the operator's own.
    """

    def __init__(self, closes: str, lateness_us: int, *, aside: bool) -> None:
        super().__init__(aside=aside)
        self._closes, self.lateness_us = closes, lateness_us

    def split(self, batch: pa.RecordBatch, watermark: Ints | np.int64) -> pa.RecordBatch:
        """The rows that are on time; the operator's watermark may be one for each row.

        >>> late = Late("end", 0, aside=True)
        >>> batch = pa.record_batch({"end": pa.array([5, 6], pa.timestamp("us"))})
        >>> late.split(batch, np.int64(5)).num_rows, late.take()["late"][0].num_rows, late.n_rows
        (1, 1, 1)
        """
        own = row_watermarks(batch)
        known = watermark if own is None else np.maximum(watermark, own)
        mask = us(batch.column(self._closes)) <= closed(known, self.lateness_us)
        if not mask.any():
            return batch
        self.put(batch, mask)
        return rows_of(batch, ~mask)

    def passed(self, watermark: int) -> int:
        """Groups that close at this time or before are complete; at the end of time all are."""
        return closed_at(watermark, self.lateness_us)
