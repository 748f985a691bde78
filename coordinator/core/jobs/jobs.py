"""One job as the coordinator follows it.

One job: its state, and what follows from that of its tasks (`tasks.py`). A region (stages joined by
pipelined edges) may start when every materialised edge into it is complete. Nothing here talks to
anybody; `messages.py` makes protobuf of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from fabric.checkpoint.manifest import Manifest, Seal
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.checkpoints.checkpoints import Checkpoints
from fabric.coordinator.core.events import JobReplanned, JobSubmitted
from fabric.coordinator.core.jobs.tasks import Task, Tasks
from fabric.coordinator.core.jobs.watermark_alignment import WatermarkAlignment
from fabric.coordinator.planner.draft import MAX_PARALLELISM
from fabric.coordinator.planner.placement import Placement
from fabric.coordinator.planner.stages import Edge, Key, producers_of
from fabric.errors import FabricError
from fabric.plan.nodes import Sink
from fabric.plan.targets import has_credentials

ACTIVE = frozenset((pb.JOB_QUEUED, pb.JOB_RUNNING))
ERRORS_MAX = 20
"""Errors of attempts that a status tells, the newest."""
AGAIN_S = 5.0
"""Between two tries to get a stream going that stands still."""
Phase = Literal["quiet", "restoring", "ready", "running", "ended"]


@dataclass(slots=True)
class Stopping:
    """How a job is to end, once its tasks have ended and what they wrote is removed.

    `abandoning` says who was asked to remove a stage's output; None while tasks still run. At
    `deadline` (monotonic) the job ends in any case.
    """

    state: pb.JobState
    error: FabricError | None
    deadline: float
    abandoning: dict[int, str] | None = None
    release: bool = False


@dataclass(frozen=True, slots=True)
class Leaving:
    """The checkpoint that tasks take before they leave: who asked for it, and how long it may take.

    Others go on from it, so they read little again. At `deadline` (monotonic) the tasks leave
    without it.
    """

    asked: str
    deadline: float


@dataclass(slots=True)
class Stream:
    """What a coordinator knows of one stream.

    It is "quiet" until no older task is left, "restoring" while a checkpoint is looked at, "ready"
    to be deployed from `manifest` (None: from the beginning), then "running", and "ended" when all
    of its last checkpoint is out.
    """

    region: int
    checkpoints: Checkpoints
    phase: Phase = "quiet"
    manifest: Manifest | None = None
    seal: Seal | None = None
    alignment: WatermarkAlignment = field(default_factory=WatermarkAlignment)
    leaving: Leaving | None = None

    def may_start(self, region: int) -> bool:
        """Whether a region is another one than the stream's, or it is known where it begins."""
        return region != self.region or self.phase == "ready"


@dataclass(slots=True)
class Reactivity:
    """When a stream that follows the slots takes another number of tasks: the pure decision.

    Changes are `pause_s` apart, counted from `changed`, the start at first: each costs a pause, and
    agents seldom come alone. A stream that stands still for want of slots waits only until it may
    be `asked` again.

    >>> follows = Reactivity(changed=0.0)
    >>> follows.decide(2, 4, stands_still=False, now=9.0, pause_s=30.0)
    >>> follows.decide(2, 4, stands_still=False, now=30.0, pause_s=30.0)
    4
    """

    changed: float
    asked: float = -math.inf

    def decide(
        self, n_tasks: int, n_slots: int, *, stands_still: bool, now: float, pause_s: float
    ) -> int | None:
        """How many tasks it is to have; None: as many as it has."""
        wanted = min(n_slots, MAX_PARALLELISM)
        since, least_s = (self.asked, AGAIN_S) if stands_still else (self.changed, pause_s)
        if wanted in (0, n_tasks) or now < since + least_s:
            return None
        self.asked = self.changed = now
        return wanted


