"""Timers of keys, in event time and in processing time.

One job: which keys want to be called when. Keys are ids of a group table, so adding, firing and
snapshots go by columns. A timer asked for twice is one; a key's timers fire in order of time.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric._cython.kernels.group_table import KEY_GROUP, GroupTable
from fabric._cython.kernels.timers import TimerQueue

Domain = Literal["event", "processing"]
Ints = NDArray[np.int64]
DOMAINS: tuple[Domain, ...] = ("event", "processing")
TIME, DOMAIN = "__time", "__domain"


class Timers:
    """Timers by key id and domain.

    >>> timers = Timers()
    >>> timers.set("event", np.array([4, 4, 7]), np.array([30, 30, 10]))
    2
    >>> [a.tolist() for a in timers.due("event", 20)], len(timers)
    ([[7], [10]], 1)
    """

    def __init__(self) -> None:
        self._queues = {domain: TimerQueue() for domain in DOMAINS}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def set(self, domain: Domain, ids: NDArray[np.integer], times: Ints) -> int:
        """Call these keys at these times; returns how many timers are new."""
        return self._queues[domain].add(times, ids.astype(np.int64))

    def cancel(self, domain: Domain, ids: NDArray[np.integer], times: Ints) -> int:
        """Don't; returns how many timers there were."""
        return self._queues[domain].remove(times, ids.astype(np.int64))

    def due(self, domain: Domain, time_us: int) -> tuple[Ints, Ints]:
        """Ids and times of the timers of at most `time_us`, by time and then id; they are gone."""
        times, ids = self._queues[domain].due(time_us)
        return ids, times

    def in_use(self) -> Ints:
        """The ids that have timers, rising: their keys must not be forgotten."""
        return np.unique(np.concatenate([queue.export()[1] for queue in self._queues.values()]))

    def export(self, table: GroupTable) -> pa.RecordBatch:
        """All timers with their keys: key columns, `TIME`, `DOMAIN`, then `KEY_GROUP`.

        Rows are in order of key groups, so that a range of them is a slice.
        """
        exported = [queue.export() for queue in self._queues.values()]
        times = np.concatenate([times for times, _ in exported])
        ids = np.concatenate([ids for _, ids in exported]).astype(np.int32)
        domains = np.repeat(np.arange(len(exported), dtype=np.int8), [len(t) for t, _ in exported])
        groups = table.key_groups(ids)
        order = np.argsort(groups, kind="stable")
        batch = table.keys(ids[order])
        for name, column in ((TIME, times), (DOMAIN, domains), (KEY_GROUP, groups)):
            batch = batch.append_column(name, pa.array(column[order]))
        return batch

    def restore(self, exported: pa.RecordBatch, key_groups: range, table: GroupTable) -> None:
        """Set the timers of `exported` that are of our key groups; `table` learns their keys."""
        groups = exported.column(KEY_GROUP)
        ours = pc.and_(
            pc.greater_equal(groups, pa.scalar(key_groups.start, pa.int32())),
            pc.less(groups, pa.scalar(key_groups.stop, pa.int32())),
        )
        batch = exported.filter(ours)
        *keys, times, domains, _ = batch.columns
        ids = table.upsert(keys)
        of = domains.to_numpy()
        for number, domain in enumerate(DOMAINS):
            self.set(domain, ids[of == number], times.to_numpy()[of == number])
