"""The tasks of a job, and how many of them are where.

One job: `Task`, the newest attempt of a task, and `Tasks`, all of a job with counts beside. A
`Task` never changes: what happens to it is put in its place, and `Tasks` counts the old one out and
the new one in. So nothing can change behind the counts, and what is asked at every report (who is
at work, what waits, is a stage whole) takes the same time for ten tasks and for ten thousand.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from fabric.control import control_pb2 as pb
from fabric.coordinator.planner.stages import Key
from fabric.errors import FabricError

_RUNNING, _FINISHED = pb.TASK_RUNNING, pb.TASK_FINISHED
_ENDED = frozenset((pb.TASK_FINISHED, pb.TASK_FAILED, pb.TASK_CANCELLED))


class Task(NamedTuple):
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
    watermark_us: int | None = None
    """Of a stream: its event time so far."""
    counts: Mapping[tuple[str, str], int] = MappingProxyType({})
    """Of a stream: what it has counted, such as late rows, by node path and name."""
    started_s: float = 0.0
    ended_s: float = 0.0
    error: FabricError | None = None
    totals: Mapping[int, tuple[int, int]] = MappingProxyType({})
    """Rows and bytes by edge."""
    sizes: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    """Bytes of each partition of adaptive edges, until their consumers start."""

    @property
    def ended(self) -> bool:
        """Whether no report is to come any more."""
        return self.state in _ENDED

    @property
    def active(self) -> bool:
        """Whether an agent is at it."""
        return self.given and not self.ended

    @property
    def finished(self) -> bool:
        """Whether its output was sealed."""
        return self.state == _FINISHED

    def gone_to(self, agent_id: str, epoch: int) -> Task:
        """It is an agent's now."""
        return self._replace(agent_id=agent_id, given=True, epoch=epoch)

    def goes_on(self, report: pb.TaskReport, wall_s: float) -> Task:
        """It has begun, or has come further."""
        return self._replace(
            state=report.state,
            started_s=self.started_s or wall_s,
            rows_in=report.rows_in,
            rows_out=report.rows_out,
            backpressure_ratio=report.backpressure_ratio,
            watermark_us=report.watermark_us if report.HasField("watermark_us") else None,
            counts=_counted(report),
        )

    def ends(self, report: pb.TaskReport, wall_s: float) -> Task:
        """The attempt ended as `report` says."""
        outputs = report.outputs
        return self._replace(
            state=report.state,
            ended_s=wall_s,
            handle=report.sink_handle,
            rows_in=report.rows_in,
            rows_out=report.rows_out,
            backpressure_ratio=report.backpressure_ratio,
            counts=_counted(report),
            totals={total.edge: (total.rows, total.bytes) for total in outputs},
            sizes={t.edge: tuple(t.partition_bytes) for t in outputs if t.partition_bytes},
        )

    def again(self, not_before: float = 0.0) -> Task:
        """The next attempt, which waits."""
        return Task(self.agent_id, self.attempt + 1, failures=self.failures, not_before=not_before)


def _counted(report: pb.TaskReport) -> dict[tuple[str, str], int]:
    return {(each.node_path, each.name): each.n for each in report.counts}


@dataclass(slots=True)
class Counts:
    """Of the tasks of one stage; `waiting` are the numbers of those that nobody was given."""

    waiting: list[int] = field(default_factory=list)
    running: int = 0
    finished: int = 0
    lost: int = 0
    rows_out: int = 0
    totals: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Rows and bytes of what is sealed, by edge."""

    def take(self, number: int, task: Task, sign: int) -> None:
        """Count a task in (1) or out (-1)."""
        if not task.given and sign > 0:
            insort(self.waiting, number)
        elif not task.given:
            del self.waiting[bisect_left(self.waiting, number)]
        if task.state == _RUNNING:
            self.running += sign
        elif task.state == _FINISHED:
            self.finished += sign
        if task.lost:
            self.lost += sign
        self.rows_out += sign * task.rows_out
        if task.totals:  # few have any: asked first, because this runs twice for each change
            for edge, (rows, size) in task.totals.items():
                all_rows, all_bytes = self.totals.get(edge, (0, 0))
                self.totals[edge] = (all_rows + sign * rows, all_bytes + sign * size)


class Tasks:
    """All tasks of a job by (stage, task); a stage's are numbered from 0.

    >>> tasks = Tasks([["x", "y"]])
    >>> tasks[0, 1] = tasks[0, 1].gone_to("y", epoch=1)
    >>> tasks.of(0).waiting, dict(tasks.at_work)
    ([0], {'y': 1})
    """

    def __init__(self, placement: Iterable[Iterable[str]]) -> None:
        self._stages: list[list[Task]] = []
        self._counts: list[Counts] = []
        self.at_work: Counter[str] = Counter()
        """How many tasks each agent is at; nobody is listed with none."""
        self.n_attempts = self.n_waiting = self.n_finished = 0
        """Attempts beyond the first of each task; tasks that wait, or have finished."""
        for stage, agents in enumerate(placement):
            self.plan(stage, agents)

    def plan(self, stage: int, agents: Iterable[str]) -> None:
        """Make a stage's tasks anew, or those of a new one: they wait, best run on `agents`."""
        if stage == len(self._stages):
            self._stages.append([])
            self._counts.append(Counts())
        for number, task in enumerate(self._stages[stage]):
            self._count(stage, number, task, -1)
        self._stages[stage] = [Task(agent_id) for agent_id in agents]
        for number, task in enumerate(self._stages[stage]):
            self._count(stage, number, task, 1)

    def of(self, stage: int) -> Counts:
        """How many tasks of a stage are where."""
        return self._counts[stage]

    def stage(self, stage: int) -> Sequence[Task]:
        """The tasks of a stage, in order."""
        return self._stages[stage]

    def all_finished(self, stage: int) -> bool:
        """Whether every task of a stage has finished."""
        return self._counts[stage].finished == len(self._stages[stage])

    def get(self, key: Key) -> Task | None:
        """A task that may not be there."""
        stage, number = key
        if 0 <= stage < len(self._stages) and 0 <= number < len(self._stages[stage]):
            return self._stages[stage][number]
        return None

    def items(self) -> Iterator[tuple[Key, Task]]:
        """Every task by its key, in order."""
        for stage, tasks in enumerate(self._stages):
            for number, task in enumerate(tasks):
                yield (stage, number), task

    def values(self) -> Iterator[Task]:
        """Every task, in order."""
        return chain.from_iterable(self._stages)

    def __iter__(self) -> Iterator[Key]:
        return (key for key, _ in self.items())

    def __len__(self) -> int:
        return sum(map(len, self._stages))

    def __getitem__(self, key: Key) -> Task:
        return self._stages[key[0]][key[1]]

    def __setitem__(self, key: Key, task: Task) -> None:
        stage, number = key
        self._count(stage, number, self._stages[stage][number], -1)
        self._stages[stage][number] = task
        self._count(stage, number, task, 1)

    def _count(self, stage: int, number: int, task: Task, sign: int) -> None:
        self._counts[stage].take(number, task, sign)
        self.n_attempts += sign * task.attempt
        if not task.given:
            self.n_waiting += sign
        if task.state == _FINISHED:
            self.n_finished += sign
        elif task.active:
            n = self.at_work[task.agent_id] + sign
            if n:
                self.at_work[task.agent_id] = n
            else:
                del self.at_work[task.agent_id]
