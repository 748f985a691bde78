"""Effects on their way out: written down first, then carried out, in order.

One job: `Outbox`. Any thread puts effects in, one takes them out. All writes that wait go to the
store at once (a commit costs as much for one as for a hundred); what they say is done, and callers
that wait for them go on, only then. While the store does not answer everything stays where it is
and is tried again: the same writes, in the same order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from fabric.coordinator.core.effects import Effect, Persist
from fabric.coordinator.metadata.store import MetadataStore, Table, Write, write_down
from fabric.errors import FabricError, InternalError, StorageAwayError, StorageError


class Outbox:
    """The effects of one coordinator; `changed` is the condition of the lock that guards them."""

    def __init__(self, store: MetadataStore, changed: threading.Condition) -> None:
        self._store, self._changed = store, changed
        self._queue: deque[Effect] = deque()
        self._n_put = self._n_written = self._n_done = 0
        self.away: StorageAwayError | None = None
        """Why the store can't be written to now."""
        self.broken: FabricError | None = None
        """Why this coordinator can't go on."""

    @property
    def waiting(self) -> bool:
        """Whether there is something to do; the lock is held."""
        return bool(self._queue)

    def put(self, effects: Sequence[Effect]) -> None:
        """Queue `effects`; the lock is held."""
        self._queue.extend(effects)
        self._n_put += len(effects)
        self._changed.notify_all()

    def wait_written(self, timeout_s: float) -> None:
        """Until all effects so far are written down; the lock is held.

        Raises `StorageAwayError` after `timeout_s`, `StorageError` when it never will be.
        """
        until = self._n_put
        self._changed.wait_for(
            lambda: self._n_written >= until or self.broken is not None, timeout_s
        )
        if self._n_written >= until:
            return
        if self.broken is not None:
            raise self.broken
        raise self.away or StorageAwayError(
            f"the metadata store did not take the change within {timeout_s:.0f} s; it may be made "
            "later: submit again with the same client key, or look at the list of jobs"
        )

    def wait_done(self, ended: Callable[[], bool]) -> None:
        """Until all effects so far are carried out, or `ended`; the lock is held."""
        until = self._n_put
        self._changed.wait_for(lambda: self._n_done >= until or ended())

    def step(self, perform: Callable[[Effect], None]) -> bool:
        """Write down and carry out what waits; False when the store does not answer."""
        with self._changed:
            effects = list(self._queue)
        try:
            self._write(effects)
        except StorageAwayError as error:
            with self._changed:
                self.away = error
            return False
        except StorageError as error:
            self.fail(error)
            return True
        with self._changed:
            self.away = None
            for _ in effects:
                self._queue.popleft()
            self._n_written += len(effects)
            self._changed.notify_all()
        for effect in effects:
            perform(effect)
        with self._changed:
            self._n_done += len(effects)
            self._changed.notify_all()
        return True

    def fail(self, error: Exception) -> None:
        """Nothing is written down or carried out any more, because of `error`."""
        kind = type(error).__name__
        unexpected = InternalError(f"the coordinator failed ({kind}); its log says more")
        with self._changed:
            self.broken = error if isinstance(error, FabricError) else unexpected
            self._queue.clear()
            self._changed.notify_all()

    def _write(self, effects: Sequence[Effect]) -> None:
        writes: dict[tuple[Table, str], Write] = {}
        for effect in effects:
            if isinstance(effect, Persist):
                for write in effect.writes:
                    writes.pop((write.table, write.key), None)
                    writes[write.table, write.key] = write
        if writes:
            write_down(self._store, tuple(writes.values()))
