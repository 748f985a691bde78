"""Timers that calls set or take back, until the calls of a batch are over.

One job: `Requests`, in the order they were asked for; of each key, domain and time the last word
counts. A call that fails takes its own words back.
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
