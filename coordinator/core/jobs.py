"""One job as the coordinator follows it.

One job: which tasks run, which stages may start, what has been sealed. A region (stages joined by
pipelined edges) starts when every materialised edge into it is complete. Nothing here talks to
anybody; `messages.py` makes protobuf of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.config import AdaptiveConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.planner.placement import Placement
from fabric.coordinator.planner.stages import Edge, StageGraph
from fabric.errors import FabricError

ACTIVE = frozenset((pb.JOB_QUEUED, pb.JOB_RUNNING))


@dataclass(slots=True)
class Task:
    """One attempt of one task on its agent."""

    agent_id: str
    attempt: int = 0
    state: pb.TaskState = pb.TASK_UNKNOWN
    handle: bytes = b""
    rows_out: int = 0
    backpressure_ratio: float = 0.0
    totals: dict[int, tuple[int, int]] = field(default_factory=dict)
    sizes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Bytes of each partition of adaptive edges, until their consumers start."""

    @property
    def ended(self) -> bool:
        """Whether no report is to come any more."""
        return self.state in (pb.TASK_FINISHED, pb.TASK_FAILED, pb.TASK_CANCELLED)


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
        self.tasks = {
            (stage.stage, task): Task(agent_id)
            for stage, agents in zip(graph.stages, placement, strict=True)
            for task, agent_id in enumerate(agents)
        }
        self.deployed: set[int] = set()
        self.publishing: dict[int, str] = {}
        self.published: set[int] = set()
        self.stopping: Stopping | None = None

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
        """Every agent that has a task of this job, by id."""
        return sorted({task.agent_id for task in self.tasks.values()})

    def busy(self) -> bool:
        """Whether a task was given to an agent and has not ended."""
        return any(
            not task.ended and self.graph.stages[stage].region in self.deployed
            for (stage, _), task in self.tasks.items()
        )

    def lose(self, agent_id: str) -> None:
        """The tasks on a lost agent have ended."""
        for task in self.tasks.values():
            if task.agent_id == agent_id and not task.ended:
                task.state = pb.TASK_CANCELLED

    def sealed(self, stage: int) -> bool:
        """Whether every task of a stage has finished."""
        return all(task.state == pb.TASK_FINISHED for task in self.stage_tasks(stage))

    def ready_regions(self) -> list[int]:
        """Regions that may start now and have not."""
        return [
            region
            for region in self.graph.regions()
            if region not in self.deployed
            and all(self.sealed(edge.producer) for edge in self.graph.region_inputs(region))
        ]

    def sinks_to_publish(self) -> list[int]:
        """Sink stages whose tasks all finished and whose output nobody was asked to publish."""
        return [
            stage.stage
            for stage in self.graph.stages
            if stage.is_sink
            and stage.stage not in self.publishing
            and stage.stage not in self.published
            and self.sealed(stage.stage)
        ]

    def handles(self, stage: int) -> list[bytes]:
        """Durable handles of the finished tasks of a sink stage, in task order."""
        finished = (t for t in self.stage_tasks(stage) if t.state == pb.TASK_FINISHED)
        return [task.handle for task in finished]

    def complete(self) -> bool:
        """Whether every task has finished and every sink is published."""
        sinks = {stage.stage for stage in self.graph.stages if stage.is_sink}
        return sinks <= self.published and all(self.sealed(s.stage) for s in self.graph.stages)

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
