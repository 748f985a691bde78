"""A sink that drops rows.

Its handles name no portion, so there is nothing to publish or abandon.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.checkpoint.manifest import FINAL
from fabric.ids import TaskId
from fabric.io.sinks.protocol import SinkStart, SinkWriter, portions
from fabric.plan.targets import BlackholeTarget


def open_stream(
    target: BlackholeTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> Blackhole:
    """The writer of a task."""
    return Blackhole()


class Blackhole(SinkWriter):
    """See `SinkWriter`.

    >>> Blackhole().prepare(1)
    b'{"v": 1, "kind": "portions", "of": []}'
    """

    def write(self, batch: pa.RecordBatch) -> None:
        """Drop rows."""

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """There is nothing to make durable."""
        return portions([])

    def abandon(self) -> None:
        """Nothing was written."""
