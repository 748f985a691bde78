"""What a coordinator knows of its jobs, and what of it is to be written down.

`JobRegistry` has the jobs that live, the statuses of those that are over, keys of clients, events;
and the records that `take_writes` hands out, each once, before anybody is told of what they say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import chain

from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core.effects import Effect, JobChanged, Note
from fabric.coordinator.core.jobs import records
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.messages import job_status, task_status
from fabric.coordinator.core.jobs.tasks import Task
from fabric.coordinator.metadata.store import Table, Write
from fabric.coordinator.planner.stages import Key
from fabric.errors import NotFoundError

_LAST = 1000
"""How many events are told when nobody says how many."""
ATTEMPTS_KEPT = 16
"""Attempts of a task that are remembered beside its newest."""


class JobRegistry:
    """Everything by job; not thread-safe."""

    def __init__(self, config: CoordinatorConfig, epoch: int) -> None:
        self.config, self.epoch = config, epoch
        self.jobs: dict[str, Job] = {}
        self._active: dict[str, Job] = {}
        self.history: dict[str, pb.JobStatus] = {}
        self._attempts: dict[str, dict[Key, deque[pb.TaskStatus]]] = {}
        """Attempts that are over and were followed by another one, by job and task."""
        self._keys: dict[str, str] = {}
        self._events: deque[tuple[str, bytes]] = deque()
        """The job of each, or "", and its record as it is stored: a message takes thrice that."""
        self._n_events = 0
        self._offset_s = 0.0
        self._first_offset_s: float | None = None
        self._writes: dict[tuple[Table, str], Write] = {}
        self._told: set[str] = set()
        self.who = ""
        """Who asked for what is worked on just now; empty when nobody did."""

    # ---- time

    def set_wall(self, wall_s: float, now: float) -> None:
        """What the wall clock says at monotonic `now`."""
        self._offset_s = wall_s - now
        if self._first_offset_s is None:
            self._first_offset_s = self._offset_s

    def wall_s(self, now: float) -> float:
        """Wall time at monotonic `now`, as far as is known."""
        return now + self._offset_s

    def steady_s(self, now: float) -> float:
        """Wall time at monotonic `now`, as if nobody had set the clock since the start."""
        return now + (self._first_offset_s or 0.0)

    # ---- asking

    def live(self, job_id: str) -> Job:
        """A job that was not released; `NotFoundError` when it was, or is unknown."""
        if (job := self.jobs.get(job_id)) is not None:
            return job
        if job_id in self.history:
            raise NotFoundError(
                f"job {job_id} was released: its stages, tasks and partitions are not known any "
                "more; submit its plan again"
            )
        raise NotFoundError(f"there is no job {job_id[:128]!r}; `fabric jobs` lists them")

    def find(self, key: pb.TaskKey) -> tuple[Job | None, Task | None]:
        """The job that an agent names, and the newest attempt of its task, as far as known."""
        job = self.jobs.get(key.job_id)
        return job, job.tasks.get((key.stage, key.task)) if job is not None else None

    def status(self, job_id: str, now: float) -> pb.JobStatus:
        """A job's status; `NotFoundError` when it is unknown."""
        if (past := self.history.get(job_id)) is not None:
            return past
        return job_status(self.live(job_id), now)

    def statuses(self, now: float) -> list[pb.JobStatus]:
        """Every job, oldest first."""
        return [*self.history.values(), *(job_status(job, now) for job in self.jobs.values())]

    def active(self) -> list[Job]:
        """Jobs that have not ended, oldest first; restarted ones last."""
        return [job for job in self._active.values() if job.active]

    def stream_job(self, folder: str, name: str) -> str:
        """The job that runs a stream of that name, whose state lies in `folder`; empty: none."""
        wanted = (folder, name)
        named = ((job, job.origin) for job in self.active() if job.origin is not None)
        found = (j.job_id for j, origin in named if (j.checkpoint.folder, origin.name) == wanted)
        return next(found, "")

    @property
    def running(self) -> frozenset[str]:
        """The jobs that have not ended, by id."""
        return frozenset(job_id for job_id, job in self.jobs.items() if job.ended is None)

    def ended(self) -> list[Job]:
        """Jobs that have ended and were not released."""
        return [job for job in self.jobs.values() if not job.active]

    @property
    def n_ended(self) -> int:
        """How many those are."""
        return len(self.jobs) - len(self._active)

    def job_of_key(self, client_key: str) -> str | None:
        """The job that was submitted under a client's key."""
        return self._keys.get(client_key) if client_key else None

    def tasks(self, job_id: str) -> list[pb.TaskStatus]:
        """Attempts of a job that was not released, by stage, task and attempt.

        Of a task the newest and `ATTEMPTS_KEPT` before it: streams are restored without end.
        """
        job = self.live(job_id)
        found = [task_status(job, key, task) for key, task in job.tasks.items()]
        found += chain.from_iterable(self._attempts.get(job_id, {}).values())
        return sorted(found, key=lambda t: (t.stage, t.task, t.attempt))

    def events(self, request: pb.EventsRequest) -> pb.EventList:
        """The newest events of a job, or of all, oldest first."""
        wanted = request.job_id
        found = [event for job_id, event in self._events if not wanted or job_id == wanted]
        newest = found[-(request.last or _LAST) :]
        return pb.EventList(events=[pb.EventRecord.FromString(event) for event in newest])

    # ---- writing down

    def add(self, job: Job) -> None:
        """A new job."""
        self.jobs[job.job_id] = self._active[job.job_id] = job
        if job.client_key:
            self._keys[job.client_key] = job.job_id
        self.planned(job)

    def planned(self, job: Job) -> None:
        """Its stages are others now."""
        self.write(records.plan_record(job))

    def changed(self, job: Job, now: float) -> list[Effect]:
        """Its state is another one now."""
        if job.active:
            self._active[job.job_id] = job
        else:
            self._active.pop(job.job_id, None)
        status = job_status(job, now)
        ended_s = 0.0 if job.ended is None else job.wall_s(job.ended)
        self.write(records.job_record(job, status, ended_s))
        return self.moved(job)

    def moved(self, job: Job) -> list[Effect]:
        """Something of it that a status tells is another now; not worth writing down."""
        by_itself = job.state == pb.JOB_FINISHED and not job.stopped_at
        return [JobChanged(job.job_id, job.state, by_itself)]

    def task_changed(self, job: Job, key: Key) -> None:
        """One of its tasks."""
        self.write(records.task_record(job, key, job.tasks[key]))

    def replanned(self, job: Job, gone: Iterable[Key]) -> None:
        """It has other stages and tasks now; those that are `gone` are no more."""
        for key in gone:
            self.write(Write("tasks", records.task_key(job.job_id, *key), None))
        self.planned(job)
        for key in job.tasks:
            self.task_changed(job, key)

    def attempt_over(self, job: Job, key: Key, task: Task, now: float) -> None:
        """An attempt that is followed by another one."""
        status = task_status(job, key, task)
        if not task.ended:
            status.state, status.ended_s = pb.TASK_CANCELLED, self.wall_s(now)
        self.write(records.attempt_record(job.job_id, status))
        past = self._attempts.setdefault(job.job_id, {}).setdefault(key, deque())
        past.append(status)
        while len(past) > ATTEMPTS_KEPT:
            self._forget_attempt(job.job_id, past.popleft())

    def _forget_attempt(self, job_id: str, past: pb.TaskStatus) -> None:
        self.write(Write("attempts", records.attempt_key(job_id, past), None))

    def note(self, now: float, event: str, **fields: str | int) -> list[Effect]:
        """Worth a line in the log, and in the history of events, beside who asked for it."""
        if self.who:
            fields["who"] = self.who
        self._n_events += 1
        about = {name: str(value) for name, value in fields.items()}
        record = pb.EventRecord(
            number=self._n_events,
            wall_s=self.wall_s(now),
            kind=event,
            job_id=about.pop("job", ""),
            agent_id=about.pop("agent", ""),
            who=about.pop("who", ""),
            text=", ".join(f"{name} {value}" for name, value in about.items())[:2048],
            epoch=self.epoch,
        )
        self.write(records.event_record(record))
        self._events.append((record.job_id, record.SerializeToString()))
        while len(self._events) > self.config.events_kept_max:
            _, old = self._events.popleft()
            number = pb.EventRecord.FromString(old).number
            self.write(Write("events", records.event_key(number), None))
        return [Note(event, tuple(fields.items()))]

    def drop(self, job: Job, status: pb.JobStatus) -> None:
        """Forget its stages and tasks; the status stays in the history, to its length."""
        job_id = job.job_id
        del self.jobs[job_id]
        for key in job.tasks:
            self.write(Write("tasks", records.task_key(job_id, *key), None))
        for past in chain.from_iterable(self._attempts.pop(job_id, {}).values()):
            self._forget_attempt(job_id, past)
        self.write(Write("plans", job_id, None))
        self.write(records.past_record(status))
        self.history[job_id] = status
        self._prune()

    def _prune(self) -> None:
        too_many = max(0, len(self.history) - self.config.jobs_kept_max)
        for job_id in list(self.history)[:too_many]:
            status = self.history.pop(job_id)
            if self._keys.get(status.client_key) == job_id:
                del self._keys[status.client_key]
            self.write(Write("jobs", job_id, None))

    def write(self, *writes: Write) -> None:
        """Have these written down; a later one of the same record takes the place of an earlier."""
        for write in writes:
            self._writes[write.table, write.key] = write

    def take_writes(self) -> tuple[Write, ...]:
        """What is to be written down now."""
        taken = tuple(self._writes.values())
        self._writes.clear()
        return taken

    # ---- after a restart

    def restore(self, found: Iterable[records.Restored], events: Iterable[bytes]) -> None:
        """Take over what an earlier coordinator wrote down."""
        for one in sorted(found, key=lambda one: (one.status.submitted_s, one.status.job_id)):
            job_id = one.status.job_id
            if one.status.client_key:
                self._keys[one.status.client_key] = job_id
            if one.job is None:
                self.history[job_id] = one.status
            else:
                self.jobs[job_id] = one.job
                by_task = self._attempts.setdefault(job_id, {})
                for past in one.attempts:
                    by_task.setdefault((past.stage, past.task), deque()).append(past)
        self._active = {job_id: job for job_id, job in self.jobs.items() if job.active}
        for value in events:
            event = pb.EventRecord.FromString(value)
            self._events.append((event.job_id, value))
            self._n_events = event.number
        self._prune()
