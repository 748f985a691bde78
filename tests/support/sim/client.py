"""A simulated client: it submits its job until somebody answers, follows it, reads, releases.

One job: `Client`. It repeats what got no answer under the same key, and remembers what it was told:
that must stay true. What it ends with is judged in `judge.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.errors import FabricError
from tests.support.sim.coordinator import Ask, Submit
from tests.support.sim.invariants import Invariants
from tests.support.sim.network import Network
from tests.support.sim.party import Party
from tests.support.sim.rows import Row
from tests.support.sim.scenario import JobPlan
from tests.support.sim.shelf import Place, Read
from tests.support.sim.trace import Trace

CALL_S = 1.0
PAUSE_S = (0.2, 1.0)
RESTARTS_MAX = 2

Piece = tuple[str, Place, int]


class Client(Party):
    """One job's owner."""

    def __init__(
        self,
        plan: JobPlan,
        network: Network,
        trace: Trace,
        *,
        coordinators: Sequence[str],
        invariants: Invariants,
    ) -> None:
        super().__init__(plan.key, network.scheduler, trace)
        self.plan, self._network, self._invariants = plan, network, invariants
        self._coordinators = coordinators
        self._turn = 0
        self.job_id = ""
        self.status: pb.JobStatus | None = None
        """The last one it was told."""
        self.rows: Counter[Row] | None = None
        """The result, once read."""
        self.cancelled = self.released = False
        self.n_restarts = 0

    def boot(self) -> None:
        """See `Party.boot`."""
        self.after(self.plan.at_s, self._submit)

    @property
    def settled(self) -> bool:
        """Whether the job has ended and its result was read."""
        if self.status is None or self.status.state not in ENDED or self._is_to_restart():
            return False
        finished = self.status.state == pb.JOB_FINISHED
        return self.plan.sink or not finished or self.rows is not None

    # ---- the job

    def _submit(self) -> None:
        self._call(Submit(self.plan), self._submitted, self._submit)

    def _submitted(self, status: pb.JobStatus) -> None:
        self.say(f"has job {status.job_id}")
        self.job_id = status.job_id
        self._invariants.acknowledged(self.plan.key, status.job_id)
        if self.plan.cancel_after_s is not None:
            self.after(self.plan.cancel_after_s, self._cancel)
        self._follow(status)

    def _cancel(self) -> None:
        self.cancelled = True
        self._call(Ask("cancel", self.job_id), lambda _: None, self._cancel)

    def _ask(self) -> None:
        self._call(Ask("status", self.job_id), self._follow, self._ask)

    def _hear(self, status: pb.JobStatus) -> None:
        self._invariants.told(status)
        self.status = status

    def _follow(self, status: pb.JobStatus) -> None:
        self._hear(status)
        if status.state not in ENDED:
            self._pause(self._ask)
        else:
            self.say(f"{pb.JobState.Name(status.state)[4:].lower()}: {status.error.message}")
            if status.state == pb.JOB_FINISHED and not self.plan.sink:
                self._locate()
            elif self._is_to_restart():
                self._restart()

    def _is_to_restart(self) -> bool:
        """What failed for a reason that may pass is tried again, as a person would."""
        failed = self.status is not None and self.status.state == pb.JOB_FAILED
        return failed and self.n_restarts < RESTARTS_MAX and self._may_pass()

    def _may_pass(self) -> bool:
        return any(kind == "retryable" for kind, _ in self.plan.errors.values())

    def ask_aside(self, request: Ask, then: Callable[[], None]) -> None:
        """Ask for something that is not for this job, until somebody has done it."""
        self._call(request, lambda _: then(), lambda: self.ask_aside(request, then))

    def release(self) -> None:
        """Let the job's partitions go."""
        if self.job_id and not self.released:
            self._call(Ask("release", self.job_id), self._was_released, self.release)

    def _was_released(self, status: pb.JobStatus) -> None:
        self.released = True

    # ---- its result

    def _locate(self) -> None:
        self._call(Ask("locate", self.job_id), self._located, self._locate)

    def _located(self, found: pb.Locations) -> None:
        (edge,) = (edge for edge in found.edges if edge.is_result)
        pieces = [
            (producer.agent_id, Place(edge.job_id, edge.edge, producer.task, producer.attempt), p)
            for producer in edge.producers
            for p in range(edge.n_partitions)
        ]
        if edge.complete and len(edge.producers) == edge.n_producers:
            self._read(pieces, Counter())
        else:
            self._restart()

    def _restart(self) -> None:
        """Have what failed, or was lost, made again."""
        self._call(Ask("restart", self.job_id), self._restarted, self._ask)

    def _restarted(self, status: pb.JobStatus) -> None:
        self.n_restarts += 1
        self._follow(status)

    def _read(self, pieces: list[Piece], rows: Counter[Row]) -> None:
        if not pieces:
            self.rows = rows
            self.say(f"read {rows.total()} rows")
            return
        agent_id, place, partition = pieces[-1]

        def answered(value: Any) -> None:
            if isinstance(value, FabricError):
                self.say(f"can't read {place}: {value.message}")
                self._pause(self._ask)
                return
            self._invariants.takes(self.name, place, partition, list(value.rows))
            self._read(pieces[:-1], rows + Counter(value.rows))

        fetch = Read(place, partition)
        self._network.call(self, agent_id, "data", fetch, answered, timeout_s=CALL_S)

    # ---- calls

    def _call(self, request: Any, heard: Callable[[Any], None], again: Callable[[], None]) -> None:
        """Ask a coordinator; without an answer, do it again."""
        target = self._coordinators[self._turn % len(self._coordinators)]

        def answered(value: Any) -> None:
            if not isinstance(value, FabricError):
                heard(value)
                return
            self._turn += 1
            self._invariants.refused(self.plan.key, self.job_id, value)
            self._pause(again)

        self._network.call(self, target, "control", request, answered, timeout_s=CALL_S)

    def _pause(self, action: Callable[[], None]) -> None:
        self.after(self.scheduler.rng.uniform(*PAUSE_S), action)
