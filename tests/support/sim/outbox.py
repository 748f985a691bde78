"""Effects on their way out of a simulated coordinator: written down first, then carried out.

One job: what `fabric.coordinator.runtime.outbox` does with a thread. All writes that wait go to
the store at once; what they say is done, and callers that wait for them are answered, only then.
While the store is away everything stays where it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from fabric.coordinator.core.effects import Effect, Persist
from fabric.coordinator.metadata.store import MetadataStore, Table, Write
from fabric.errors import StorageAwayError

Done = Callable[[], None]


class SimOutbox:
    """One life's; `spend` is told of each moment at which the process may die."""

    def __init__(self, store: MetadataStore, spend: Done) -> None:
        self._store, self._spend = store, spend
        self._queue: deque[Effect | Done] = deque()

    @property
    def waiting(self) -> bool:
        """Whether there is something to do."""
        return bool(self._queue)

    def put(self, effects: Sequence[Effect]) -> None:
        """Queue what is to be done."""
        self._queue.extend(effects)

    def once_written(self, done: Done) -> None:
        """Call `done` when all effects so far are written down."""
        self._queue.append(done)

    def step(self, perform: Callable[[Effect], None]) -> bool:
        """Write down and carry out what waits; False when the store does not answer."""
        taken = list(self._queue)
        writes: dict[tuple[Table, str], Write] = {}
        for effect in taken:
            if isinstance(effect, Persist):
                for write in effect.writes:
                    writes.pop((write.table, write.key), None)
                    writes[write.table, write.key] = write
        if writes:
            self._spend()
            try:
                self._store.apply(tuple(writes.values()))
            except StorageAwayError:
                return False
        for item in taken:
            self._queue.popleft()
            self._spend()
            if callable(item):
                item()
            else:
                perform(item)
        return True
