"""The checkpoints of one streaming job, from the trigger to what is published.

`Checkpoints` is a state machine. One checkpoint is under way at a time:

    begin (its number is written down) -> sources send barriers -> every task acknowledges
      -> the manifest is stored -> its pointer row is written down: now it is complete
      -> tasks are told, sinks publish -> only then may the next one be completed

It is given up when a task declines, is lost or does not answer in time; the job goes on, and sinks
name what they prepared again with the next one. A manifest that is being stored is waited for.
After a loss the newest checkpoint that proves whole is restored, once all it owes is published; see
`restoration.py`. What comes too late, twice, or from another attempt is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from fabric.checkpoint.manifest import Declined, NodeRecord, Seal, SnapshotAck
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.checkpoints.completed_checkpoints import CompletedCheckpoints, Handles
from fabric.coordinator.core.checkpoints.pending_checkpoint import (
    AbortedCheckpoints,
    PendingCheckpoint,
    RunningTasks,
    TaskRun,
    statuses,
)
from fabric.coordinator.core.checkpoints.requests import AskedCheckpoints, Wanted
from fabric.coordinator.core.checkpoints.restoration import Refuse, Restoration
from fabric.coordinator.core.checkpoints.rows import Pointer
from fabric.coordinator.core.checkpoints.sink_orders import SinkOrders
from fabric.coordinator.core.effects import (
    CheckpointEffects,
    DrainSources,
    Ended,
    Fail,
    Note,
    NotifyAborted,
    NotifyComplete,
    Persist,
    RemoveCheckpoints,
    RemoveJob,
    Stopped,
    TriggerSources,
    WriteManifest,
)
from fabric.coordinator.planner.stages import Key
from fabric.errors import CancelledError, ExternalError, FabricError, FencedError, InternalError


class Checkpoints:
    """Of `job`, whose plan has these `nodes`; `now` is always monotonic seconds.

    Its manifests are those of the job `state`. `refuse` is told why something was not taken,
    `wall_s` gives the wall time at monotonic `now`.
    """

    def __init__(
        self,
        job: str,
        nodes: tuple[NodeRecord, ...],
        config: CheckpointConfig,
        *,
        state: str,
        epoch: int,
        refuse: Refuse,
        wall_s: Callable[[float], float],
    ) -> None:
        self.run = 0
        """How often the job was restarted by somebody; to be set before its tasks start."""
        self._job, self._nodes, self._config, self._epoch = job, nodes, config, epoch
        self._state = state
        self._refuse, self._wall_s = refuse, wall_s
        self._completed = CompletedCheckpoints(job, config.retained)
        self._publishing = SinkOrders()
        self.restoration = Restoration(job, self._completed, refuse, may_double=config.seen_twice)
        """What storage and sinks say while it is decided what to go on from is said to it."""
        self._asked = AskedCheckpoints(self._completed)
        self._tasks = RunningTasks(self._completed)
        self._pending: PendingCheckpoint | None = None
        self._next = math.inf
        self._aborted = AbortedCheckpoints()
        self._is_last = False
        """Whether the newest complete checkpoint is made of last words alone."""
        self._stopping = self._resumed = self._told_end = False

    # ---- asking

    @property
    def newest(self) -> int:
        """The newest complete checkpoint; 0: there is none yet."""
        return self._completed.newest

    @property
    def readable(self) -> Pointer | None:
        """The newest complete one that is not known to be damaged."""
        return self._completed.usable()

    @property
    def settled(self) -> bool:
        """Whether nothing is being stored or published."""
        stores = self._pending and self._pending.manifest
        return self._publishing.done and not stores and not self._asked.keeping

    @property
    def drains(self) -> bool:
        """Whether its sources are to end where they begin."""
        return self._completed.drains

    @property
    def due(self) -> float:
        """When `tick` has something to do."""
        own = self._next if self._pending is None else self._pending.due
        return min(own, self._publishing.due, self.restoration.due)

    def statuses(self, now: float) -> list[pb.CheckpointStatus]:
        """Those that are kept, the last that were aborted, and the one under way, by number."""
        return statuses(self._completed, self._pending, self._aborted, now)

    # ---- what people ask for

    def ask(self, wanted: Wanted, now: float) -> CheckpointEffects:
        """Somebody wants a checkpoint now; of a job that was stopped, the one it was stopped at."""
        self._asked.ask(wanted)
        if self._stopping or self._told_end:
            effects = self._asked.published(
                is_busy=False, has_ended=True, came_to_end=self._told_end
            )
            self._asked.end(CancelledError("the job has ended", job=self._job))
            return effects
        self._next = now if self._tasks.runs else math.inf
        return self.tick(now)

    def knows(self, key: str) -> bool:
        """Whether this was asked for before."""
        return self._asked.knows(key)

    def taken(self, key: str) -> pb.TakenCheckpoint:
        """How far that is, which was asked for under this key."""
        return self._asked.taken(key)

    def exported(
        self, checkpoint: int, name: str, told: pb.SavepointStatus | FabricError, now: float
    ) -> CheckpointEffects:
        """A checkpoint is kept as a savepoint, or could not be."""
        if not self._asked.exported(checkpoint, name, told):
            self._refuse("checkpoint: savepoint not awaited")
            return []
        failed = {"error": told.message} if isinstance(told, FabricError) else {}
        event = "SAVEPOINT NOT WRITTEN" if failed else "savepoint written"
        return [self._note(event, checkpoint, name=name, **failed), *self._advance(now)]

    # ---- the run

    def restored(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Take over the rows that an earlier coordinator, or start, left; before all else."""
        self._completed.restore(rows)
        self._publishing.publish(self._completed.owed())
        self._resumed = True

    def replanned(self, nodes: tuple[NodeRecord, ...]) -> None:
        """No task is at work, and the plan was cut anew: its manifests name these nodes."""
        self._nodes = nodes

    def started(
        self, tasks: Mapping[Key, TaskRun], sources: Collection[Key], now: float
    ) -> CheckpointEffects:
        """All tasks of a run are at work, or still are; `sources` are to be triggered."""
        self._tasks.begin(tasks, sources)
        self.restoration.end()
        self._stopping = False
        self._is_last = self._told_end = False
        self._next = now if self._asked.waits else now + self._config.interval_s
        effects: CheckpointEffects = self._drain()
        if self._resumed:
            if self._completed.last > self.newest:
                reason = "its coordinator is gone"
                self._aborted.last = NotifyAborted(self._completed.last, reason)
            effects += [*self.remind(), *self._resume()]
        return effects + self._advance(now)

    def lost(self, reason: str, now: float) -> CheckpointEffects:
        """The run is over: its tasks will start anew, or end."""
        effects = self._give_up(reason, now)
        self._tasks.end()
        self._next = math.inf
        return effects

    def stop(self, now: float, why: str = "") -> CheckpointEffects:
        """The job ends: nothing is begun any more; what is complete is still published."""
        self._stopping = True
        self.restoration.end()
        effects = self.lost("the job ends", now)
        reason = f": {why}" if why else ""
        message = f"the job ended before the checkpoint was complete{reason}"
        self._asked.end(CancelledError(message, job=self._job))
        if self.drains:  # it can go on from the checkpoint before
            effects.append(Persist((self._completed.drain(drains=False),)))
        return effects

    def release(self, *, keep_files: bool = False) -> CheckpointEffects:
        """Forget the job; `keep_files`: its stream has a name, and may go on from them."""
        self._tasks.end()
        self._pending, self._stopping = None, True
        self.restoration.end()
        self._publishing.begin(0, ())
        self._asked.end(CancelledError("the job was released", job=self._job))
        forgotten = Persist(self._completed.clear())
        return [forgotten] if keep_files else [forgotten, RemoveJob()]

    def remind(self) -> CheckpointEffects:
        """What tasks should know now: they may not have heard it."""
        effects: CheckpointEffects = []
        if self.newest:
            effects.append(NotifyComplete(self.newest))
        if self._aborted.last is not None:
            effects.append(self._aborted.last)
        effects += self._drain()
        pending = self._pending
        if pending is not None and pending.manifest is None:
            effects += self._triggers(pending)
        return effects

    def outstanding(self) -> CheckpointEffects:
        """What was to be published and was not answered: again, wherever it was asked for."""
        return [*self._publishing.all(), *self.restoration.outstanding()]

    def tick(self, now: float) -> CheckpointEffects:
        """Time has passed."""
        effects: CheckpointEffects = [*self._publishing.again(now), *self._serve()]
        pending = self._pending
        if pending is not None and now >= pending.deadline:
            effects += self._late(pending, now)
        elif pending is not None and now >= pending.due:
            effects += self._skip_alignment(pending)
        if self.restoration.is_active and self._pending is None and self._publishing.done:
            effects += self.restoration.go_on(now)
        if self._pending is None and now >= self._next and self._may_begin():
            effects += self._begin(now)
        return effects

    # ---- what tasks say

    def ack(self, ack: SnapshotAck, now: float) -> CheckpointEffects:
        """A task's part is durable."""
        if ack.is_final:
            return self.finished(ack, now)
        if (pending := self._fitting(ack)) is None:
            return []
        pending.acks[ack.key] = ack
        return self._advance(now)

    def declined(self, declined: Declined, now: float) -> CheckpointEffects:
        """A task has no snapshot: the checkpoint is given up, the job goes on."""
        if self._fitting(declined) is None:
            return []
        stage, task = declined.key
        return self._abort(f"task {stage}.{task} declined it: {declined.reason}", now)

    def finished(self, ack: SnapshotAck, now: float) -> CheckpointEffects:
        """A task has ended; what it says stands for every later checkpoint."""
        if (misfit := self._tasks.misfit_of_end(ack)) is not None:
            self._refuse(misfit)
            return []
        return [Persist((self._completed.final(ack),)), *self._advance(now)]

    # ---- what storage and sinks say

    def written(self, checkpoint: int, seal: Seal, now: float) -> CheckpointEffects:
        """The manifest is stored: the checkpoint is complete with the row that says so."""
        pending = self._written(checkpoint)
        if pending is None or pending.manifest is None:
            return []
        seconds, unaligned = now - pending.begun, pending.is_unaligned
        pointer = Pointer.of(pending.manifest, seal, seconds, unaligned=unaligned)
        finals = [ack for ack in pending.acks.values() if ack.is_final]
        self._pending = None
        self._aborted.followed()
        self._pause(pending, now)
        writes = self._completed.complete(pointer, finals)
        self._is_last = len(finals) == len(pending.acks)
        self._publishing.publish(self._completed.owed())
        effects: CheckpointEffects = [Persist(writes)]
        effects += [NotifyComplete(checkpoint)] if self._tasks.runs else []
        note = self._note(
            "checkpoint complete", checkpoint, n_bytes=pointer.n_bytes, seconds=f"{seconds:.3f}"
        )
        effects += [*self.outstanding(), self._removal(checkpoint), note]
        return effects + self._advance(now)

    def not_written(self, checkpoint: int, error: FabricError, now: float) -> CheckpointEffects:
        """The storage refused the manifest; there is none."""
        if (pending := self._written(checkpoint)) is None:
            return []
        if isinstance(error, FencedError):  # what lies there now is of another: it stays
            self._pending = None
            return self._fail(error.at(job=self._job))
        pending.manifest = None
        effects = self._abort(error.message, now, fails=bool(self._tasks.runs))
        if not self._tasks.runs:
            effects += self._completed.abandoned(pending.acks.values(), {})
        return effects + self._advance(now)

    def published(self, checkpoint: int, node: str, now: float) -> CheckpointEffects:
        """A sink's output of a checkpoint is visible."""
        if not self._publishing.answered(checkpoint, node):
            self._refuse("checkpoint: publishing not awaited")
        elif self._publishing.done:
            return [Persist((self._completed.published(checkpoint),)), *self._advance(now)]
        return []

    def not_published(
        self, checkpoint: int, node: str, error: FabricError, now: float
    ) -> CheckpointEffects:
        """A sink refused: it is asked again, unless that can't help."""
        if not self._publishing.failed(checkpoint, node, now):
            self._refuse("checkpoint: publishing not awaited")
            return []
        if not error.retryable:
            return self._fail(error.at(job=self._job, node=node))
        return [self._note("not published", checkpoint, node=node, error=str(error))]

    # ---- restoring

    def restore(self, now: float) -> CheckpointEffects:
        """No task is at work: say from where they start, with `Restore` or `Fail` in the end."""
        if self._tasks.runs:
            raise InternalError(f"job {self._job} has tasks at work and can't be restored")
        self.restoration.begin()
        if self._stopping:  # what its sinks answered after it had ended was not taken
            self._stopping, self._resumed = False, True
        return self._resume() + self._advance(now)

    # ---- inside

    def _resume(self) -> CheckpointEffects:
        """What an earlier coordinator may not have come to; nothing when there was none."""
        resumed, self._resumed = self._resumed, False
        return [self._removal(self._completed.last + 1), *self.outstanding()] if resumed else []

    def _may_begin(self) -> bool:
        tasks = self._tasks
        live = bool(tasks.live_sources()) and self._asked.may_begin and not self.drains
        wanted = live or (tasks.all_ended() and not self._is_last)
        return bool(tasks.runs) and not self._stopping and wanted

    def _begin(self, now: float) -> CheckpointEffects:
        write = self._completed.begin()
        deadline = now + self._config.timeout_s
        wall_us = max(0, int(self._wall_s(now) * 1e6))
        self._pending = pending = PendingCheckpoint(self._completed.last, now, deadline, wall_us)
        self._asked.begun(pending.checkpoint)
        if not self._asked.wants_aligned(pending.checkpoint):
            waits_s = self._asked.waits_s(pending.checkpoint, self._config.unaligned_after_s)
            pending.skip_alignment_at(now + waits_s)
        return [Persist((write,)), *self._triggers(pending), *self._advance(now)]

    def _triggers(self, pending: PendingCheckpoint) -> CheckpointEffects:
        unaligned, tasks = pending.is_unaligned, self._tasks
        live = tasks.unfinished() if unaligned else tasks.live_sources()
        told = tuple(sorted(live - pending.acks.keys()))
        return [TriggerSources(pending.checkpoint, told, unaligned)] if told else []

    def _skip_alignment(self, pending: PendingCheckpoint) -> CheckpointEffects:
        """Have the tasks that it waits for take their snapshots at once, if there are any."""
        pending.skip_alignment_at(-math.inf)
        effects = self._triggers(pending) if pending.manifest is None else []
        pending.skip_alignment_at(-math.inf if effects else math.inf)
        return effects

    def _drain(self) -> CheckpointEffects:
        live = self._tasks.live_sources() if self.drains else ()
        return [DrainSources(tuple(sorted(live)))] if live else []

    def _serve(self) -> CheckpointEffects:
        """What follows for those who asked, once the newest checkpoint is out."""
        if self._stopping or not self._publishing.done or self._has_ended():
            return []
        drained = self.drains
        effects = self._asked.published(is_busy=self._pending is not None, has_ended=False)
        self._stopping = any(isinstance(effect, Stopped) for effect in effects)
        return effects if drained else effects + self._drain()

    def _has_ended(self) -> bool:
        """Whether the newest checkpoint is the last one."""
        return self._is_last and self._tasks.all_ended()

    def _advance(self, now: float) -> CheckpointEffects:
        """What may happen now: store a manifest, begin the last one, restore, end."""
        effects, pending = self._serve(), self._pending
        if pending is not None:
            pending.take_finals(self._completed.finals)
            whole = self._tasks.runs and not pending.missing(self._tasks.runs)
            if pending.manifest is not None or not whole or not self._publishing.done:
                return effects
            manifest = pending.seal(
                job=self._state, epoch=self._epoch, run=self.run, nodes=self._nodes,
                published=self.newest,
            )  # fmt: skip
            return [*effects, WriteManifest(manifest)]
        if not self._publishing.done:
            return effects
        if self.restoration.is_active:
            return effects + self.restoration.go_on(now)
        if self._tasks.all_ended() and not self._stopping:
            return effects + self._end(now)
        return effects

    def _end(self, now: float) -> CheckpointEffects:
        """All tasks have ended: the last checkpoint is made of what they said."""
        if self._is_last:
            already, self._told_end = self._told_end, True
            served = self._asked.published(is_busy=False, has_ended=True, came_to_end=True)
            return served if already else [*served, Ended(self.newest)]
        # after a failure it waits for its time, as any other
        return self._begin(now) if not self._aborted.n_in_a_row or now >= self._next else []

    def _late(self, pending: PendingCheckpoint, now: float) -> CheckpointEffects:
        """A checkpoint's time is over."""
        if pending.manifest is not None:  # nobody can call that back
            pending.deadline = math.inf
            return [self._note("manifest takes long to be stored", pending.checkpoint)]
        missing = pending.missing(self._tasks.runs)
        reason = f"no answer in {self._config.timeout_s:g} s from {missing}"
        if not missing:
            reason = f"checkpoint {self._publishing.checkpoint} is still being published"
        return self._abort(reason, now)

    def _give_up(self, reason: str, now: float) -> CheckpointEffects:
        """The run is over: what was prepared and is in no manifest goes."""
        pending, acks = self._pending, [*self._completed.finals.values()]
        effects: CheckpointEffects = []
        kept: Handles = {}
        if pending is not None and pending.manifest is not None:
            kept = pending.manifest.handles()
        elif pending is not None:
            acks += pending.acks.values()
            effects += self._abort(reason, now, fails=False)
        return effects + self._completed.abandoned(acks, kept)

    def _abort(self, reason: str, now: float, *, fails: bool = True) -> CheckpointEffects:
        """Give up the checkpoint that is under way; the job goes on."""
        pending, self._pending = self._pending, None
        assert pending is not None
        self._aborted.add(pending, reason, now, fails=fails)
        if fails:
            message = f"checkpoint {pending.checkpoint} was not completed: {reason}"
            self._asked.failed(pending.checkpoint, ExternalError(message, job=self._job))
        else:
            self._asked.again(pending.checkpoint)
        self._pause(pending, now)
        effects: CheckpointEffects = []
        if self._tasks.runs:
            self._aborted.last = NotifyAborted(pending.checkpoint, reason)
            effects.append(self._aborted.last)
        event = "checkpoint failed" if fails else "checkpoint aborted"
        note = self._note(event, pending.checkpoint, why=reason)
        effects += [self._removal(pending.checkpoint + 1), note]
        most, n_failures = self._config.failures_max, self._aborted.n_in_a_row
        if fails and most is not None and n_failures > most:
            message = f"{n_failures} checkpoints in a row were not completed: {reason}"
            effects += self._fail(ExternalError(message, job=self._job))
        return effects

    def _fail(self, error: FabricError) -> CheckpointEffects:
        self._stopping = True
        return [Fail(error)]

    def _pause(self, pending: PendingCheckpoint, now: float) -> None:
        if self._tasks.runs:
            config = self._config
            planned = max(pending.begun + config.interval_s, now + config.min_pause_s)
            self._next = now if self._asked.waits else planned

    def _removal(self, below: int) -> RemoveCheckpoints:
        kept = {*self._completed.kept(), *self._asked.keeping}
        return RemoveCheckpoints(tuple(sorted(kept)), below)

    def _fitting(self, said: SnapshotAck | Declined) -> PendingCheckpoint | None:
        """The checkpoint that waits for this, if it does."""
        why = self._tasks.misfit(said, self._pending)
        if why is not None:
            self._refuse(why)
        return self._pending if why is None else None

    def _written(self, checkpoint: int) -> PendingCheckpoint | None:
        """The checkpoint whose manifest is being stored, if it is this one."""
        pending = self._pending
        if pending is None or pending.manifest is None or pending.checkpoint != checkpoint:
            self._refuse("checkpoint: manifest not awaited")
            return None
        return pending

    def _note(self, event: str, checkpoint: int, **fields: str | int) -> Note:
        return Note(event, (("job", self._job), ("checkpoint", checkpoint), *fields.items()))
