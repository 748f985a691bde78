"""A simulated task: it reads its input, takes its time, and leaves rows behind.

One job: `Worker`, what `TaskRun` does with threads. Input comes from the agents that hold it, as
the deploy says; whatever happens, a report ends it, and without success nothing is left.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from fabric.agent.attempts import TaskSpec
from fabric.agent.router import partitions_of, producers_of
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import (
    CancelledError,
    DataError,
    ExternalError,
    FabricError,
    InternalError,
    PartitionLostError,
    PeerLostError,
)
from tests.support.sim.rows import Partitions, Row, output_rows, route
from tests.support.sim.scenario import ErrorKind, JobPlan
from tests.support.sim.shelf import Place, Read, Rows

if TYPE_CHECKING:
    from tests.support.sim.agent import AgentProcess

FETCH_S = 3.0
PIPE_S = 12.0
"""How long a task waits for the rows of a pipelined edge to begin."""
POLL_S = 0.15
KINDS = {
    pb.EDGE_HASH: "hash",
    pb.EDGE_BROADCAST: "broadcast",
    pb.EDGE_ROUND_ROBIN: "round_robin",
    pb.EDGE_GATHER: "gather",
    pb.EDGE_FORWARD: "forward",
    pb.EDGE_RANGE: "range",
}
_ERRORS: dict[ErrorKind, type[FabricError]] = {
    "retryable": ExternalError,
    "user": DataError,
    "internal": InternalError,
}


class Piece(NamedTuple):
    """One partition of one producer."""

    place: Place
    partition: int
    agent_id: str
    piped: bool


class Trouble:
    """What tasks are to run into, by job; a user's error comes again with every attempt."""

    def __init__(self) -> None:
        self._met: Counter[tuple[str, int, int]] = Counter()

    def n_met(self, job_id: str) -> int:
        """How often the same task of a job met one, at most."""
        return max((n for (job, _, _), n in self._met.items() if job == job_id), default=0)

    def meet(self, plan: JobPlan, key: pb.TaskKey) -> FabricError | None:
        """The error this attempt ends with, if any."""
        kind, times = plan.errors.get((key.stage, key.task), ("user", 0))
        task = (key.job_id, key.stage, key.task)
        if self._met[task] >= times and not (times and kind == "user"):
            return None
        self._met[task] += 1
        return _ERRORS[kind](f"planted {kind} error {self._met[task]}")


