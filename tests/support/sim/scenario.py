"""What a run is about: the fabric, the jobs and the faults, drawn from the seed.

One job: `Scenario` and `draw`. All of it is decided before the run begins, so it can be printed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Literal

from fabric.coordinator.planner.stages import StageGraph
from tests.support.sim.graphs import random_graph
from tests.support.sim.network import Weather

FaultKind = Literal[
    "kill", "stop", "cut", "cut one way", "cut control", "cut data", "reset", "jump wall",
    "die at step", "disk full", "store away", "drain",
]  # fmt: skip
ErrorKind = Literal["retryable", "user", "internal"]
DATABASE = "db"
Task = tuple[int, int]
"""Stage and task."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`who` (and, of a cut, `other`) is hit at `at_s` for `lasts_s`; `number` is the step."""

    at_s: float
    kind: FaultKind
    who: str
    other: str = ""
    lasts_s: float = 0.0
    number: int = 0


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job, what its tasks run into, and what its client does."""

    key: str
    at_s: float
    graph: StageGraph
    work_s: float
    errors: dict[Task, tuple[ErrorKind, int]] = field(default_factory=dict)
    """By task: what its first attempts end with, and how many (all, if it is the user's)."""
    cancel_after_s: float | None = None

    @property
    def sink(self) -> bool:
        """Whether its rows go outside."""
        return self.graph.stages[-1].is_sink


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything but the order of events."""

    seed: int
    coordinators: tuple[str, ...]
    """One on a disk of its own, or several on one database."""
    agents: tuple[str, ...]
    slots: int
    heartbeat_s: float
    timeout_s: float
    chaos_s: float
    weather: Weather
    keepalive_s: float
    overloaded: float
    """The share of heartbeats that ask for no more tasks."""
    jobs: tuple[JobPlan, ...]
    faults: tuple[Fault, ...]

    @property
    def calm(self) -> bool:
        """Whether nothing hits the fabric from outside."""
        return not self.faults

    @property
    def last_s(self) -> float:
        """When the last fault comes."""
        return max((fault.at_s for fault in self.faults), default=0.0)

    def __str__(self) -> str:
        jobs = "\n".join(
            f"  {j.key}: {len(j.graph.stages)} stages, {'sink' if j.sink else 'result'}, "
            f"errors {j.errors}, cancelled after {j.cancel_after_s}"
            for j in self.jobs
        )
        faults = "\n".join(f"  {fault}" for fault in self.faults)
        return (
            f"seed {self.seed}: {', '.join(self.coordinators)}, agents {', '.join(self.agents)} "
            f"of {self.slots} slots, heartbeat "
            f"{self.heartbeat_s} s, timeout {self.timeout_s} s, {self.weather}\n{jobs}\n{faults}"
        )


def draw(seed: int) -> Scenario:
    """The scenario of a seed; one in eight is calm."""
    rng = Random(f"scenario {seed}")
    agents = tuple(f"a{number}" for number in range(rng.randint(2, 4)))
    coordinators = tuple(f"c{number}" for number in range(rng.choice((1, 1, 1, 2, 3))))
    chaos_s = rng.choice((6.0, 15.0, 30.0))
    calm = rng.random() < 0.125
    heartbeat_s, timeout_s = rng.choice(((1.0, 5.0), (0.5, 2.0), (1.0, 3.0)))
    weather = Weather()
    if not calm and rng.random() < 0.5:
        rough = rng.choice((0.01, 0.05, 0.2))
        weather = Weather((0.0, 0.04), lost=rough, doubled=rough, slow=rough)
    jobs = tuple(_job(rng, f"k{n}", chaos_s, calm) for n in range(rng.randint(1, 4)))
    return Scenario(
        seed=seed,
        coordinators=coordinators,
        agents=agents,
        slots=rng.choice((1, 2, 4)),
        heartbeat_s=heartbeat_s,
        timeout_s=timeout_s,
        chaos_s=chaos_s,
        weather=weather,
        overloaded=rng.choice((0.0, 0.0, 0.2)),
        keepalive_s=rng.choice((1.0, 4.0, 20.0, 20.0)),
        jobs=jobs,
        faults=() if calm else _faults(rng, coordinators, agents, chaos_s),
    )


def _job(rng: Random, key: str, chaos_s: float, calm: bool) -> JobPlan:
    n_stages = rng.randint(1, 4)
    graph = random_graph(rng, n_stages, sink=rng.random() < 0.5)
    errors: dict[Task, tuple[ErrorKind, int]] = {}
    if not calm and rng.random() < 0.4:
        stage = rng.randrange(n_stages)
        task = rng.randrange(graph.stages[stage].n_tasks)
        kinds: tuple[ErrorKind, ...] = ("retryable", "retryable", "internal", "user")
        errors[stage, task] = (rng.choice(kinds), rng.choice((1, 1, 2, 9)))
    return JobPlan(
        key=key,
        at_s=rng.uniform(0.0, chaos_s * 0.7),
        graph=graph,
        work_s=rng.choice((0.05, 0.5, 3.0, 3.0)),
        errors=errors,
        cancel_after_s=rng.uniform(0.0, 4.0) if not calm and rng.random() < 0.15 else None,
    )


def _faults(
    rng: Random, coordinators: tuple[str, ...], agents: tuple[str, ...], chaos_s: float
) -> tuple[Fault, ...]:
    """One to six faults, most often of few kinds, so that each also comes alone."""
    every: list[FaultKind] = [
        "kill", "kill", "stop", "cut", "cut one way", "cut one way", "cut control", "cut data",
        "reset", "jump wall", "die at step", "die at step", "disk full", "store away", "drain",
    ]  # fmt: skip
    kinds = rng.sample(every, rng.choice((1, 2, 4, 15)))
    found = [
        _fault(rng, rng.choice(kinds), coordinators, agents, chaos_s)
        for _ in range(rng.randint(1, 6))
    ]
    return tuple(sorted(found, key=lambda fault: fault.at_s))


def _fault(
    rng: Random,
    kind: FaultKind,
    coordinators: tuple[str, ...],
    agents: tuple[str, ...],
    chaos_s: float,
) -> Fault:
    at_s, lasts_s = rng.uniform(0.2, chaos_s), rng.choice((0.05, 0.4, 2.0, 8.0, 15.0))
    lead, shared = rng.choice(coordinators), len(coordinators) > 1
    who = rng.choice((*agents, *coordinators))
    match kind:
        case "cut" | "cut one way" | "cut control":
            far = (*agents, DATABASE) if shared else agents
            near = kind == "cut control" or rng.random() < 0.7
            ends = [lead, rng.choice(far)] if near else rng.sample(agents, 2)
            rng.shuffle(ends)
            return Fault(at_s, kind, ends[0], ends[1], rng.choice((lasts_s, 8.0)))
        case "cut data":
            ends = rng.sample(agents, 2)
            return Fault(at_s, kind, ends[0], ends[1], lasts_s)
        case "reset":
            return Fault(at_s, kind, rng.choice(agents))
        case "jump wall":
            return Fault(at_s, kind, who, lasts_s=rng.uniform(-3600.0, 3600.0))
        case "die at step":
            return Fault(at_s, kind, who, lasts_s=lasts_s, number=rng.randint(1, 12))
        case "disk full" | "store away" if shared:
            return Fault(at_s, rng.choice(("kill", "stop")), DATABASE, lasts_s=lasts_s)
        case "disk full" | "store away":
            return Fault(at_s, kind, lead, lasts_s=lasts_s)
        case "drain":
            return Fault(at_s, kind, rng.choice(agents), lasts_s=lasts_s)
        case _:
            return Fault(at_s, kind, who, lasts_s=lasts_s)
