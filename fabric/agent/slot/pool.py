"""The slots of one agent.

One job: `SlotPool`: a process for each task that wants one. One that ended its task cleanly waits
for the job's next: what the functions import is imported once. No process ever serves two jobs, and
what a job's release or idleness leaves without work is ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from fabric.agent.slot.forkserver import Forkserver
from fabric.agent.slot.process import SlotProcess, own_bytes
from fabric.clock import Clock, SystemClock

HEADROOM_BYTES = 128 << 20
"""What a bounded slot may take beside DataFusion's pool: a function's own, batches, stacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLimits:
    """What a task in a slot may use."""

    batch_s: float = 300.0
    """How long a function may take for a batch."""
    pool_bytes: int = 0
    """Of DataFusion, in each slot; 0: as much as it wants, as does all else there."""
    spill_folders: Sequence[Path] = ()
    memory: int = 0
    """What a process may add to what it is born with, as was set; 0: nothing was."""
    environment: Sequence[str] = ()
    """Variables that functions see beside those that every program needs."""

    @property
    def bytes_max(self) -> int:
        """What a process may add to what it is born with; 0: as much as it wants."""
        share = self.pool_bytes and self.pool_bytes + HEADROOM_BYTES
        return min(share, self.memory) if share and self.memory else share or self.memory

    @property
    def is_set(self) -> bool:
        """Whether `bytes_max` is what was set, not a share of the agent's memory."""
        return self.bytes_max == self.memory


class SlotPool:
    """Any thread may call anything."""

    def __init__(self, limits: SlotLimits | None = None, clock: Clock | None = None) -> None:
        self.limits, self.clock = limits or SlotLimits(), clock or SystemClock()
        self._forkserver = Forkserver(self.limits.environment)
        self._lock = Lock()
        self._waiting: dict[str, list[SlotProcess]] = defaultdict(list)
        self._busy: set[SlotProcess] = set()

    @contextmanager
    def slot(self, job: str, *, compiles: bool = False) -> Iterator[SlotProcess]:
        """A process for one task of `job`; an error in the block ends it."""
        slot = self._take(job, compiles)
        try:
            yield slot
        except BaseException:
            slot.kill()
            slot.end()
            with self._lock:
                self._busy.discard(slot)
            raise
        if slot.lingers:
            slot.kill()
            slot.end()
        with self._lock:
            self._busy.discard(slot)
            if not slot.lingers:
                self._waiting[job].append(slot)

    @property
    def pids(self) -> list[int]:
        """All processes there are now, the forkserver first."""
        return [pid for pid in (self._forkserver.pid, *(s.pid for s in self._slots())) if pid]

    def _slots(self) -> list[SlotProcess]:
        with self._lock:
            return [*self._busy, *(slot for slots in self._waiting.values() for slot in slots)]

    def resident_bytes(self) -> int:
        """Memory of all of them in RAM, without what they share."""
        forkserver = self._forkserver.pid
        return (own_bytes(forkserver) if forkserver else 0) + sum(
            s.taken_bytes for s in self._slots()
        )

    def release(self, job: str) -> None:
        """The job needs no slots any more."""
        with self._lock:
            ended = self._waiting.pop(job, [])
        for slot in ended:
            slot.kill()
            slot.end()

    def trim(self) -> None:
        """End all that nobody uses."""
        for job in list(self._waiting):
            self.release(job)
        with self._lock:
            if not self._busy:
                self._forkserver.close()

    def close(self) -> None:
        """End everything."""
        for slot in list(self._busy):
            slot.kill()
        self.trim()
        self._forkserver.close()

    def _take(self, job: str, compiles: bool) -> SlotProcess:
        while (slot := self._kept(job)) is not None:
            if slot.alive:
                break
            slot.end()
        slot = slot or SlotProcess(self._forkserver, self.clock, compiles=compiles)
        with self._lock:
            self._busy.add(slot)
        return slot

    def _kept(self, job: str) -> SlotProcess | None:
        with self._lock:
            waiting = self._waiting.get(job)
            return waiting.pop() if waiting else None
