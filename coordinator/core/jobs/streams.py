"""The streams among the jobs: begun from a checkpoint, checkpointed, begun again, ended.

`Streams` tells the checkpoints of each stream what agents and storage say; what they want done goes
by `checkpoint_orders.py`. All tasks of a stream are one region: they run together, and when one is
lost all of them begin again from the newest checkpoint that is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fabric.checkpoint.codec import decode_snapshot_ack
from fabric.checkpoint.manifest import Declined, Seal
from fabric.control import control_pb2 as pb
from fabric.control.api import STATES
from fabric.control.errors import from_detail
from fabric.coordinator.core.agents.agents import Agent, Agents, Announcer
from fabric.coordinator.core.agents.validation import wrong_ack
from fabric.coordinator.core.checkpoints.checkpoints import Checkpoints
from fabric.coordinator.core.checkpoints.pending_checkpoint import TaskRun
from fabric.coordinator.core.checkpoints.requests import Wanted
from fabric.coordinator.core.checkpoints.rows import last_row, pointer_row
from fabric.coordinator.core.effects import CheckpointEffects, Effect
from fabric.coordinator.core.events import (
    CheckpointAsked,
    CheckpointVerified,
    JobReplanned,
    ManifestWritten,
    SavepointWritten,
    Stored,
    StreamStart,
)
from fabric.coordinator.core.jobs.checkpoint_orders import CheckpointOrders, is_in, turn_of
from fabric.coordinator.core.jobs.endings import Endings
from fabric.coordinator.core.jobs.job_registry import JobRegistry
from fabric.coordinator.core.jobs.jobs import Job, Leaving, Stream
from fabric.coordinator.core.jobs.latency import shares
from fabric.coordinator.core.jobs.watermark_alignment import WatermarkAlignment
from fabric.coordinator.core.scheduling.rescale import may_switch, switch
from fabric.coordinator.planner.node_records import node_records
from fabric.coordinator.planner.placement import place
from fabric.coordinator.planner.stages import Key
from fabric.coordinator.planner.states import node_states
from fabric.errors import ConfigError, FabricError

LAST_CHECKPOINT_S = 10.0
"""How long tasks that are to leave may take for a last checkpoint."""


def check_whole(job: Job, stages: Iterable[int], path: str) -> None:
    """Refuse to restart a part of a stream."""
    stream = job.stream
    if stream is not None and any(job.graph.stages[s].region == stream.region for s in stages):
        raise ConfigError(
            f"{path!r} of job {job.job_id} is part of a stream, which goes on from its last "
            "checkpoint as a whole: restart the job without a node; for all its rows once more, "
            "submit it again"
        )


class Streams:
    """Every job of `registry` that has a stream in it; `refuse` counts what is not taken."""

    def __init__(
        self,
        registry: JobRegistry,
        agents: Agents,
        announcer: Announcer,
        endings: Endings,
        refuse: Callable[[str], list[Effect]],
    ) -> None:
        self._registry, self._agents, self._announcer = registry, agents, announcer
        self._refuse = refuse
        self._orders = CheckpointOrders(registry, agents, announcer, endings)
        endings.on_stop, endings.on_drop = self._stops, self._drops

    # ---- life

    def add(self, job: Job) -> None:
        """A job came, or was read back: it may have a stream."""
        region = job.graph.stream_region
        if region is None:
            return
        checkpoints = Checkpoints(
            job.job_id,
            node_records(job.graph),
            job.checkpoint,
            state=job.state_id,
            epoch=self._registry.epoch,
            refuse=self._refuse,
            wall_s=self._registry.wall_s,
        )
        job.stream = Stream(region, checkpoints)

    def goes_on(self, job: Job, start: StreamStart) -> None:
        """A stream with a name is there again, with what an earlier start of it left."""
        assert job.stream is not None
        last, pointers = last_row(job.job_id, start.last), start.pointers
        writes = (last, *(pointer_row(job.job_id, pointer) for pointer in pointers))
        self._registry.write(*writes)
        rows = [(write.key, write.value) for write in writes if write.value is not None]
        job.stream.checkpoints.restored(rows)

    def read_back(self, rows: Iterable[tuple[str, bytes]], now: float) -> list[Effect]:
        """An earlier coordinator wrote down these checkpoints; what ran perhaps still runs."""
        by_job: dict[str, list[tuple[str, bytes]]] = {}
        for key, value in rows:
            by_job.setdefault(key.partition("/")[0], []).append((key, value))
        effects: list[Effect] = []
        for job in self._registry.jobs.values():
            self.add(job)
            if job.stream is not None:
                job.stream.checkpoints.restored(by_job.get(job.job_id, ()))
                effects += self.started(job, now) if job.active else []
                effects += self._stops(job, now) if job.stopping is not None else []
        return effects

    def go_on(self, now: float) -> list[Effect]:
        """Have the streams that are to begin, or to begin again, find what they begin from."""
        effects: list[Effect] = []
        for job in self._registry.active():
            stream = job.stream
            if stream is None or job.stopping is not None:
                continue
            if job.replanned is not None and may_switch(job):
                effects += self._switch(job, job.replanned, now)
            if stream.phase != "quiet" or job.replanned is not None:
                continue
            if job.is_quiet(stream.region):
                stream.phase = "restoring"
                effects += self._orders.follow(job, stream.checkpoints.restore(now), now)
        return effects

    def _switch(self, job: Job, new: JobReplanned, now: float) -> list[Effect]:
        """Nothing is left of the tasks of a job that was replanned, so others take over."""
        slots = {agent.agent_id: agent.hello.slots for agent in self._agents.attached()}
        if not slots:  # it goes on when there is one
            return []
        placement = place(new.graph, slots, 0, self._registry.config.placement)
        gone = switch(job, new, placement)
        self._registry.replanned(job, gone)
        note = self._registry.note(
            now, "job rescaled", job=job.job_id, parallelism=job.parallelism, tasks=len(job.tasks)
        )
        self._announcer.outdated = True  # the job has other edges
        return [*note, *self._registry.changed(job, now)]

    def started(self, job: Job, now: float) -> list[Effect]:
        """All tasks of the stream were given to agents."""
        stream = job.stream
        if stream is None or stream.phase == "running" or not job.all_given(stream.region):
            return []
        stream.phase, stream.checkpoints.run, job.rescaling = "running", job.run, 0
        runs = {
            key: TaskRun(task.attempt, task.epoch)
            for key, task in job.tasks.items()
            if is_in(job, stream, key)
        }
        sources = [key for key in runs if job.graph.stages[key[0]].reads_stream]
        effects = stream.checkpoints.started(runs, sources, now)
        return self._orders.follow(job, effects, now)

    def lost(self, job: Job, keys: Iterable[Key], reason: str, now: float) -> list[Effect]:
        """Attempts of these tasks are over, and others will follow."""
        stream = job.stream
        if stream is None or not any(is_in(job, stream, key) for key in keys):
            return []
        stream.phase, stream.manifest, stream.seal = "quiet", None, None
        stream.alignment, stream.leaving = WatermarkAlignment(), None
        return self._orders.follow(job, stream.checkpoints.lost(reason, now), now)

    def _stops(self, job: Job, now: float) -> list[Effect]:
        """The job was cancelled, or has failed."""
        if (stream := job.stream) is None:
            return []
        job.replanned, job.rescaling, stream.leaving = None, 0, None
        if stream.phase in ("restoring", "ready"):  # a restart finds anew what to begin from
            stream.phase, stream.manifest, stream.seal = "quiet", None, None
        error = None if job.stopping is None else job.stopping.error
        why = "it was stopped" if error is None else error.message
        return self._orders.follow(job, stream.checkpoints.stop(now, why), now)

    def _drops(self, job: Job, now: float) -> list[Effect]:
        """Nobody asks for it any more."""
        if job.stream is None:
            return []
        forgotten = job.stream.checkpoints.release(keep_files=job.origin is not None)
        return self._orders.follow(job, forgotten, now)

    def tick(self, now: float) -> list[Effect]:
        """Let time pass; a job that is stopping still publishes what is complete."""
        return self._each(lambda checkpoints: checkpoints.tick(now), now)

    def _each(self, tell: Callable[[Checkpoints], CheckpointEffects], now: float) -> list[Effect]:
        """What follows from what the checkpoints of every stream are told."""
        effects: list[Effect] = []
        for job in self._registry.active():
            if job.stream is not None:
                effects += self._orders.follow(job, tell(job.stream.checkpoints), now)
        return effects

    # ---- before its tasks leave

    def take_last(self, job: Job, now: float) -> list[Effect]:
        """Have a stream whose tasks are to leave take a checkpoint first, if they run."""
        stream = job.stream
        assert stream is not None
        if stream.phase != "running":
            return []
        wanted = Wanted(key=f"rescale at {now}", hurries=True)
        asked = stream.checkpoints.ask(wanted, now)
        stream.leaving = Leaving(wanted.key, now + LAST_CHECKPOINT_S)
        return self._orders.follow(job, asked, now)

    def may_leave(self, job: Job, now: float) -> bool:
        """Whether tasks that are to leave have waited long enough for their last checkpoint."""
        stream = job.stream
        if stream is None or (leaving := stream.leaving) is None:
            return False
        taken = stream.checkpoints.taken(leaving.asked).state in ("done", "failed")
        return taken or now >= leaving.deadline

    # ---- what people ask for

    def ask(self, event: CheckpointAsked, now: float) -> list[Effect]:
        """Have a stream take a checkpoint now; one that was stopped has taken its last."""
        job, wanted = self._registry.live(event.job_id), event.wanted
        if job.stream is None:
            raise ConfigError(
                f"job {job.job_id} is no stream: it takes no checkpoints, and ends by itself; "
                "cancel() ends it now",
                job=job.job_id,
            )
        if job.stream.checkpoints.knows(wanted.key):
            return []
        goes_on = job.active and job.stopping is None
        if not goes_on and (not job.stopped_at or wanted.then == "drain"):
            state = STATES[job.state if job.stopping is None else job.stopping.state]
            if job.stopped_at:
                state = f"stopped at checkpoint {job.stopped_at}"
            raise ConfigError(
                f"job {job.job_id} is {state}: a stream takes checkpoints as long as it runs",
                job=job.job_id,
            )
        about: dict[str, str | int] = {"savepoint": wanted.savepoint} if wanted.savepoint else {}
        says = "checkpoint" if wanted.then == "go on" else wanted.then
        effects = self._registry.note(now, f"{says} asked", job=job.job_id, **about)
        return effects + self._orders.follow(job, job.stream.checkpoints.ask(wanted, now), now)

    # ---- what agents and storage say

    def checkpointed(self, agent: Agent, report: pb.Checkpointed, now: float) -> list[Effect]:
        """A task has stored its part of a checkpoint, or has none."""
        job, task = self._registry.find(report.key)
        if job is None or job.stream is None or task is None or not job.active:
            return self._refuse("checkpoint of an unknown task")
        if task.agent_id != agent.agent_id or task.attempt != report.key.attempt:
            return self._refuse("checkpoint of an old attempt")
        if report.ack and (why := wrong_ack(report.key, report.ack)) is not None:
            return self._refuse(why)
        checkpoints = job.stream.checkpoints
        if report.HasField("declined"):
            error = from_detail(report.declined)
            key = report.key
            declined = Declined(
                report.checkpoint, key.stage, key.task, task.attempt, key.epoch, error.message
            )
            return self._orders.follow(job, checkpoints.declined(declined, now), now)
        return self._orders.follow(job, checkpoints.ack(decode_snapshot_ack(report.ack), now), now)

    def slowest(self, agent: Agent, report: pb.SlowestSplit) -> list[Effect]:
        """A task says how far its slowest split is; it hears how far those of the others are."""
        job, task = self._registry.find(report.key)
        if job is None or job.stream is None or task is None or not job.active:
            return self._refuse("slowest split of an unknown task")
        if task.agent_id != agent.agent_id or task.attempt != report.key.attempt or task.ended:
            return self._refuse("slowest split of an old attempt")
        if not job.stream.alignment.takes(report.node_path):
            return self._refuse("slowest split of an unknown node")
        key = (report.key.stage, report.key.task)
        least = job.stream.alignment.report(report.node_path, key, report.time_us)
        others = pb.SlowestSplit(key=report.key, node_path=report.node_path, time_us=least)
        return self._announcer.send(agent.agent_id, pb.CoordinatorMessage(others=others))

    def finished(self, job: Job, report: pb.TaskReport, now: float) -> list[Effect]:
        """A task of a stream has ended wholly."""
        if job.stream is None or not report.ack:
            return []
        job.stream.alignment.remove((report.key.stage, report.key.task))
        effects = job.stream.checkpoints.finished(decode_snapshot_ack(report.ack), now)
        return self._orders.follow(job, effects, now)

    def sink_report(self, job: Job, report: pb.SinkReport, now: float) -> list[Effect]:
        """What a checkpoint has prepared was published, or taken back, or not."""
        stream = job.stream
        if stream is None:
            return self._refuse("sink not asked")
        node, published = report.node_path, report.HasField("published")
        number = (report.published if published else report.taken_back).checkpoint
        checkpoints, error = stream.checkpoints, None
        if report.HasField("error"):
            error = from_detail(report.error).at(job=job.job_id, node=node)
        if published and error is not None:
            effects = checkpoints.not_published(number, node, error, now)
        elif published:
            effects = checkpoints.published(number, node, now)
        elif error is not None:
            effects = checkpoints.restoration.not_taken_back(number, node, error, now)
        else:
            effects = checkpoints.restoration.taken_back(number, node, now)
        return self._orders.follow(job, effects, now)

    def stored(self, event: Stored, now: float) -> list[Effect]:
        """A manifest or a savepoint lies in the storage, or a checkpoint is whole; or neither."""
        job = self._registry.jobs.get(event.job_id)
        if job is None or job.stream is None:
            return []
        checkpoints, number = job.stream.checkpoints, event.checkpoint
        match event:
            case ManifestWritten(result=Seal() as seal):
                effects = checkpoints.written(number, seal, now)
            case ManifestWritten(result=FabricError() as error):
                effects = checkpoints.not_written(number, error, now)
            case CheckpointVerified(result=FabricError() as error):
                effects = checkpoints.restoration.not_verified(number, error, now)
            case CheckpointVerified(result=(manifest, seal)):
                job.stream.seal = seal
                effects = checkpoints.restoration.verified(number, manifest, now)
            case SavepointWritten(name=name, result=told):
                effects = checkpoints.exported(number, name, told, now)
        return self._orders.follow(job, effects, now)

    def attached(self, now: float) -> list[Effect]:
        """Tell agents again what the tasks of one that attached may not have heard."""
        return self._each(lambda told: [*told.remind(), *told.outstanding()], now)

    def agent_lost(self, now: float) -> list[Effect]:
        """Publishing may be repeated, so another agent finishes what a lost one began."""
        return self._each(Checkpoints.outstanding, now)

    # ---- what is to be done

    def deploy(self, job: Job, stage: int) -> pb.StreamDeploy | None:
        """What tasks of a stage of a stream are told when they begin."""
        stream = job.stream
        if stream is None:
            return None
        share = shares(job.graph, job.latency_us)[stage]
        deploy = pb.StreamDeploy(
            folder=job.checkpoint.folder,
            state=job.state_id,
            turn=turn_of(job, stream),
            drain=stream.checkpoints.drains,
            held_bytes_max=job.checkpoint.held_bytes_max,
            states=node_states(job.graph, job.graph.stages[stage], job.checkpoint),
            source_gather_s=share.source_s,
            exchange_gather_s=share.exchange_s,
            exchange_behind_s=share.behind_s,
        )
        if stream.manifest is not None and stream.seal is not None:
            deploy.checkpoint = stream.manifest.checkpoint
            deploy.seal_bytes, deploy.seal_crc32c = stream.seal.n_bytes, stream.seal.crc32c
        return deploy
