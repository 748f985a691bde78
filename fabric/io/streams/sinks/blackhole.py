"""The sink that keeps nothing.

One job: `Blackhole`. A handle of it names no portion, so there is nothing to publish or abandon.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.io.sinks.protocol import portions


class Blackhole:
    """See `StreamWriter`.

    >>> Blackhole().prepare(1)
    b'{"v": 1, "kind": "portions", "of": []}'
    """

    def write(self, batch: pa.RecordBatch) -> None:
        """Drop rows."""

    def prepare(self, checkpoint: int) -> bytes:
        """There is nothing to make durable."""
        return portions([])

    def on_complete(self, checkpoint: int) -> None:
        """Nothing waits for it."""

    def interrupt(self) -> None:
        """It waits for nobody."""

    def abandon(self) -> None:
        """Nothing was written."""
