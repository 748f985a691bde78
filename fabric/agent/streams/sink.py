"""The sink of a task of a stream: what it writes is seen checkpoint by checkpoint.

One job: a writer that prepares at each barrier, and the handles that are still to be published.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from fabric import failpoints
from fabric.checkpoint.manifest import FINAL, SinkHandle


class StreamWriter(Protocol):
    """One task's output to the outside; see `fabric.io.streams.sinks`."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows aside."""

    def prepare(self, checkpoint: int) -> bytes:
        """Make all that is not known to be complete durable; returns the handle to publish it."""

    def on_complete(self, checkpoint: int) -> None:
        """What was prepared up to `checkpoint` is published, or will be."""

    def interrupt(self) -> None:
        """The task is cancelled: wait for nobody any more; any thread may call it."""

    def abandon(self) -> None:
        """Remove what was not prepared; any thread may call it, at any time, twice."""


class StreamSink:
    """Rows, barriers and what came of them; `rows` counts all since the stream began."""

    def __init__(self, node: str, writer: StreamWriter) -> None:
        self.node, self.writer = node, writer
        self.rows, self.is_broken = 0, False
        """Broken: it did not prepare what was written, which ends the task."""
        self._handles: list[SinkHandle] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows aside."""
        self.writer.write(batch)
        self.rows += batch.num_rows

    def on_barrier(self, checkpoint: int) -> tuple[SinkHandle, ...]:
        """What is to be published with `checkpoint`, earlier ones that were given up included."""
        self._prepare(checkpoint)
        failpoints.reach("stream.sink-prepared")
        return tuple(self._handles)

    def on_end(self) -> tuple[SinkHandle, ...]:
        """The same for what the task has at its end."""
        self._prepare(FINAL)
        return tuple(self._handles)

    def _prepare(self, checkpoint: int) -> None:
        try:
            self._handles.append(SinkHandle(checkpoint, self.writer.prepare(checkpoint)))
        except BaseException:
            self.is_broken = True
            raise

    def on_complete(self, checkpoint: int) -> None:
        """That checkpoint is complete: what it has is the coordinator's."""
        self._handles = [handle for handle in self._handles if handle.checkpoint > checkpoint]
        self.writer.on_complete(checkpoint)
