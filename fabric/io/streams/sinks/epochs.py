"""Output cut at barriers.

One job: `Epochs`, a `StreamWriter` over one `SinkWriter` a portion. A portion is what a task wrote
between two barriers. When a checkpoint is given up while the job goes on, the rows before its
barrier still belong to the next one: so a handle names all portions that are not known to be
complete, and to publish a portion twice is to publish it once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import pyarrow as pa

from fabric.errors import CancelledError
from fabric.io.sinks.protocol import SinkWriter, portions


class StreamWriter(Protocol):
    """One task's output to the outside."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows aside; nobody sees them yet."""

    def prepare(self, checkpoint: int) -> bytes:
        """At the barrier of `checkpoint`: make all rows durable; the handle publishes them."""

    def on_complete(self, checkpoint: int) -> None:
        """`checkpoint` is complete: its handle has been written down, and will be published."""

    def interrupt(self) -> None:
        """The task is cancelled: wait for nobody any more; may be called from any thread."""

    def abandon(self) -> None:
        """Remove what no handle names; may be called from any thread, at any time, twice."""


@runtime_checkable
class Breakable(Protocol):
    """A portion that may wait for somebody who does not answer."""

    def interrupt(self) -> None:
        """Wait no longer; may be called from any thread."""


class Epochs:
    """See `StreamWriter`; `open_portion` is given the last barrier that this task has seen."""

    def __init__(self, open_portion: Callable[[int], SinkWriter]) -> None:
        self._open_portion = open_portion
        self._since = 0
        self._portion: SinkWriter | None = None
        self._prepared: list[tuple[int, bytes]] = []
        self._abandoned = False

    def write(self, batch: pa.RecordBatch) -> None:
        """See `StreamWriter.write`."""
        if self._abandoned:
            raise CancelledError("writing to this sink was abandoned")
        if not batch.num_rows:
            return
        if self._portion is None:
            self._portion = self._open_portion(self._since)
        self._portion.write(batch)

    def prepare(self, checkpoint: int) -> bytes:
        """See `StreamWriter.prepare`."""
        if self._abandoned:
            raise CancelledError("writing to this sink was abandoned")
        if self._portion is not None:
            handle = self._portion.prepare()
            self._prepared.append((checkpoint, handle))
            self._portion = None
        self._since = checkpoint
        return portions([handle for _, handle in self._prepared])

    def on_complete(self, checkpoint: int) -> None:
        """See `StreamWriter.on_complete`."""
        self._prepared = [(id, handle) for id, handle in self._prepared if id > checkpoint]

    def interrupt(self) -> None:
        """See `StreamWriter.interrupt`: others than these wait for their writers' time-outs."""
        if isinstance(portion := self._portion, Breakable):
            portion.interrupt()

    def abandon(self) -> None:
        """See `StreamWriter.abandon`."""
        self._abandoned = True
        if (portion := self._portion) is not None:
            portion.abandon()