class Worker:
    """One attempt on one agent."""

    def __init__(self, agent: AgentProcess, spec: TaskSpec) -> None:
        self._agent, self.spec = agent, spec
        self._rng = agent.scheduler.rng
        self._plan = agent.invariants.plan(spec.id.job)
        self._taken: dict[Piece, list[Row]] = {}
        self._cancelled: str | None = None
        self._over = False
        self._began_s = agent.scheduler.now
        self._rows: tuple[Row, ...] = ()
        self._handle = b""

    @property
    def goes_on(self) -> bool:
        """Whether it has not ended, and nobody told it to."""
        return self._cancelled is None and not self._over

    @property
    def pipelined(self) -> bool:
        """Whether it runs together with others."""
        return self.spec.pipelined

    def start(self) -> None:
        """Open the outputs and begin to read."""
        for edge in self.spec.deploy.outputs:
            piped = edge.mode == pb.MODE_PIPELINED
            self._agent.shelf.begin(self._place(edge.edge), edge.n_partitions, piped=piped)
        pieces = self._pieces()
        self._rng.shuffle(pieces)
        self._step(0.001, lambda: self._read(pieces))

    def cancel(self, reason: str) -> None:
        """Make it stop; it notices when it does."""
        if self._cancelled is None:
            self._cancelled = reason
            self._agent.after(self._rng.choice((0.001, 0.05, 1.0)), self._stop)

    # ---- input

    def _pieces(self) -> list[Piece]:
        deploy, task = self.spec.deploy, self.spec.id.task
        return [
            Piece(
                Place(deploy.job_id, edge.edge, producer.task, producer.attempt),
                partition,
                producer.agent_id,
                edge.mode == pb.MODE_PIPELINED,
            )
            for edge in deploy.inputs
            for partition in partitions_of(edge.kind, edge.n_partitions, task, deploy.n_tasks)
            for producer in producers_of(edge, partition)
        ]

    def _read(self, left: list[Piece]) -> None:
        """Take one piece after the other, then work."""
        if not left:
            self._step(self._rng.uniform(0.3, 1.7) * self._plan.work_s, self._write)
            return
        self._ask(left[-1], left)

    def _ask(self, piece: Piece, left: list[Piece]) -> None:
        agent = self._agent
        n_taken = len(self._taken.get(piece, ())) if piece.piped else None
        fetch = Read(piece.place, piece.partition, n_taken)

        def answered(value: Any) -> None:
            self._step(0.0, lambda: self._got(piece, left, value))

        if piece.agent_id == agent.name:
            try:
                answered(agent.look(fetch))
            except FabricError as error:
                answered(error)
        elif not self.spec.deploy.addresses.get(piece.agent_id):
            answered(PeerLostError(f"agent {piece.agent_id} is gone"))
        else:
            agent.network.call(agent, piece.agent_id, "data", fetch, answered, timeout_s=FETCH_S)

    def _got(self, piece: Piece, left: list[Piece], value: Rows | FabricError | None) -> None:
        if isinstance(value, FabricError):
            self._lose(piece, value)
            return
        if value is None and self._agent.scheduler.now - self._began_s > PIPE_S:
            self._lose(piece, PeerLostError("no rows came"))
            return
        if value is not None:
            self._taken.setdefault(piece, []).extend(value.rows)
        if value is None or not value.ended:
            self._step(POLL_S, lambda: self._ask(piece, left))
            return
        place = piece.place
        self._agent.invariants.takes(self.spec.id, place, piece.partition, self._taken[piece])
        left.pop()
        self._read(left)

    def _lose(self, piece: Piece, error: FabricError) -> None:
        if piece.piped:
            self._fail(error)
            return
        lost = pb.LostInput(
            edge=piece.place.edge,
            task=piece.place.task,
            attempt=piece.place.attempt,
            agent_id=piece.agent_id,
            gone=isinstance(error, PartitionLostError),
        )
        self._fail(error, [lost])

    # ---- output

    def _write(self) -> None:
        if (error := self._agent.trouble.meet(self._plan, self.spec.key)) is not None:
            self._fail(error)
            return
        spec = self.spec
        inputs = self._taken.values() if spec.deploy.inputs else None
        self._rows = output_rows(spec.id.stage, spec.id.task, inputs)
        self._append(last=False)
        self._step(self._rng.uniform(0.0, 0.2) * self._plan.work_s, self._end)

    def _append(self, *, last: bool) -> None:
        """The first or the last half of every partition."""
        for edge in self.spec.deploy.outputs:
            halves = tuple(
                rows[len(rows) // 2 :] if last else rows[: len(rows) // 2]
                for rows in self._routed(edge)
            )
            self._agent.shelf.append(self._place(edge.edge), halves)

    def _routed(self, edge: pb.OutputEdge) -> Partitions:
        if self.spec.deploy.stage == self._sink_stage():
            return ((),) * edge.n_partitions  # its rows go outside
        return route(KINDS[edge.kind], edge.n_partitions, self.spec.id.task, self._rows)

    def _sink_stage(self) -> int:
        return len(self._plan.graph.stages) - 1 if self._plan.sink else -1

    def _end(self) -> None:
        """The rest of the rows, then the handle; the seal is a step of its own."""
        self._append(last=True)
        self._prepare()
        self._step(self._rng.choice((0.0, 0.01)), self._succeed)

    def _prepare(self) -> None:
        agent, spec = self._agent, self.spec
        if spec.deploy.stage == self._sink_stage():
            self._handle = f"{spec.id}@{agent.name}.{agent.life}.{agent.new_number()}".encode()
            agent.outside.prepare(self._handle, spec.id.job, self._rows)

    def _succeed(self) -> None:
        self._seal()
        self._tell_success()

    def _seal(self) -> None:
        for edge in self.spec.deploy.outputs:
            place = self._place(edge.edge)
            if self._agent.shelf.seal(place):
                self._agent.invariants.sealed(place, self._routed(edge))

    def _tell_success(self) -> None:
        report = self._report(pb.TASK_FINISHED)
        for edge in self.spec.deploy.outputs:
            n_rows = sum(map(len, self._routed(edge)))
            report.outputs.add(edge=edge.edge, rows=n_rows, bytes=10 * n_rows)
        report.sink_handle = self._handle
        self._finish(report)

    # ---- the end

    def _stop(self) -> None:
        if not self._over and self._cancelled is not None:
            self._fail(CancelledError(self._cancelled))

    def _fail(self, error: FabricError, lost: list[pb.LostInput] | None = None) -> None:
        for edge in self.spec.deploy.outputs:
            self._agent.shelf.discard(self._place(edge.edge))
        if self._handle:
            self._agent.outside.drop([self._handle])
        cancelled = self._cancelled is not None
        report = self._report(pb.TASK_CANCELLED if cancelled else pb.TASK_FAILED)
        report.error.CopyFrom(to_detail(error.at(job=self.spec.id.job, task=str(self.spec.id))))
        report.lost.extend(lost or [])
        self._finish(report)

    def _finish(self, report: pb.TaskReport) -> None:
        self._over = True
        agent, task_id = self._agent, self.spec.id
        agent.after(self._rng.choice((0.0, 0.003)), lambda: agent.ended(task_id, report))

    def _report(self, state: pb.TaskState) -> pb.TaskReport:
        return pb.TaskReport(
            key=self.spec.key,
            state=state,
            rows_in=sum(map(len, self._taken.values())),
            rows_out=len(self._rows),
            seconds=self._agent.scheduler.now - self._began_s,
        )

    def _place(self, edge: int) -> Place:
        task_id = self.spec.id
        return Place(task_id.job, edge, task_id.task, task_id.attempt)

    def _step(self, delay_s: float, action: Any) -> None:
        """Do `action` unless the attempt is over by then."""

        def go() -> None:
            if not self._over:
                action()

        self._agent.after(delay_s, go)
