"""What waits in a task's rings, joined.

One job: `joined`. Small batches that lie in the rings already go through the chain as one, for a
walk through it costs the same for one row as for a thousand: a task that falls behind catches up.
Nothing is waited for, so a task that keeps up sees its batches as they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from fabric.agent.streams.inputs import Came, Event_, Time
from fabric.io.streams.reader import JOINED_ROWS as SMALL_ROWS
from fabric.io.streams.reader import can_join

JOINED_ROWS = 65_536


def joined(events: Iterable[Event_]) -> Iterator[Event_]:
    """The same events with rows of an edge joined, and of its watermarks the last.

    Barriers and ends stay where they are among the rows. Rows may come before a watermark that was
    sent before them: it promises something of what comes later, and only fires and purges.

    >>> rows = [Came(1, pa.record_batch({"a": [n]})) for n in range(3)]
    >>> found = list(joined([rows[0], Time(1, 5), rows[1], rows[2], Time(1, 7)]))
    >>> found[0].batch["a"].to_pylist(), found[1:]
    ([0, 1, 2], [Time(edge=1, time_us=7)])
    """
    waiting: dict[int, list[pa.RecordBatch]] = {}
    times: dict[int, int] = {}
    n_rows = 0
    for event in events:
        if isinstance(event, Came):
            waiting.setdefault(event.edge, []).append(event.batch)
            n_rows += event.batch.num_rows
            if n_rows < JOINED_ROWS:
                continue
        elif isinstance(event, Time):
            times[event.edge] = event.time_us
            continue
        yield from _let_go(waiting, times)
        n_rows = 0
        if not isinstance(event, Came):
            yield event
    yield from _let_go(waiting, times)


def _let_go(waiting: dict[int, list[pa.RecordBatch]], times: dict[int, int]) -> Iterator[Event_]:
    for edge, batches in waiting.items():
        for batch in _runs(batches):
            yield Came(edge, batch)
    yield from (Time(edge, time_us) for edge, time_us in times.items())
    waiting.clear()
    times.clear()


def _runs(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small neighbours as one."""
    if len(batches) == 1 or not can_join(batches[0].schema):
        yield from batches
        return
    run: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows <= SMALL_ROWS:
            run.append(batch)
            continue
        yield from _one(run)
        run = []
        yield batch
    yield from _one(run)


def _one(run: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return run if len(run) < 2 else [pa.concat_batches(run)]
