"""A scripted world around the core: agents that say what a test lets them say."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.config import AdaptiveConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core.core import CoordinatorCore
from fabric.coordinator.core.effects import Effect, Persist, Send
from fabric.coordinator.core.events import (
    AgentAttached,
    AgentDetached,
    AgentSaid,
    Event,
    JobSubmitted,
    Tick,
)
from fabric.coordinator.metadata.memory import MemoryStore
from fabric.coordinator.planner.stages import RESULT, Edge, Stage, StageGraph
from fabric.plan.codec import encode
from fabric.plan.nodes import Plan, Sink, StageInput
from fabric.plan.targets import GateTarget

ROWS = pa.schema([("a", pa.int64())])


def edge(number: int, producer: int, consumer: int, n: int, mode: str = "materialised") -> Edge:
    return Edge(
        edge=number,
        path=f"edge_{number}",
        producer=producer,
        consumer=consumer,
        kind="forward" if consumer == RESULT else "hash",
        mode=mode,
        n_partitions=n,
        keys=() if consumer == RESULT else ("a",),
        schema=ROWS,
    )


def stage(number: int, n_tasks: int, region: int | None = None, *, sink: bool = False) -> Stage:
    root = StageInput(0, ROWS, path=f"node_{number}")
    return Stage(
        stage=number,
        path=f"node_{number}",
        root=Sink(root, GateTarget("g")) if sink else root,
        kind="fragment",
        n_tasks=n_tasks,
        splits=(),
        region=number if region is None else region,
        is_sink=sink,
    )


def shuffle(*, sink: bool = False) -> StageGraph:
    """Two tasks, a hash edge, two tasks, the result."""
    edges = (edge(0, 0, 1, 2), edge(1, 1, RESULT, 2))
    return StageGraph((stage(0, 2), stage(1, 2, sink=sink)), edges)


def piped() -> StageGraph:
    """A materialised edge into two stages that are joined by a pipelined one."""
    stages = (stage(0, 2), stage(1, 2), stage(2, 2, region=1))
    edges = (edge(0, 0, 1, 2), edge(1, 1, 2, 2, "pipelined"), edge(2, 2, RESULT, 2))
    return StageGraph(stages, edges)


class World:
    """A core, its store, and everything it said."""

    def __init__(self, **config: float) -> None:
        self.config = CoordinatorConfig(**{"heartbeat_s": 1.0, "timeout_s": 5.0, **config})
        self.store = MemoryStore()
        self.now = 100.0
        self.sent: list[Send] = []
        self.sessions: dict[str, int] = {}
        self.n_sessions = 0
        self.start()

    def start(self, wall_s: float = 1000.0) -> None:
        """A new coordinator over the same store."""
        self.core = CoordinatorCore(self.config, self.store.next_epoch())
        self._carry(self.core.restore(self.store, wall_s, self.now))

    def do(self, event: Event, after: float = 0.0) -> list[Effect]:
        self.now += after
        effects = self.core.handle(event, self.now)
        self._carry(effects)
        return effects

    def _carry(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Persist):
                self.store.apply(effect.writes)
            if isinstance(effect, Send):
                self.sent.append(effect)

    def attached(self) -> list[str]:
        return [hello.agent_id for hello in self.core.agent_hellos()]

    def attach(self, *agent_ids: str) -> None:
        self.attach_with(4, *agent_ids)

    def attach_with(self, slots: int, *agent_ids: str) -> None:
        for agent_id in agent_ids:
            self.n_sessions += 1
            self.sessions[agent_id] = self.n_sessions
            where = f"grpc+tcp://{agent_id}"
            hello = pb.Hello(agent_id=agent_id, address=where, cpus=4, slots=slots)
            self.do(AgentAttached(self.n_sessions, hello))

    def detach(self, agent_id: str) -> None:
        """Its link breaks, and it does not come back."""
        self.do(AgentDetached(agent_id, self.sessions[agent_id], "gone"))
        self.do(Tick(1000.0), after=self.config.reattach_s)

    def submit(
        self, graph: StageGraph, job_id: str = "job-1", key: str = "", **settings: AdaptiveConfig
    ) -> str:
        self.do(
            JobSubmitted(
                job_id=job_id,
                name="a job",
                client_key=key,
                graph=graph,
                fragments=tuple(encode(Plan(s.root)) for s in graph.stages),
                schema=b"schema",
                wall_s=1000.0,
                **settings,
            )
        )
        return job_id

    def say(self, agent_id: str, session: int | None = None, **kind: object) -> list[Effect]:
        number = self.sessions[agent_id] if session is None else session
        return self.do(AgentSaid(agent_id, number, pb.AgentMessage(**kind)))

    def report(self, agent_id: str, stage: int, task: int, state: int, **fields: object) -> None:
        """A report on a task of job-1, by default of this epoch and attempt 0."""
        session = fields.pop("session", None)
        key = pb.TaskKey(
            job_id=fields.pop("job_id", "job-1"),
            stage=stage,
            task=task,
            attempt=fields.pop("attempt", 0),
            epoch=fields.pop("epoch", self.core.epoch),
        )
        self.say(agent_id, session, task=pb.TaskReport(key=key, state=state, **fields))

    def finish(self, agent_id: str, stage: int, task: int, **fields: object) -> None:
        self.report(agent_id, stage, task, pb.TASK_FINISHED, **fields)

    def run_first_stage(self) -> None:
        """Both its tasks end well, with rows."""
        self.finish("x", 0, 0, outputs=[pb.EdgeTotals(edge=0, rows=5, bytes=50)])
        self.finish("y", 0, 1, outputs=[pb.EdgeTotals(edge=0, rows=7, bytes=70)])

    def state(self, job_id: str = "job-1") -> str:
        return pb.JobState.Name(self.core.registry.status(job_id, self.now).state)[4:].lower()

    def heard(self, agent_id: str, kind: str) -> list[object]:
        """What an agent was told, of one kind."""
        return [
            getattr(send.message, kind)
            for send in self.sent
            if send.agent_id == agent_id and send.message.WhichOneof("kind") == kind
        ]


@pytest.fixture
def world() -> World:
    """Two agents, nothing to do."""
    made = World()
    made.attach("x", "y")
    return made


@pytest.fixture
def graphs() -> SimpleNamespace:
    return SimpleNamespace(shuffle=shuffle, piped=piped, edge=edge, stage=stage)


@pytest.fixture(scope="session")
def make_world() -> type[World]:
    return World
