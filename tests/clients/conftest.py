"""A coordinator that says what a test tells it to, and a session on it."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pyarrow as pa
import pytest

from fabric.clients.job.host import Partition
from fabric.clients.session.kept_state import StateFacts, StatePath
from fabric.clients.session.session import Session
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED, ControlApi
from fabric.errors import NotFoundError
from fabric.plan.nodes import Plan

ROWS = pa.table({"a": [1, 2]})


class FakeControl(ControlApi):
    """One job; `say` gives its next status."""

    def __init__(self) -> None:
        self.said: queue.SimpleQueue[pb.JobStatus] = queue.SimpleQueue()
        self.calls: list[str] = []

    def status(self, state: pb.JobState, **more: object) -> pb.JobStatus:
        schema = ROWS.schema.serialize().to_pybytes()
        return pb.JobStatus(
            job_id="job-1", name="test", state=state, result_path="result", result_schema=schema,
            **more,  # type: ignore[arg-type]
        )  # fmt: skip

    def say(self, state: pb.JobState, **more: object) -> None:
        self.said.put(self.status(state, **more))

    def watch(self, request: pb.JobRequest) -> Iterator[pb.JobStatus]:
        if request.job_id != "job-1":
            raise NotFoundError(f"there is no job {request.job_id!r}")
        while True:
            status = self.said.get()
            yield status
            if status.state in ENDED:
                return

    def cancel(self, request: pb.JobRequest) -> pb.JobStatus:
        self.calls.append("cancel")
        self.say(pb.JOB_CANCELLED)
        return self.status(pb.JOB_CANCELLED)

    def release(self, request: pb.JobRequest) -> pb.JobStatus:
        self.calls.append("release")
        return self.status(pb.JOB_RELEASED)

    def list_jobs(self, request: pb.ListRequest) -> pb.JobList:
        return pb.JobList(jobs=[self.status(pb.JOB_RUNNING)])


class FakeSession(Session):
    """A session whose results are `ROWS`."""

    def result_batches(self, status: pb.JobStatus) -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()

    def partitions(self, status: pb.JobStatus, node_path: str, lossless: bool) -> list[Partition]:
        return [
            Partition(number=0, path=("job", "job-1", node_path, "0"), ticket=b"t",
                      locations=("grpc+tcp://127.0.0.1:1",))
        ]  # fmt: skip

    def view_rows(
        self, address: str, name: str, partition: int, keys: pa.Table, *, live: bool
    ) -> pa.Table:
        raise NotFoundError(f"there is no dataset {name!r}")

    def states(self, job: str = "") -> list[StateFacts]:
        return []

    def state_facts(self, path: StatePath) -> StateFacts:
        raise NotFoundError(f"job {path[1]} keeps no state")

    def state_rows(self, path: StatePath, limit: int = 0) -> pa.Table:
        raise NotFoundError(f"job {path[1]} keeps no state")

    def state_rows_of(self, path: StatePath, keys: pa.Table) -> pa.Table:
        raise NotFoundError(f"job {path[1]} keeps no state")

    @property
    def flight_url(self) -> str:
        return "grpc+tcp://127.0.0.1:1"

    @property
    def token(self) -> str:
        return "token"

    def _prepared(self, plan: Plan) -> Plan:
        return plan

    def _stop(self) -> None:
        pass


@pytest.fixture
def control() -> FakeControl:
    return FakeControl()


@pytest.fixture
def session(control: FakeControl) -> Iterator[FakeSession]:
    with FakeSession(control) as opened:
        assert isinstance(opened, FakeSession)
        yield opened
