"""Waiting for an owner of dataset partitions that starts again.

One job: `patiently`, for clients that put rows into an open transaction. An attempt that is put
again under the same writer and number takes the place of the one before, so nothing doubles; a
plain put (begin, put and commit in one) is never made twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from fabric.errors import PeerLostError

R = TypeVar("R")

OWNER_WAIT_S = 45.0
"""How long an owner that is away is waited for."""
KEPT_BYTES_MAX = 64 << 20
"""Rows of an iterator are kept up to so many bytes, to be put again."""
_PAUSE_S, _PAUSE_S_MAX = 0.1, 2.0


def patiently(
    call: Callable[[], R],
    wait_s: float = OWNER_WAIT_S,
    *,
    may_repeat: Callable[[], bool] = lambda: True,
) -> R:
    """Call until no agent was away, for `wait_s` at most; then what failed last says it waited."""
    end_s, pause_s = time.monotonic() + wait_s, _PAUSE_S
    while True:
        try:
            return call()
        except PeerLostError as error:
            left_s = end_s - time.monotonic()
            if not may_repeat():
                raise
            if left_s <= 0:
                raise (_waited(error, wait_s) if wait_s else error) from error.__cause__
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)


def _waited(error: PeerLostError, wait_s: float) -> PeerLostError:
    where = error.where
    return PeerLostError(
        f"{error.message} (waited {wait_s:.0f} s for it)",
        job=where.job, node=where.node, task=where.task, agent=where.agent,
    )  # fmt: skip


class Kept:
    """Batches that may be gone through again: a list, or an iterator's as long as they are few."""

    def __init__(self, batches: Iterable[pa.RecordBatch], bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._again = isinstance(batches, Sequence)
        self._rest = batches if self._again else iter(batches)
        self._bytes_left = bytes_max
        self._kept: list[pa.RecordBatch] = []

    @property
    def is_whole(self) -> bool:
        """Whether the first batch is still there."""
        return self._again or self._bytes_left >= 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All batches, from the first one on."""
        if self._again:
            yield from self._rest
            return
        yield from list(self._kept)
        for batch in self._rest:
            self._bytes_left -= batch.nbytes
            if self.is_whole:
                self._kept.append(batch)
            else:
                self._kept.clear()
            yield batch
