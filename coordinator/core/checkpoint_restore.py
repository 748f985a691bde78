"""Which checkpoint a job goes on from.

One job: `Restoring`. The newest complete one, when every file of it was read and is whole. One that
is damaged is written down as such and said loudly, and the one before is tried; when none is left
the job fails, with the names: it never begins again as if nothing had been. A storage that can't be
read just now damages nothing: it is asked again, for a while.
"""

from __future__ import annotations

import math

from fabric.checkpoint.manifest import Manifest
from fabric.coordinator.core.checkpoint_effects import (
    CheckpointEffects,
    CommitPointer,
    Fail,
    Restore,
    Verify,
)
from fabric.coordinator.core.checkpoint_shelf import Shelf
from fabric.coordinator.core.effects import Note
from fabric.errors import DataError, FabricError, InternalError, NotFoundError, StorageError

PAUSE_S, PAUSE_MAX_S, TRIES_MAX = 0.5, 10.0, 10
_DAMAGED = (DataError, NotFoundError, InternalError)


class Restoring:
    """One decision for `job`."""

    def __init__(self, job: str, shelf: Shelf) -> None:
        self._job, self._shelf = job, shelf
        self.asked: int | None = None
        """The checkpoint that is being verified."""
        self._n_tries, self._not_before, self._decided = 0, -math.inf, False

    @property
    def due(self) -> float:
        """When storage is to be asked again."""
        return math.inf if self._decided or self.asked is not None else self._not_before

    def go_on(self, now: float) -> CheckpointEffects:
        """Verify the newest that may be whole, or decide."""
        if self._decided or self.asked is not None or now < self._not_before:
            return []
        if (pointer := self._shelf.usable()) is not None:
            self.asked = pointer.checkpoint
            return [Verify(pointer.checkpoint, pointer.seal)]
        if self._shelf.pointers:
            return self._none_left()
        return self._from(None)

    def found(self, manifest: Manifest) -> CheckpointEffects:
        """The one that was verified is whole."""
        self.asked = None
        return self._from(manifest)

    def not_found(self, error: FabricError, now: float) -> CheckpointEffects:
        """The one that was verified is damaged, or can't be read now."""
        assert self.asked is not None
        checkpoint, self.asked = self.asked, None
        where = (("job", self._job), ("checkpoint", checkpoint), ("error", error.message))
        if isinstance(error, _DAMAGED):
            self._n_tries, self._not_before = 0, now
            write = self._shelf.damaged(checkpoint, error.message)
            note = Note("CHECKPOINT IS DAMAGED, an older one is tried", where)
            return [CommitPointer((write,)), note, *self.go_on(now)]
        self._n_tries += 1
        if self._n_tries >= TRIES_MAX:
            self._decided = True
            return [Fail(error.at(job=self._job))]
        self._not_before = now + min(PAUSE_MAX_S, PAUSE_S * 2 ** (self._n_tries - 1))
        return [Note("checkpoint can't be read now, it is tried again", where)]

    def _from(self, manifest: Manifest | None) -> CheckpointEffects:
        self._decided = True
        writes = (self._shelf.fence(), *self._shelf.all_begin())
        checkpoint = manifest.checkpoint if manifest is not None else 0
        doubled = tuple(sorted(self._shelf.doubled(checkpoint).items()))
        effects: CheckpointEffects = [CommitPointer(writes)]
        if doubled:
            effects.append(Note("OUTPUT IS OUT whose rows come again", (
                ("job", self._job), ("checkpoint", checkpoint),
                ("sinks", " ".join(node for node, _ in doubled)),
            )))  # fmt: skip
        note = Note("job restored", (("job", self._job), ("checkpoint", checkpoint)))
        return [*effects, note, Restore(manifest, doubled)]

    def _none_left(self) -> CheckpointEffects:
        self._decided = True
        told = "; ".join(f"checkpoint {p.checkpoint}: {p.reason}" for p in self._shelf.pointers)
        message = f"no checkpoint of the job is whole, so it can't go on: {told}"
        return [Fail(StorageError(message, job=self._job))]
