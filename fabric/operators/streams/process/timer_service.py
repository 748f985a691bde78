"""Timers of users' functions: those that calls set or take back, and those that are due.

One job: `Requests`, what calls asked for, in order; of each key, domain and time the last word
counts, and a call that fails takes its own words back. `Layers`, due timers, of each key the
earliest one that is left: keys see their timers in order of time, many keys are called at once,
and what a call sets or takes back is heard before the next layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fabric.errors import PlanError
from fabric.event_time import END_OF_TIME, IDLE
from fabric.operators.streams.columns import Ints, us
from fabric.plan.process import Time, TimerDomain

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Asked(NamedTuple):
    """Timers of some rows of `keys`, to be set or taken back."""

    domain: TimerDomain
    is_set: bool
    keys: pa.RecordBatch
    rows: Ints
    times: Ints


class Requests:
    """What was asked for, in order.

    >>> keys = pa.record_batch({"k": ["a", "b"]})
    >>> requests = Requests(("event",))
    >>> requests.ask("event", True, keys, 1, 50)
    >>> requests.ask("event", True, keys, 0, 60)
    >>> [(each.rows.tolist(), each.times.tolist()) for each in requests.take()]
    [([1, 0], [50, 60])]
    """

    def __init__(self, declared: tuple[TimerDomain, ...]) -> None:
        self._declared = declared
        self._asked: list[tuple[TimerDomain, bool, pa.RecordBatch, int | Ints, int | Ints]] = []

    def __len__(self) -> int:
        return len(self._asked)

    def ask(
        self,
        domain: TimerDomain,
        is_set: bool,
        keys: pa.RecordBatch,
        rows: int | Ints,
        times: int | Ints,
    ) -> None:
        """Ask for timers of `rows` of `keys`."""
        if domain not in self._declared:
            raise PlanError(
                f"timers of {domain!r} time were not declared; write .process(…, timers={domain!r})"
            )
        self._asked.append((domain, is_set, keys, rows, times))

    def forget(self, n: int) -> None:
        """Take back all but the first `n`."""
        del self._asked[n:]

    def take(self) -> Iterator[Asked]:
        """All of them, neighbours of one kind together; none is left."""
        asked, self._asked = self._asked, []
        for (domain, is_set, _), some in groupby(asked, lambda a: (a[0], a[1], id(a[2]))):
            run = list(some)
            rows = np.concatenate([np.atleast_1d(each[3]) for each in run]).astype(np.int64)
            times = np.concatenate([np.atleast_1d(each[4]) for each in run]).astype(np.int64)
            yield Asked(domain, is_set, run[0][2], rows, times)


def as_us(time: Time) -> int:
    """A time as microseconds since the epoch.

    >>> as_us(datetime(1970, 1, 1, 0, 0, 1)), as_us(5)
    (1000000, 5)
    """
    if isinstance(time, datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        delta = aware - _EPOCH
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    if isinstance(time, bool) or not isinstance(time, int | np.integer):
        raise TypeError(f"a timer's time is a datetime or microseconds, not {time!r}")
    if not IDLE < time < END_OF_TIME:
        raise ValueError(f"a timer's time is out of range: {time}")
    return int(time)


def times_of(times: pa.Array, n_keys: int) -> Ints:
    """A column of times as microseconds, for so many keys."""
    if len(times) != n_keys or times.null_count:
        raise ValueError(
            f"each of {n_keys} keys needs a time, got {len(times)} with {times.null_count} nulls"
        )
    if pa.types.is_timestamp(times.type):
        return us(times)
    found: Ints = times.cast(pa.int64()).to_numpy()
    if len(found) and not (int(found.min()) > IDLE and int(found.max()) < END_OF_TIME):
        raise ValueError("a timer's time is out of range")
    return found


class Layers:
    """Timers as pairs of id and time, each pair once.

    >>> layers = Layers(np.array([1, 2, 1]), np.array([10, 20, 30]))
    >>> [a.tolist() for a in layers.pop()]
    [[1, 2], [10, 20]]
    >>> layers.add(np.array([1]), np.array([15]))
    >>> layers.drop(np.array([1]), np.array([30]))
    >>> [a.tolist() for a in layers.pop()], bool(layers)
    ([[1], [15]], False)
    """

    def __init__(self, ids: Ints, times: Ints) -> None:
        self._at = 0
        self._arrange(ids, times)

    def __bool__(self) -> bool:
        return self._at < len(self._ids)

    def pop(self) -> tuple[Ints, Ints]:
        """The next layer: different ids, by time."""
        begin = self._at
        end = int(np.searchsorted(self._layer, self._layer[begin], "right"))
        self._at = end
        return self._ids[begin:end], self._times[begin:end]

    def add(self, ids: Ints, times: Ints) -> None:
        """Timers that have become due meanwhile."""
        if len(ids):
            left = slice(self._at, None)
            self._arrange(
                np.concatenate([self._ids[left], ids]), np.concatenate([self._times[left], times])
            )

    def drop(self, ids: Ints, times: Ints) -> None:
        """Timers that were taken back."""
        if not len(ids) or not self:
            return
        left = slice(self._at, None)
        gone = np.isin(_pairs(self._ids[left], self._times[left]), _pairs(ids, times))
        if gone.any():
            self._arrange(self._ids[left][~gone], self._times[left][~gone])

    def _arrange(self, ids: Ints, times: Ints) -> None:
        """By layer, then time, then id."""
        by_id = np.lexsort((times, ids))
        ids, times = ids[by_id], times[by_id]
        first = np.ones(len(ids), np.bool_)
        first[1:] = ids[1:] != ids[:-1]
        again = np.zeros(len(ids), np.bool_)
        again[1:] = ~first[1:] & (times[1:] == times[:-1])
        ids, times, first = ids[~again], times[~again], first[~again]
        places = np.arange(len(ids))
        layer = places - np.maximum.accumulate(np.where(first, places, 0))
        order = np.lexsort((ids, times, layer))
        self._ids, self._times, self._layer = ids[order], times[order], layer[order]
        self._at = 0


def _pairs(ids: Ints, times: Ints) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    both = np.column_stack([ids, times]).astype(np.int64)
    return np.ascontiguousarray(both).view([("id", np.int64), ("time", np.int64)]).reshape(-1)
