"""Readers in this process that streams hand their rows to, as they come.

`Feed` is a few batches between a stream and its reader; `Live` is the sink of a task, which finds
the feed by its name. Handing on is zero-copy. Nothing waits for a checkpoint: after a restore, rows
since the last one come again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa

from fabric.errors import ExternalError, FabricError, NotFoundError
from fabric.ids import TaskId, new_id
from fabric.io.sinks.blackhole import Blackhole
from fabric.io.sinks.protocol import SinkStart
from fabric.plan.targets import LiveTarget

BATCHES = 8


class Feed:
    """Ends with the job, with its error, or when its reader has had enough.

    >>> feed = Feed(patience_s=1.0)
    >>> feed.put(pa.record_batch({"a": [1]}))
    >>> feed.end()
    >>> [batch.num_rows for batch in feed.take()]
    [1]
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._batches: deque[pa.RecordBatch] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._error: FabricError | None = None

    def put(self, batch: pa.RecordBatch, stopped: Callable[[], bool] = lambda: False) -> None:
        """Wait for room, or until a `wake` finds `stopped`; rows behind either are dropped.

        Raises
        ------
        ExternalError
            The reader took nothing for `patience_s`, now or before.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room() or stopped(), self._patience_s):
                self._end(ExternalError(
                    f"the reader of this stream took nothing for {self._patience_s:.0f} s, so it "
                    "was stopped; a stream that waits for nobody: .write_stream(…)"
                ))  # fmt: skip
            if self._error is not None:
                raise ExternalError(self._error.message)  # one each: tasks say where they were
            if not self._ended and not stopped():
                self._batches.append(batch)
                self._changed.notify_all()

    def wake(self) -> None:
        """Have whoever waits for room look again."""
        with self._changed:
            self._changed.notify_all()

    def end(self, error: FabricError | None = None) -> None:
        """No more rows will come, or none are wanted; the first call counts."""
        with self._changed:
            self._end(error)

    def take(self) -> Generator[pa.RecordBatch]:
        """Batches until the end, those that lie here then included; then raises what it was."""
        while (batch := self._next()) is not None:
            yield batch
        if self._error is not None:
            raise self._error

    def _next(self) -> pa.RecordBatch | None:
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._ended)
            if not self._batches:
                return None
            self._changed.notify_all()
            return self._batches.popleft()

    def _has_room(self) -> bool:
        return self._ended or len(self._batches) < BATCHES

    def _end(self, error: FabricError | None) -> None:
        if not self._ended:
            self._ended, self._error = True, error
            self._changed.notify_all()


_FEEDS: dict[str, Feed] = {}


@contextmanager
def opened(feed: Feed) -> Iterator[LiveTarget]:
    """What hands rows to `feed`, within the block and in this process."""
    target = LiveTarget(new_id("live"))
    _FEEDS[target.name] = feed
    try:
        yield target
    finally:
        del _FEEDS[target.name]


def feed_of(target: LiveTarget) -> Feed:
    """The one that `opened` gave `target` for; raises `NotFoundError` where it is not open."""
    if (feed := _FEEDS.get(target.name)) is None:
        raise NotFoundError(f"nobody reads {target.name} in this process")
    return feed


def open_stream(
    target: LiveTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> Live:
    """The writer of a task; raises what `feed_of` does."""
    return Live(feed_of(target))


class Live(Blackhole):
    """See `SinkWriter`; as nothing is kept, there is nothing to publish or abandon."""

    def __init__(self, feed: Feed) -> None:
        self._feed, self._interrupted = feed, False

    def write(self, batch: pa.RecordBatch) -> None:
        """Wait for room; see `Feed.put`."""
        if batch.num_rows:
            self._feed.put(batch, lambda: self._interrupted)

    def interrupt(self) -> None:
        """See `SinkWriter`."""
        self._interrupted = True
        self._feed.wake()
