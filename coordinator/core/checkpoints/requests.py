"""The checkpoints that people asked for: which one serves whom, and what comes after it.

`AskedCheckpoints` follows each request from the moment it was made. It is served by the next
checkpoint that begins after it, once that is complete and all it owes is published; under a name it
is then kept as a savepoint. After that the job goes on, stops there, or has its sources end:

    waiting -> begun with a checkpoint -> published -> being kept (a savepoint) -> done, or failed

A request whose checkpoint fails has failed. One whose run is over waits again. Requests are known
as long as the coordinator lives: whoever asks again, under the same key, may meet another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.coordinator.core.checkpoints.completed_checkpoints import CompletedCheckpoints
from fabric.coordinator.core.checkpoints.rows import Pointer
from fabric.coordinator.core.effects import (
    CheckpointEffects,
    ExportSavepoint,
    Persist,
    Stopped,
)
from fabric.errors import ConfigError, FabricError

Then = Literal["go on", "stop", "drain"]
THEN: tuple[Then, ...] = get_args(Then)
State = Literal["waiting", "begun", "keeping", "done", "failed"]
OPEN_MAX, PAST_MAX = 64, 256
"""Requests of a job that are not answered yet, and answers that are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What somebody asks for: `savepoint` is a name, "" when the checkpoint need not be kept.

    One that `hurries` is unaligned from its beginning, where it may be.
    With `again` it was asked for before, perhaps of an earlier coordinator: a savepoint of that
    name that is there already, of this job, is the answer.
    """

    key: str
    savepoint: str = ""
    then: Then = "go on"
    again: bool = False
    hurries: bool = False


@dataclass(slots=True)
class _Asked:
    wanted: Wanted
    state: State = "waiting"
    checkpoint: int = 0
    savepoint: pb.SavepointStatus | None = None
    error: FabricError | None = None

    @property
    def drains_only(self) -> bool:
        """Whether it needs no checkpoint before its sources end."""
        return self.wanted.then == "drain" and not self.wanted.savepoint


class AskedCheckpoints:
    """Of one job."""

    def __init__(self, completed: CompletedCheckpoints) -> None:
        self._completed = completed
        self._asked: dict[str, _Asked] = {}
        """By key, those of which something is to follow."""
        self._past: deque[_Asked] = deque(maxlen=PAST_MAX)

    # ---- asking

    def knows(self, key: str) -> bool:
        """Whether this was asked before."""
        return self._find(key) is not None

    def taken(self, key: str) -> pb.TakenCheckpoint:
        """How far a request is that is known."""
        asked = self._find(key)
        assert asked is not None
        state = asked.state if asked.state in ("done", "failed") else "under way"
        error = None if asked.error is None else to_detail(asked.error)
        return pb.TakenCheckpoint(
            state=state, error=error, checkpoint=asked.checkpoint, savepoint=asked.savepoint
        )

    @property
    def waits(self) -> bool:
        """Whether somebody waits for a checkpoint to begin."""
        return any(not asked.drains_only for asked in self._in("waiting"))

    def wants_aligned(self, checkpoint: int) -> bool:
        """Whether a checkpoint is to be kept or is to be the last, so has no rows in flight."""
        wanted = self._wanted(checkpoint)
        return any(each.savepoint or each.then != "go on" for each in wanted)

    def waits_s(self, checkpoint: int, unaligned_after_s: float) -> float:
        """How long it is aligned: not at all where somebody waits who minds no rows in flight."""
        return 0.0 if any(each.hurries for each in self._wanted(checkpoint)) else unaligned_after_s

    def _wanted(self, checkpoint: int) -> list[Wanted]:
        """What a checkpoint was begun for."""
        return [each.wanted for each in self._in("begun") if each.checkpoint == checkpoint]

    @property
    def keeping(self) -> frozenset[int]:
        """The checkpoints that savepoints are being made of."""
        return frozenset(asked.checkpoint for asked in self._in("keeping"))

    @property
    def may_begin(self) -> bool:
        """Whether a checkpoint may begin: none does before the job stops, or its sources end."""
        begun = self._in("begun", "keeping", "done")
        stops = any(asked.wanted.then == "stop" for asked in begun)
        return not stops and (self.waits or not self._drains)

    @property
    def _drains(self) -> bool:
        """Whether sources are to end, once those are served who asked for something else."""
        return any(
            asked.wanted.then == "drain" and (asked.drains_only or asked.state == "done")
            for asked in self._asked.values()
        )

    @property
    def _may_drain(self) -> bool:
        """Whether all those are served."""
        others = self._in("waiting", "begun", "keeping")
        return self._drains and all(asked.drains_only for asked in others)

    # ---- moving

    def ask(self, wanted: Wanted) -> None:
        """Somebody asks for this; again is fine."""
        if self.knows(wanted.key):
            return
        if len(self._asked) >= OPEN_MAX:
            raise ConfigError(
                f"{OPEN_MAX} checkpoints were asked for, and none is complete yet; wait for them"
            )
        self._asked[wanted.key] = _Asked(wanted)

    def begun(self, checkpoint: int) -> None:
        """It serves all who wait."""
        for asked in self._in("waiting"):
            if not asked.drains_only:
                asked.state, asked.checkpoint = "begun", checkpoint

    def again(self, checkpoint: int) -> None:
        """It was given up since its run is over: another one will serve them."""
        for asked in self._with(checkpoint):
            asked.state, asked.checkpoint = "waiting", 0

    def failed(self, checkpoint: int, error: FabricError) -> None:
        """It was given up for a reason of its own."""
        for asked in self._with(checkpoint):
            self._fail(asked, error)

    def published(
        self, *, is_busy: bool, has_ended: bool, came_to_end: bool = False
    ) -> CheckpointEffects:
        """The newest checkpoint is complete, and all it owes is out: what follows from that.

        `is_busy`: another one is under way; `has_ended`: no other one will follow; `came_to_end`:
        all windows are closed, so whatever went on from it would open them again.

        That sources are to end is written down, for half of them must not be all that do. Until
        they have, no checkpoint is begun: in the one before no window was closed too early, so a
        job that is cancelled on the way can go on from it.
        """
        effects: CheckpointEffects = []
        if came_to_end:
            self._refuse_savepoints()
        if (newest := self._completed.pointer()) is not None:
            effects += self._serve(newest, self._with(newest.checkpoint))
            if has_ended:
                return [*effects, *self._serve(newest, self._in("waiting"))]
            if any(asked.wanted.then == "stop" for asked in self._in("done")):
                # no other one will follow, so it serves all
                joins = (asked for asked in self._in("waiting") if asked.wanted.then != "drain")
                effects += self._serve(newest, joins)
                return effects if self.keeping else [*effects, Stopped(newest.checkpoint)]
        if self._may_drain and not is_busy and not self._completed.drains:
            effects.append(Persist((self._completed.drain(),)))
        return effects

    def exported(self, checkpoint: int, name: str, told: pb.SavepointStatus | FabricError) -> bool:
        """A savepoint is there, or could not be made; whether that was asked for."""
        found = [a for a in self._in("keeping") if (a.checkpoint, a.wanted.savepoint)
                 == (checkpoint, name)]  # fmt: skip
        for asked in found:
            if isinstance(told, FabricError):
                self._fail(asked, told)
            else:
                asked.state, asked.savepoint = "done", told
                self._settle(asked)
        return bool(found)

    def end(self, error: FabricError) -> None:
        """The job ends: who was not served won't be. Savepoints are still being made."""
        for asked in list(self._asked.values()):
            asked.wanted = Wanted(key=asked.wanted.key, savepoint=asked.wanted.savepoint)
            if asked.state in ("waiting", "begun"):
                self._fail(asked, error)
            self._settle(asked)

    # ---- inside

    def _serve(self, pointer: Pointer, served: Iterator[_Asked]) -> list[ExportSavepoint]:
        wanted: dict[str, ExportSavepoint] = {}
        for asked in served:
            asked.checkpoint, name = pointer.checkpoint, asked.wanted.savepoint
            asked.state = "keeping" if name else "done"
            if name:
                wanted[name] = ExportSavepoint(
                    name=name, checkpoint=pointer.checkpoint, seal=pointer.seal,
                    again=asked.wanted.again,
                )  # fmt: skip
            self._settle(asked)
        return list(wanted.values())

    def _refuse_savepoints(self) -> None:
        error = ConfigError(
            "the stream came to its end before a savepoint was taken: its sources ended, and all "
            "of its windows are closed, so nothing could go on from one"
        )
        for asked in self._in("waiting", "begun"):
            if asked.wanted.savepoint:
                self._fail(asked, error)

    def _fail(self, asked: _Asked, error: FabricError) -> None:
        asked.state, asked.error = "failed", error
        self._settle(asked)

    def _settle(self, asked: _Asked) -> None:
        """Remember the answer alone, when nothing follows from it any more."""
        over = asked.state == "failed" or (asked.state == "done" and asked.wanted.then == "go on")
        if over and self._asked.pop(asked.wanted.key, None) is not None:
            self._past.append(asked)

    def _in(self, *states: State) -> Iterator[_Asked]:
        return (asked for asked in list(self._asked.values()) if asked.state in states)

    def _with(self, checkpoint: int) -> Iterator[_Asked]:
        return (asked for asked in self._in("begun") if asked.checkpoint == checkpoint)

    def _find(self, key: str) -> _Asked | None:
        past = (asked for asked in self._past if asked.wanted.key == key)
        return self._asked.get(key) or next(past, None)
