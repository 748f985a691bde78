"""The coordinator: the handlers of the control verbs, over the core at work.

`CoordinatorRuntime` answers `ControlApi` and takes agents' links. What verbs have in common, the
lock, the thread and the store, is in `driver.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fabric.checkpoint.places import storage_at
from fabric.clock import Clock
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.control.api import ControlApi
from fabric.coordinator.config import CoordinatorConfig, chosen
from fabric.coordinator.core.effects import DatasetAnswered
from fabric.coordinator.core.events import (
    AgentDrained,
    CheckpointAsked,
    DatasetAsked,
    Event,
    JobCancelled,
    JobReleased,
    JobReplanned,
    JobRestarted,
    JobSubmitted,
)
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.messages import page
from fabric.coordinator.core.scheduling.rescale import check_rescale
from fabric.coordinator.metadata.store import MetadataStore
from fabric.coordinator.planner.draft import MAX_PARALLELISM
from fabric.coordinator.planner.picture import explain
from fabric.coordinator.runtime.checkpoint_files import listed
from fabric.coordinator.runtime.driver import CoreDriver
from fabric.coordinator.runtime.log import Log
from fabric.coordinator.runtime.savepoints import Keeper, wanted_of
from fabric.coordinator.submit.preparation import Prepared, prepare
from fabric.coordinator.submit.splits import Surroundings
from fabric.coordinator.submit.stream_names import Found, look_at
from fabric.errors import ConfigError, PlanError
from fabric.ids import new_id
from fabric.security.tokens import Signer


class CoordinatorRuntime(CoreDriver, ControlApi):
    """A running coordinator; `start` it, `close` it, or use it as a context manager.

    >>> with CoordinatorRuntime(embedded=True) as runtime:
    ...     len(runtime.list_agents(pb.ListRequest()).agents)
    0
    """

    def __init__(
        self,
        store: MetadataStore | None = None,
        clock: Clock | None = None,
        embedded: bool = False,
        *,
        config: CoordinatorConfig | None = None,
        log: Log | None = None,
        signer: Signer | None = None,
        epoch: int = 0,
    ) -> None:
        """`epoch` was begun for `store` already; 0: begin one."""
        self._signer, self._embedded = signer, embedded
        super().__init__(store, clock, config, log, embedded=embedded, epoch=epoch)

    def submit(self, request: pb.SubmitRequest) -> pb.JobStatus:
        """See `ControlApi.submit`."""
        with self._reading() as (core, _):
            known = core.registry.job_of_key(request.client_key)
        if known is not None:
            return self.status(pb.JobRequest(job_id=known))
        checkpoint = self._config.checkpointing(request.checkpoint)
        if not request.HasField("stream"):
            return self._submitted(request, checkpoint, self._prepare(request))
        self._settle()
        with self._names.starting(request.stream, checkpoint, self._running) as found:
            prepared = self._prepare(request, found)
            found.go_on(prepared.graph)
            return self._submitted(request, checkpoint, prepared, found)

    def _submitted(
        self,
        request: pb.SubmitRequest,
        checkpoint: CheckpointConfig,
        prepared: Prepared,
        found: Found | None = None,
    ) -> pb.JobStatus:
        """Start a job, or the one that was `found` under the name of a stream."""
        if request.reactive and prepared.graph.stream_region is None:
            raise ConfigError(
                'parallelism="slots" is for streams, which run for long, and this plan reads none; '
                "give a number, or leave it out"
            )
        event = JobSubmitted(
            job_id=new_id("job") if found is None else found.job,
            name=request.name[:256] or "job",
            client_key=request.client_key,
            graph=prepared.graph,
            fragments=prepared.fragments(),
            schema=bytes(prepared.schema.serialize()),
            wall_s=self._clock.wall_s(),
            adaptive=chosen(request.adaptive, self._config.adaptive),
            checkpoint=checkpoint,
            latency_us=self._config.latency_us(request),
            stream=None if found is None else found.start,
            plan=request.plan if prepared.graph.stream_region is not None else b"",
            parallelism=prepared.parallelism,
            reactive=request.reactive,
        )
        with self._changed(event) as (_, now):
            job_id = self._core.registry.job_of_key(request.client_key) or event.job_id
            return self._core.registry.status(job_id, now)

    def _running(self, folder: str, name: str) -> str:
        with self._reading() as (core, _):
            return core.registry.stream_job(folder, name)

    def explain(self, request: pb.SubmitRequest) -> pb.ExplainReply:
        """See `ControlApi.explain`."""
        checkpoint = self._config.checkpointing(request.checkpoint)
        found = look_at(request.stream, checkpoint) if request.HasField("stream") else None
        prepared = self._prepare(request, found)
        upgrade = None if found is None else found.compare(prepared.graph)
        return prepared.explain(checkpoint, upgrade)

    def watch(self, request: pb.JobRequest) -> Iterator[pb.JobStatus]:
        """See `ControlApi.watch`."""
        self.status(request)  # an unknown job is refused here, not at the first step
        return self.watching(request.job_id, lambda: self.status(request))

    def cancel(self, request: pb.JobRequest) -> pb.JobStatus:
        """See `ControlApi.cancel`."""
        return self._ask(request, JobCancelled(request.job_id, "the job was cancelled"))

    def release(self, request: pb.JobRequest) -> pb.JobStatus:
        """See `ControlApi.release`."""
        return self._ask(request, JobReleased(request.job_id))

    def restart(self, request: pb.RestartRequest) -> pb.JobStatus:
        """See `ControlApi.restart`."""
        event = JobRestarted(request.job_id, request.from_path)
        return self._ask(pb.JobRequest(job_id=request.job_id), event)

    def rescale(self, request: pb.RescaleRequest) -> pb.JobStatus:
        """See `ControlApi.rescale`."""
        parallelism, follows = request.parallelism, False
        with self._reading() as (core, _):
            job = core.registry.live(request.job_id)
            if request.reactive:
                parallelism = min(MAX_PARALLELISM, max(1, core.slots_for(job)))
                follows = job.reactivity is not None and job.active
        if not follows:  # else it does already
            self._replan(job.job_id, parallelism, reactive=request.reactive)
        return self.status(pb.JobRequest(job_id=request.job_id))

    def _replan(self, job_id: str, parallelism: int, *, reactive: bool) -> None:
        with self._reading() as (core, _):
            job = core.registry.live(job_id)
            check_rescale(job, parallelism)
            there, follows = job.rescaling or job.parallelism, job.reactivity is not None
        if (parallelism, reactive) == (there, follows):
            return
        submitted = pb.SubmitRequest(plan=job.plan, parallelism=parallelism)
        prepared = self._prepare(submitted, rescaled=job)
        event = JobReplanned(job_id, parallelism, prepared.graph, prepared.fragments(), reactive)
        with self._changed(event):
            pass

    def drain(self, request: pb.AgentRequest) -> pb.AgentStatus:
        """See `ControlApi.drain`."""
        return self._drained(AgentDrained(request.agent_id))

    def undrain(self, request: pb.AgentRequest) -> pb.AgentStatus:
        """See `ControlApi.undrain`."""
        return self._drained(AgentDrained(request.agent_id, undo=True))

    def list_tasks(self, request: pb.JobRequest) -> pb.TaskList:
        """See `ControlApi.list_tasks`."""
        with self._reading() as (core, _):
            return pb.TaskList(tasks=core.registry.tasks(request.job_id))

    def list_checkpoints(self, request: pb.CheckpointsRequest) -> pb.CheckpointList:
        """See `ControlApi.list_checkpoints`."""
        with self._reading() as (core, now):
            job = core.registry.live(request.job_id)
            found = [] if job.stream is None else job.stream.checkpoints.statuses(now)
            folder, state = job.checkpoint.folder, job.state_id
        return listed(found, request, state, storage_at(folder))

    def take_checkpoint(self, request: pb.TakeCheckpointRequest) -> pb.TakenCheckpoint:
        """See `ControlApi.take_checkpoint`."""
        wanted = wanted_of(request)
        with self._reading() as (core, _):
            job = core.registry.live(request.job_id)
            known = job.stream is not None and job.stream.checkpoints.knows(wanted.key)
        if wanted.savepoint and job.stream is not None and not (known or wanted.again):
            Keeper(job.checkpoint.folder).check_free(wanted.savepoint)
        with self._changed(CheckpointAsked(job.job_id, wanted)):
            assert job.stream is not None  # or it was refused
            return job.stream.checkpoints.taken(wanted.key)

    def list_savepoints(self, request: pb.SavepointsRequest) -> pb.SavepointList:
        """See `ControlApi.list_savepoints`."""
        return self._keeper(request).listed(request.name)

    def delete_savepoint(self, request: pb.SavepointsRequest) -> pb.SavepointList:
        """See `ControlApi.delete_savepoint`."""
        return self._keeper(request).deleted(request.name)

    def list_streams(self, request: pb.StreamsRequest) -> pb.StreamList:
        """See `ControlApi.list_streams`."""
        self._settle()  # a job that has just ended lets go of its name
        return self._keeper(request).streams()

    def drop_stream(self, request: pb.StreamsRequest) -> pb.StreamList:
        """See `ControlApi.drop_stream`."""
        self._settle()
        return self._keeper(request).dropped(request.name)

    def _keeper(self, request: pb.SavepointsRequest | pb.StreamsRequest) -> Keeper:
        return Keeper(self._config.checkpointing(request.checkpoint).folder)

    def job_plan(self, request: pb.JobRequest) -> pb.ExplainReply:
        """See `ControlApi.job_plan`."""
        with self._reading() as (core, _):
            job = core.registry.live(request.job_id)
            graph, checkpoint = job.graph, job.checkpoint
        return explain(graph, checkpoint)

    def list_events(self, request: pb.EventsRequest) -> pb.EventList:
        """See `ControlApi.list_events`."""
        with self._reading() as (core, _):
            return core.registry.events(request)

    def status(self, request: pb.JobRequest) -> pb.JobStatus:
        """One job's status now; `NotFoundError` when it is unknown."""
        with self._reading(settled=True) as (core, now):
            return core.registry.status(request.job_id, now)

    def list_jobs(self, request: pb.ListRequest) -> pb.JobList:
        """See `ControlApi.list_jobs`."""
        with self._reading(settled=True) as (core, now):
            jobs = core.registry.statuses(now)
        return page(jobs, request)

    def list_agents(self, request: pb.ListRequest) -> pb.AgentList:
        """See `ControlApi.list_agents`."""
        with self._reading() as (core, now):
            return pb.AgentList(agents=core.agents.all(now, lost=request.lost))

    def locate(self, request: pb.LocateRequest) -> pb.Locations:
        """See `ControlApi.locate`."""
        with self._reading(settled=True) as (core, _):
            return core.locate(request)

    def dataset(self, request: pb.DatasetRequest) -> pb.DatasetReply:
        """See `ControlApi.dataset`."""
        with self._changed(DatasetAsked(request, new_id("tx"))) as (effects, _):
            (reply,) = (effect.reply for effect in effects if isinstance(effect, DatasetAnswered))
        return reply

    def _prepare(
        self,
        request: pb.SubmitRequest,
        found: Found | None = None,
        rescaled: Job | None = None,
    ) -> Prepared:
        """Of a stream that was `found` under its name, or that runs and is to be `rescaled`."""
        with self._reading() as (core, _):
            agents = core.agent_hellos()
            parallelism = 1 if self._embedded else max(1, len(agents))
            if request.reactive:
                parallelism = min(MAX_PARALLELISM, max(1, core.slots_for(None)))
            around = Surroundings(
                parallelism=parallelism,
                n_cpus=max(1, sum(hello.cpus for hello in agents)),
                embedded=self._embedded,
                datasets={found.name: found for found in core.datasets.all()},
                agents=frozenset(hello.agent_id for hello in agents),
                broadcast_bytes=chosen(request.adaptive, self._config.adaptive).broadcast_bytes,
                ask_s=self._config.ask_s, running=core.registry.running,
                interval_s=self._config.checkpointing(request.checkpoint).interval_s,
                stream=request.stream.name, goes_on="" if found is None else found.goes_on,
            )  # fmt: skip
        if rescaled is not None:
            around = replace(
                around, running=around.running - {rescaled.job_id}, goes_on=rescaled.state_id,
                stream="" if rescaled.origin is None else rescaled.origin.name,
                broadcast_bytes=rescaled.adaptive.broadcast_bytes,
                interval_s=rescaled.checkpoint.interval_s,
            )  # fmt: skip
        try:
            return prepare(request, around, self._config.plan_bytes_max, self._signer)
        except RecursionError:
            raise PlanError("the plan nests too deeply; compute parts in earlier steps") from None

    def _ask(self, request: pb.JobRequest, event: Event) -> pb.JobStatus:
        with self._changed(event) as (_, now):
            return self._core.registry.status(request.job_id, now)

    def _drained(self, event: AgentDrained) -> pb.AgentStatus:
        with self._changed(event) as (_, now):
            return self._core.agents.one(event.agent_id, now)
