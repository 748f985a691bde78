"""Which checkpoint a job goes on from.

`Restoration` takes the newest complete one, when every file of it was read and is whole. One that
is damaged is written down as such and said loudly, and the one before is tried; when none is left
the job fails, with the names: it never begins again as if nothing had been. A storage that can't be
read just now damages nothing: it is asked again, for a while.

What sinks published after the checkpoint that is taken will be put out again: before any task
starts they take it back, so that it is seen once in the end. Where one can't, the job fails with
the reason, unless its stream allows rows to be seen twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fabric.checkpoint.manifest import Manifest
from fabric.coordinator.core.checkpoints.completed_checkpoints import CompletedCheckpoints
from fabric.coordinator.core.checkpoints.sink_orders import Order, SinkOrders
from fabric.coordinator.core.effects import (
    CheckpointEffects,
    Fail,
    Note,
    Persist,
    Restore,
    TakeBack,
    Verify,
)
from fabric.errors import (
    DataError,
    ExternalError,
    FabricError,
    FencedError,
    InternalError,
    NotFoundError,
    StorageError,
)

Refuse = Callable[[str], object]

PAUSE_S, PAUSE_MAX_S, TRIES_MAX = 0.5, 10.0, 10
_DAMAGED = (DataError, NotFoundError, InternalError)


class Restoration:
    """The decision for `job`; `refuse` is told why an answer was not taken.

    It is active from `begin` until the tasks have started, or the job stops.
    """

    def __init__(
        self, job: str, completed: CompletedCheckpoints, refuse: Refuse, *, may_double: bool = False
    ) -> None:
        self._job, self._completed, self._may_double = job, completed, may_double
        self._refuse, self.is_active = refuse, False
        self._reset()

    def _reset(self) -> None:
        self._manifest: Manifest | None = None
        self._taking_back = SinkOrders()
        self.asked: int | None = None
        """The checkpoint that is being verified."""
        self._n_tries, self._not_before, self._decided = 0, -math.inf, False

    def begin(self) -> None:
        """Decide anew."""
        self._reset()
        self.is_active = True

    def end(self) -> None:
        """There is nothing to be decided any more."""
        self.is_active = False

    @property
    def due(self) -> float:
        """When storage is to be asked again."""
        if not self.is_active:
            return math.inf
        if self._manifest is not None:
            return self._taking_back.due
        return math.inf if self._decided or self.asked is not None else self._not_before

    def go_on(self, now: float) -> CheckpointEffects:
        """Verify the newest that may be whole, or decide."""
        if self._manifest is not None:
            return [*self._taking_back.again(now)]
        if self._decided or self.asked is not None or now < self._not_before:
            return []
        if (pointer := self._completed.usable()) is not None:
            self.asked = pointer.checkpoint
            return [Verify(pointer.checkpoint, pointer.seal)]
        if self._completed.pointers:
            return self._none_left()
        return self._from(None)

    def outstanding(self) -> list[Order]:
        """What was to be taken back and was not answered: again."""
        return self._taking_back.all() if self.is_active else []

    def verified(self, checkpoint: int, manifest: Manifest, now: float) -> CheckpointEffects:
        """Every file of a checkpoint was read and is whole."""
        if not self._is_asked(checkpoint):
            return []
        self.asked = None
        doubled = self._completed.doubled(manifest.checkpoint)
        if not doubled:
            return self._from(manifest)
        self._manifest = manifest
        number, kept = manifest.checkpoint, manifest.handles()
        self._taking_back.begin(
            number, [TakeBack(number, n, each, kept.get(n, ())) for n, each in doubled.items()]
        )
        note = Note("OUTPUT IS TAKEN BACK, its rows come again", (
            ("job", self._job), ("checkpoint", manifest.checkpoint),
            ("sinks", " ".join(sorted(doubled))),
        ))  # fmt: skip
        # fenced: a coordinator that leads no more must not remove what others have put out since
        return [Persist((self._completed.fence(),)), note, *self._taking_back.all()]

    def not_verified(self, checkpoint: int, error: FabricError, now: float) -> CheckpointEffects:
        """A file of a checkpoint is missing or differs, or the storage can't be read now."""
        if not self._is_asked(checkpoint):
            return []
        self.asked = None
        where = (("job", self._job), ("checkpoint", checkpoint), ("error", error.message))
        if isinstance(error, _DAMAGED):
            self._n_tries, self._not_before = 0, now
            write = self._completed.damaged(checkpoint, error.message)
            note = Note("CHECKPOINT IS DAMAGED, an older one is tried", where)
            return [Persist((write,)), note, *self.go_on(now)]
        self._n_tries += 1
        if self._n_tries >= TRIES_MAX or isinstance(error, FencedError):
            self._decided = True
            return [Fail(error.at(job=self._job))]
        self._not_before = now + min(PAUSE_MAX_S, PAUSE_S * 2 ** (self._n_tries - 1))
        return [Note("checkpoint can't be read now, it is tried again", where)]

    def _is_asked(self, checkpoint: int) -> bool:
        if self.is_active and self.asked == checkpoint:
            return True
        self._refuse("checkpoint: not being verified")
        return False

    def taken_back(self, checkpoint: int, node: str, now: float) -> CheckpointEffects:
        """What a sink published after the checkpoint that is restored is not seen any more."""
        awaited = self.is_active and self._manifest is not None
        if not awaited or not self._taking_back.answered(checkpoint, node):
            self._refuse("checkpoint: taking back not awaited")
            return []
        return self._from(self._manifest) if self._taking_back.done else []

    def not_taken_back(
        self, checkpoint: int, node: str, error: FabricError, now: float
    ) -> CheckpointEffects:
        """It is still seen: the sink is asked again, or it must not come twice."""
        awaited = self.is_active and self._manifest is not None
        if not awaited or not self._taking_back.failed(checkpoint, node, now):
            self._refuse("checkpoint: taking back not awaited")
            return []
        where = (("job", self._job), ("node", node), ("error", error.message))
        if error.retryable:
            return [Note("output not taken back, it is tried again", where)]
        if self._may_double:
            note = Note("ROWS ARE SEEN TWICE, as the stream allows", where)
            return [note, *self.taken_back(checkpoint, node, now)]
        self._manifest, self._decided = None, True
        message = (
            f"checkpoint {checkpoint} is the newest one that is whole, and what was put out since "
            f"would be seen twice: {error.message}. Streams that shall go on all the same are "
            "submitted after session.checkpoints(seen_twice=True)"
        )
        return [Fail(ExternalError(message, job=self._job, node=node))]

    def _from(self, manifest: Manifest | None) -> CheckpointEffects:
        self._manifest, self._decided = None, True
        writes = (self._completed.fence(), *self._completed.all_begin())
        checkpoint = manifest.checkpoint if manifest is not None else 0
        note = Note("job restored", (("job", self._job), ("checkpoint", checkpoint)))
        return [Persist(writes), note, Restore(manifest)]

    def _none_left(self) -> CheckpointEffects:
        self._decided = True
        damaged = [p for p in self._completed.pointers if p.state == "damaged"]
        told = "; ".join(f"checkpoint {p.checkpoint}: {p.reason}" for p in damaged)
        message = f"no checkpoint of the job is whole, so it can't go on: {told}"
        return [Fail(StorageError(message, job=self._job))]
