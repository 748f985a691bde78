"""The world that sinks write to.

One job: `Outside`: output that tasks prepared, that becomes visible when it is published, and is
gone when it is abandoned. Both may be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fabric.errors import StorageError
from tests.support.sim.rows import Row


class Outside:
    """Handles by name; it never crashes."""

    def __init__(self) -> None:
        self.prepared: dict[bytes, tuple[str, tuple[Row, ...]]] = {}
        self.published: dict[bytes, tuple[str, tuple[Row, ...]]] = {}

    def prepare(self, handle: bytes, job: str, rows: tuple[Row, ...]) -> None:
        """Make rows durable under a handle that nobody had before."""
        assert handle not in self.prepared
        assert handle not in self.published
        self.prepared[handle] = (job, rows)

    def publish(self, handles: Sequence[bytes]) -> None:
        """Make all of it visible, or none; what else the stage prepared is removed."""
        gone = [h for h in handles if h not in self.published and h not in self.prepared]
        if gone:
            raise StorageError(f"the written rows of {gone[0].decode()} are gone")
        for handle in handles:
            if handle in self.prepared:
                self.published[handle] = self.prepared.pop(handle)
        self.abandon(handles)

    def abandon(self, handles: Sequence[bytes]) -> None:
        """Remove whatever the stage of these handles prepared; what is visible stays."""
        stages = {_stage_of(handle) for handle in handles}
        self.drop([handle for handle in self.prepared if _stage_of(handle) in stages])

    def discard(self, job: str, stage: int) -> None:
        """Remove whatever a stage prepared; what is visible stays."""
        wanted = f"{job}/{stage}".encode()
        self.drop([handle for handle in self.prepared if _stage_of(handle) == wanted])

    def drop(self, handles: Sequence[bytes]) -> None:
        """Remove what these attempts prepared, and nothing of any other."""
        for handle in handles:
            self.prepared.pop(handle, None)

    def committed(self, job: str) -> Counter[Row]:
        """The visible rows of a job."""
        return Counter(row for name, rows in self.published.values() if name == job for row in rows)


def _stage_of(handle: bytes) -> bytes:
    """``job/stage`` of a handle, which begins with its task's id."""
    return handle.rpartition(b"@")[0].partition(b".")[0]