class Job:
    """Progress of one job. `submitted_s` is wall time, `started` and `ended` are monotonic."""

    def __init__(self, made: JobSubmitted, placement: Placement, now: float) -> None:
        self.job_id, self.name, self.client_key = made.job_id, made.name, made.client_key
        self.graph, self.fragments, self.schema = made.graph, made.fragments, made.schema
        self.submitted_s, self.started = made.wall_s, now
        self.adaptive, self.checkpoint = made.adaptive, made.checkpoint
        self.latency_us = made.latency_us
        """How long rows of its stream may be gathered, where no step says otherwise."""
        self.plan, self.parallelism = made.plan, made.parallelism
        """Of a stream: as it was submitted, and into how many tasks it is cut now."""
        self.reactivity = Reactivity(now) if made.reactive else None
        """Of a stream that has as many tasks as there are slots."""
        self.replanned: JobReplanned | None = None
        """How its stream is to go on once its tasks have left; None: as it is."""
        self.rescaling = 0
        """How many tasks a stream is to have that do not all run yet; 0: it is not rescaled."""
        self.ended: float | None = None
        self.state: pb.JobState = pb.JOB_QUEUED
        self.error: FabricError | None = None
        self.errors: list[FabricError] = []
        self.tasks = Tasks(placement)
        self.run = 0
        self.stopped_at = 0
        """The checkpoint that somebody stopped its stream at; 0: nobody has."""
        self.planned: set[int] = set()
        """Regions that have started once: they are not planned anew."""
        self.publishing: dict[int, str] = {}
        self.published: set[int] = set()
        self.stopping: Stopping | None = None
        self.leaving: dict[Key, Task] = {}
        """Attempts of pipelined regions that must end before the next ones may start."""
        self.stream: Stream | None = None
        """Of a job that reads a stream."""
        self.origin = made.stream.origin if made.stream is not None else None
        """Of a stream that has a name: where it goes on."""
        self.waiting = ""
        """Why it does not start, where that is worth a word."""

    @property
    def state_id(self) -> str:
        """The job that its state belongs to: itself, or the first one of a stream with a name."""
        return self.job_id if self.origin is None else self.origin.state

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.state in ACTIVE

    def wall_s(self, now: float) -> float:
        """The wall time at monotonic `now`."""
        return self.submitted_s + now - self.started

    def agents(self) -> list[str]:
        """Every agent that has, or would have, a task of this job, by id."""
        return sorted({task.agent_id for task in self.tasks.values()} - {""})

    def busy(self) -> bool:
        """Whether a task was given to an agent and has not ended."""
        return bool(self.tasks.at_work)

    def failed(self, error: FabricError) -> None:
        """Remember what an attempt ended with."""
        self.errors = [*self.errors[1 - ERRORS_MAX :], error]

    def pipelined(self, region: int) -> bool:
        """Whether the tasks of a region run together: joined by pipelined edges, or a stream's."""
        if self.is_stream(region):
            return True
        return sum(stage.region == region for stage in self.graph.stages) > 1

    def owes(self) -> bool:
        """Whether a checkpoint is being stored, or is complete and not all of it is published."""
        return self.stream is not None and not self.stream.checkpoints.settled

    def is_stream(self, region: int) -> bool:
        """Whether a region reads a stream: it is never cut in two, nor planned anew."""
        return self.stream is not None and self.stream.region == region

    def is_quiet(self, region: int) -> bool:
        """Whether all tasks of a region wait, and no older attempt of any is still at work."""
        tasks = (task for key, task in self.tasks.items() if self._region(key) == region)
        left = any(self._region(key) == region for key in self.leaving)
        return not left and not any(task.given for task in tasks)

    def all_given(self, region: int) -> bool:
        """Whether no task of a region waits."""
        return not self.n_waiting(region)

    def forgive(self, region: int) -> None:
        """What its tasks failed with lies behind them: they have come further since."""
        for key, task in self.tasks.items():
            if task.failures and self._region(key) == region:
                self.tasks[key] = task._replace(failures=0)

    def _region(self, key: Key) -> int:
        return self.graph.stages[key[0]].region

    def sealed(self, stage: int) -> bool:
        """Whether every task of a stage has finished and its output is there."""
        return self.tasks.all_finished(stage) and not self.tasks.of(stage).lost

    def ready(self) -> Iterator[int]:
        """Regions of which tasks wait, and may start now; those of a pipelined one all."""
        if self.replanned is not None:
            return
        stages = self.graph.stages
        leaving = {stages[stage].region for stage, _ in self.leaving}
        for region in self.graph.regions():
            n_waiting = self.n_waiting(region)
            if not n_waiting or region in leaving:
                continue
            if self.stream is not None and not self.stream.may_start(region):
                continue
            made = {edge.producer for edge in self.graph.region_inputs(region)}
            if not all(self.tasks.all_finished(stage) for stage in made):
                continue
            if self.pipelined(region) and len(list(self.may_start(region))) < n_waiting:
                continue
            yield region

    def n_waiting(self, region: int) -> int:
        """How many tasks of a region nobody was given."""
        stages = self.graph.regions()[region]
        return sum(len(self.tasks.of(stage.stage).waiting) for stage in stages)

    def may_start(self, region: int) -> Iterator[Key]:
        """The tasks of a ready region that wait, in order, but for those that would miss rows."""
        edges = self.graph.region_inputs(region)
        any_lost = any(self.tasks.of(edge.producer).lost for edge in edges)
        for stage in self.graph.regions()[region]:
            for number in self.tasks.of(stage.stage).waiting:
                if not (any_lost and self._misses_rows((stage.stage, number))):
                    yield stage.stage, number

    def _misses_rows(self, key: Key) -> bool:
        """Whether output that a task would read is lost."""
        return any(self.tasks[producer].lost for producer in producers_of(self.graph, key))

    def sinks_to_publish(self) -> list[int]:
        """Sink stages whose tasks all finished and whose output nobody was asked to publish.

        What a stream wrote is published with its checkpoints; at its end the rest of it.
        """
        goes_on = self.stream is not None and self.stream.phase != "ended"
        return [
            stage.stage
            for stage in self.graph.stages
            if stage.is_sink
            and not (goes_on and self.is_stream(stage.region))
            and stage.stage not in self.publishing
            and stage.stage not in self.published
            and self.tasks.all_finished(stage.stage)
        ]

    def sink_plan(self, stage: int) -> bytes:
        """What an agent needs beside the handles of a sink: the stage, where it has credentials."""
        root = self.graph.stages[stage].root
        needs = isinstance(root, Sink) and has_credentials(root.target)
        return self.fragments[stage] if needs else b""

    def handles(self, stage: int) -> list[bytes]:
        """Durable handles of the finished tasks of a sink stage, in task order."""
        return [task.handle for task in self.tasks.stage(stage) if task.finished]

    def complete(self) -> bool:
        """Whether every task has finished and every sink is published; a stream ends by itself."""
        if self.stream is not None and self.stream.phase != "ended":
            return False
        sinks = {stage.stage for stage in self.graph.stages if stage.is_sink}
        return self.tasks.n_finished == len(self.tasks) and sinks <= self.published

    def sizes(self, stage: int) -> dict[int, list[tuple[int, ...]]]:
        """Bytes by producer and partition of the adaptive edges into a stage, as far as told."""
        found = {}
        for edge in self.graph.inputs[stage]:
            each = [t.sizes.get(edge.edge, ()) for t in self.tasks.stage(edge.producer)]
            if edge.adaptive and all(len(one) == edge.n_partitions for one in each):
                found[edge.edge] = each
        return found

    def forget_sizes(self, stage: int) -> None:
        """The stage starts, so nobody needs them any more."""
        for edge in self.graph.inputs[stage]:
            for number, task in enumerate(self.tasks.stage(edge.producer)):
                if edge.edge in task.sizes:
                    left = {e: sizes for e, sizes in task.sizes.items() if e != edge.edge}
                    self.tasks[edge.producer, number] = task._replace(sizes=left)

    def edge_totals(self, edge: Edge) -> tuple[int, int]:
        """Rows and bytes of what is sealed of an edge."""
        return self.tasks.of(edge.producer).totals.get(edge.edge, (0, 0))
