"""One job as the coordinator follows it.

One job: its tasks and what is known of each: which attempt, where, whether its output is sealed or
lost. A region (stages joined by pipelined edges) may start when every materialised edge into it is
complete. Nothing here talks to anybody; `messages.py` makes protobuf of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fabric.config import AdaptiveConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.lineage import Key, producers_of
from fabric.coordinator.planner.placement import Placement
from fabric.coordinator.planner.stages import Edge, StageGraph
from fabric.errors import FabricError

ACTIVE = frozenset((pb.JOB_QUEUED, pb.JOB_RUNNING))
ERRORS_MAX = 20
"""Errors of attempts that a status tells, the newest."""


@dataclass(slots=True)
class Task:
    """The newest attempt of one task.

    It waits until it is `given` to `agent_id` (until then the agent it would best run on), then
    is active until it has ended. The output of a finished one lies with `agent_id`, unless it is
    `lost`. Times are wall time.
    """

    agent_id: str
    attempt: int = 0
    state: pb.TaskState = pb.TASK_UNKNOWN
    given: bool = False
    lost: bool = False
    epoch: int = 0
    failures: int = 0
    not_before: float = 0.0
    """Monotonic: it failed, and waits a while."""
    handle: bytes = b""
    rows_in: int = 0
    rows_out: int = 0
    backpressure_ratio: float = 0.0
    started_s: float = 0.0
    ended_s: float = 0.0
    error: FabricError | None = None
    totals: dict[int, tuple[int, int]] = field(default_factory=dict)
    sizes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Bytes of each partition of adaptive edges, until their consumers start."""

    @property
    def ended(self) -> bool:
        """Whether no report is to come any more."""
        return self.state in (pb.TASK_FINISHED, pb.TASK_FAILED, pb.TASK_CANCELLED)

    @property
    def active(self) -> bool:
        """Whether an agent is at it."""
        return self.given and not self.ended

    @property
    def finished(self) -> bool:
        """Whether its output was sealed."""
        return self.state == pb.TASK_FINISHED

    def take(self, report: pb.TaskReport, wall_s: float) -> None:
        """The attempt ended as `report` says."""
        self.state, self.ended_s = report.state, wall_s
        self.handle, self.rows_in, self.rows_out = (
            report.sink_handle, report.rows_in, report.rows_out
        )  # fmt: skip
        self.backpressure_ratio = report.backpressure_ratio
        self.totals = {total.edge: (total.rows, total.bytes) for total in report.outputs}
        self.sizes = {t.edge: tuple(t.partition_bytes) for t in report.outputs if t.partition_bytes}

    def again(self, not_before: float = 0.0) -> Task:
        """The next attempt, which waits."""
        return Task(self.agent_id, self.attempt + 1, failures=self.failures, not_before=not_before)


@dataclass(slots=True)
class Stopping:
    """How a job is to end, once its tasks have ended and what they wrote is removed.

    `abandoning` says who was asked to remove a stage's output; None while tasks still run. At
    `deadline` (monotonic) the job ends in any case.
    """

    state: pb.JobState
    error: FabricError
    deadline: float
    abandoning: dict[int, str] | None = None
    release: bool = False


