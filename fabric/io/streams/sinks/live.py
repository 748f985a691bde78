"""The sink that hands rows to a reader in this process, as they come.

One job: `Live`. Nothing waits for a checkpoint: after a restore, rows since the last one come
again.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.io.live import Feed
from fabric.io.streams.sinks.blackhole import Blackhole


class Live(Blackhole):
    """See `StreamWriter`; like where nothing is kept, there is nothing to publish or abandon."""

    def __init__(self, feed: Feed) -> None:
        self._feed, self._interrupted = feed, False

    def write(self, batch: pa.RecordBatch) -> None:
        """Wait for room; see `Feed.put`."""
        if batch.num_rows:
            self._feed.put(batch, lambda: self._interrupted)

    def interrupt(self) -> None:
        """See `StreamWriter`."""
        self._interrupted = True
        self._feed.wake()
