"""What the checkpoints of a stream want done, as messages to agents and work for storage.

`CheckpointOrders` carries out the effects of `Checkpoints`: barriers, the word that a checkpoint is
complete or given up, and orders to sinks go to agents, files to the storage, rows to the registry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.agents.agents import Agents, Announcer
from fabric.coordinator.core.effects import (
    Abandon,
    CheckpointEffect,
    DrainSources,
    Effect,
    Ended,
    ExportSavepoint,
    Fail,
    Note,
    NotifyAborted,
    NotifyComplete,
    Persist,
    Publish,
    RemoveCheckpoints,
    RemoveJob,
    Restore,
    Stopped,
    StorageWork,
    TakeBack,
    TriggerSources,
    Verify,
    Work,
    WriteManifest,
)
from fabric.coordinator.core.jobs.endings import Endings
from fabric.coordinator.core.jobs.job_registry import JobRegistry
from fabric.coordinator.core.jobs.jobs import Job, Stream
from fabric.coordinator.core.jobs.messages import attempt_key, sink_message
from fabric.coordinator.planner.picture import joined
from fabric.coordinator.planner.stages import Key
from fabric.plan.printer import tree


class CheckpointOrders:
    """Of all streams of `registry`."""

    def __init__(
        self, registry: JobRegistry, agents: Agents, announcer: Announcer, endings: Endings
    ) -> None:
        self._registry, self._agents, self._announcer = registry, agents, announcer
        self._endings = endings

    def follow(self, job: Job, wanted: Iterable[CheckpointEffect], now: float) -> list[Effect]:
        """The effects of a coordinator that carry out those of a job's checkpoints."""
        return [effect for one in wanted for effect in self._one(job, one, now)]

    def _one(self, job: Job, wanted: CheckpointEffect, now: float) -> list[Effect]:
        stream = job.stream
        assert stream is not None
        match wanted:
            case Persist(writes=writes):
                self._registry.write(*writes)
                return []
            case WriteManifest() | Verify() | RemoveCheckpoints() | RemoveJob():
                return [self._work(job, wanted)]
            case ExportSavepoint():
                kept = replace(
                    wanted, stream="" if job.origin is None else job.origin.name,
                    job_name=job.name, plan=tree(joined(job.graph)),
                    created_us=max(0, int(self._registry.wall_s(now) * 1e6)),
                )  # fmt: skip
                return [self._work(job, kept)]
            case Stopped(checkpoint=number):
                return self._endings.stop_at(job, number, now) if job.stopping is None else []
            case Restore(manifest=manifest):
                stream.phase, stream.manifest = "ready", manifest
                return []
            case Fail(error=error):
                if job.stopping is not None:  # for another reason; what is owed stays unpublished
                    return self._registry.note(
                        now, "not published", job=job.job_id, error=str(error)
                    )
                return self._endings.stop(job, pb.JOB_FAILED, error, now)
            case Ended():
                stream.phase, stream.leaving = "ended", None
                job.replanned, job.rescaling = None, 0
                return self._registry.changed(job, now)
            case Note(event=event, fields=fields):
                return self._registry.note(now, event, **{**dict(fields), "job": job.job_id})
            case _:
                return self._tell(job, stream, wanted)

    def _work(self, job: Job, work: Work) -> StorageWork:
        folder, epoch = job.checkpoint.folder, self._registry.epoch
        return StorageWork(job.job_id, folder, job.state_id, work, epoch)

    def _tell(self, job: Job, stream: Stream, wanted: CheckpointEffect) -> list[Effect]:
        match wanted:
            case TriggerSources(checkpoint=number, tasks=keys, unaligned=unaligned):
                trigger = pb.TriggerCheckpoint(checkpoint=number, unaligned=unaligned)
                return self._trigger(job, keys, trigger)
            case DrainSources(tasks=keys):
                return self._trigger(job, keys, pb.TriggerCheckpoint(drain=True))
            case NotifyComplete(checkpoint=number):
                job.forgive(stream.region)
                return self._over(job, stream, number, complete=True)
            case NotifyAborted(checkpoint=number, reason=reason):
                return self._over(job, stream, number, complete=False, reason=reason)
            case Publish(checkpoint=number, node=node, handles=handles):
                publish = pb.SinkPublish(checkpoint=number)
                return self._sink(job, node, pb.SinkCommand(publish=publish, handles=handles))
            case TakeBack(checkpoint=number, node=node, handles=handles, kept=kept):
                take_back = pb.SinkTakeBack(checkpoint=number, kept=kept)
                return self._sink(job, node, pb.SinkCommand(take_back=take_back, handles=handles))
            case Abandon(node=node, handles=handles, kept=kept):
                drop = pb.SinkDrop(kept=kept)
                return self._sink(job, node, pb.SinkCommand(drop=drop, handles=handles))
        return []

    def _trigger(self, job: Job, keys: Iterable[Key], order: pb.TriggerCheckpoint) -> list[Effect]:
        by_agent: dict[str, list[pb.TaskKey]] = {}
        for key in keys:
            task = job.tasks[key]
            by_agent.setdefault(task.agent_id, []).append(attempt_key(job, key, task))
        effects: list[Effect] = []
        for agent_id, named_keys in sorted(by_agent.items()):
            message = pb.CoordinatorMessage(trigger=order)
            message.trigger.job_id = job.job_id
            message.trigger.keys.extend(named_keys)
            effects += self._announcer.send(agent_id, message)
        return effects

    def _over(
        self, job: Job, stream: Stream, number: int, *, complete: bool, reason: str = ""
    ) -> list[Effect]:
        ended = pb.CheckpointEnded(
            job_id=job.job_id, checkpoint=number, complete=complete, reason=reason[:1024],
            turn=turn_of(job, stream),
        )  # fmt: skip
        agents = {t.agent_id for k, t in job.tasks.items() if t.active and is_in(job, stream, k)}
        effects: list[Effect] = []
        for agent_id in sorted(agents):
            effects += self._announcer.send(agent_id, pb.CoordinatorMessage(ended=ended))
        return effects

    def _sink(self, job: Job, node: str, command: pb.SinkCommand) -> list[Effect]:
        """Have an agent do this with what tasks prepared; without any agent it waits for one."""
        stage = next(s.stage for s in job.graph.stages if s.is_sink and s.path == node)
        asked = self._agents.attached_or_first(job.tasks[stage, 0].agent_id)
        if asked is None:
            return []
        return self._announcer.send(asked, sink_message(job, stage, command))


def is_in(job: Job, stream: Stream, key: Key) -> bool:
    """Whether a task is one of the stream."""
    return job.graph.stages[key[0]].region == stream.region


TURNS = 100_000
"""How often the tasks of a stream may begin anew before its program is started again."""


def turn_of(job: Job, stream: Stream) -> int:
    """Grows each time the tasks of a stream begin anew: each then has its next attempt.

    A program that is started again counts its attempts anew, and its sinks must not meet the names
    that an earlier start gave to what it wrote aside.
    """
    start = job.origin.start if job.origin is not None else 0
    return start * TURNS + 1 + max(t.attempt for k, t in job.tasks.items() if is_in(job, stream, k))