class Job:
    """Progress of one job. `submitted_s` is wall time, `started` and `ended` are monotonic."""

    def __init__(
        self,
        *,
        job_id: str,
        name: str,
        client_key: str,
        graph: StageGraph,
        fragments: tuple[bytes, ...],
        schema: bytes,
        placement: Placement,
        submitted_s: float,
        now: float,
        adaptive: AdaptiveConfig,
    ) -> None:
        self.job_id, self.name, self.client_key = job_id, name, client_key
        self.graph, self.fragments, self.schema = graph, fragments, schema
        self.submitted_s, self.started, self.adaptive = submitted_s, now, adaptive
        self.ended: float | None = None
        self.state: pb.JobState = pb.JOB_QUEUED
        self.error: FabricError | None = None
        self.errors: list[FabricError] = []
        self.tasks = {
            (stage.stage, task): Task(agent_id)
            for stage, agents in zip(graph.stages, placement, strict=True)
            for task, agent_id in enumerate(agents)
        }
        self.run = 0
        self.planned: set[int] = set()
        """Regions that have started once: they are not planned anew."""
        self.publishing: dict[int, str] = {}
        self.published: set[int] = set()
        self.stopping: Stopping | None = None
        self.leaving: dict[Key, Task] = {}
        """Attempts of pipelined regions that must end before the next ones may start."""

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.state in ACTIVE

    def wall_s(self, now: float) -> float:
        """The wall time at monotonic `now`."""
        return self.submitted_s + now - self.started

    def stage_tasks(self, stage: int) -> list[Task]:
        """The tasks of a stage, in order."""
        return [self.tasks[stage, task] for task in range(self.graph.stages[stage].n_tasks)]

    def agents(self) -> list[str]:
        """Every agent that has, or would have, a task of this job, by id."""
        return sorted({task.agent_id for task in self.tasks.values()} - {""})

    def busy(self) -> bool:
        """Whether a task was given to an agent and has not ended."""
        return any(task.active for task in self.tasks.values())

    def failed(self, error: FabricError) -> None:
        """Remember what an attempt ended with."""
        self.errors = [*self.errors[1 - ERRORS_MAX :], error]

    def pipelined(self, region: int) -> bool:
        """Whether stages of a region are joined by pipelined edges, and run together."""
        return sum(stage.region == region for stage in self.graph.stages) > 1

    def sealed(self, stage: int) -> bool:
        """Whether every task of a stage has finished and its output is there."""
        return all(task.finished and not task.lost for task in self.stage_tasks(stage))

    def ready(self) -> Iterator[tuple[int, list[Key]]]:
        """Regions that may start now, with their tasks that wait; those of a pipelined one all."""
        for region, stages in self.graph.regions().items():
            keys = [(s.stage, task) for s in stages for task in range(s.n_tasks)]
            waiting = [key for key in keys if not self.tasks[key].given]
            if not waiting or any(key in self.leaving for key in keys):
                continue
            made = {edge.producer for edge in self.graph.region_inputs(region)}
            sources = [task for stage in made for task in self.stage_tasks(stage)]
            if not all(task.finished for task in sources):
                continue
            any_lost = any(task.lost for task in sources)
            lost = [key for key in waiting if self._misses_rows(key)] if any_lost else []
            if not (lost and self.pipelined(region)):
                yield region, [key for key in waiting if key not in lost]

    def _misses_rows(self, key: Key) -> bool:
        """Whether output that a task would read is lost."""
        return any(self.tasks[producer].lost for producer in producers_of(self.graph, key))

    def sinks_to_publish(self) -> list[int]:
        """Sink stages whose tasks all finished and whose output nobody was asked to publish."""
        return [
            stage.stage
            for stage in self.graph.stages
            if stage.is_sink
            and stage.stage not in self.publishing
            and stage.stage not in self.published
            and all(task.finished for task in self.stage_tasks(stage.stage))
        ]

    def handles(self, stage: int) -> list[bytes]:
        """Durable handles of the finished tasks of a sink stage, in task order."""
        return [task.handle for task in self.stage_tasks(stage) if task.finished]

    def complete(self) -> bool:
        """Whether every task has finished and every sink is published."""
        sinks = {stage.stage for stage in self.graph.stages if stage.is_sink}
        return sinks <= self.published and all(task.finished for task in self.tasks.values())

    def sizes(self, stage: int) -> dict[int, list[tuple[int, ...]]]:
        """Bytes by producer and partition of the adaptive edges into a stage, as far as told."""
        found = {}
        for edge in self.graph.inputs[stage]:
            each = [t.sizes.get(edge.edge, ()) for t in self.stage_tasks(edge.producer)]
            if edge.adaptive and all(len(one) == edge.n_partitions for one in each):
                found[edge.edge] = each
        return found

    def forget_sizes(self, stage: int) -> None:
        """The stage starts, so nobody needs them any more."""
        for edge in self.graph.inputs[stage]:
            for task in self.stage_tasks(edge.producer):
                task.sizes.pop(edge.edge, None)

    def edge_totals(self, edge: Edge) -> tuple[int, int]:
        """Rows and bytes of what is sealed of an edge."""
        totals = [task.totals.get(edge.edge, (0, 0)) for task in self.stage_tasks(edge.producer)]
        return sum(rows for rows, _ in totals), sum(size for _, size in totals)
