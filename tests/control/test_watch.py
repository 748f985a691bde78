"""A watch goes on whatever becomes of the streams it is made of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from fabric.clients.job.job import Job
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.errors import InternalError
from tests.support.control_stub import add_control

JOB = pb.JobRequest(job_id="job-1")
RUNNING = pb.JobStatus(job_id="job-1", state=pb.JOB_RUNNING)
FINISHED = pb.JobStatus(job_id="job-1", state=pb.JOB_FINISHED)
GUARD_S = 60.0


class Coordinator:
    """Answers each watch as the next of `streams` does."""

    def __init__(self) -> None:
        self.streams: list[Callable[[Any], Iterator[pb.JobStatus]]] = []
        self.n_watched = 0
        self.over = threading.Event()

    def Watch(self, request: pb.JobRequest, context: Any) -> Iterator[pb.JobStatus]:
        self.n_watched += 1
        return self.streams[min(self.n_watched, len(self.streams)) - 1](context)

    def ListJobs(self, request: pb.ListRequest, context: Any) -> pb.JobList:
        return pb.JobList()


@pytest.fixture
def coordinator() -> Iterator[SimpleNamespace]:
    told = Coordinator()
    server = grpc.server(ThreadPoolExecutor(4))
    add_control(told, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()

    def control(**settings: float) -> GrpcControl:
        return GrpcControl(f"127.0.0.1:{port}", "token", **settings)

    yield SimpleNamespace(told=told, control=control)
    told.over.set()
    server.stop(None).wait()


def job_of(control: Any) -> Job:
    session = SimpleNamespace(control=control, job_ended=lambda _: None, ended=lambda _: None)
    return Job(session, RUNNING)  # type: ignore[arg-type]


@pytest.mark.parametrize("n_heard", [0, 1])
def test_a_stream_that_is_stuck_is_replaced(coordinator: Any, n_heard: int) -> None:
    told = coordinator.told

    def stuck(context: Any) -> Iterator[pb.JobStatus]:
        yield from [RUNNING] * n_heard
        told.over.wait()

    told.streams = [lambda _: iter([RUNNING]), stuck, stuck, lambda _: iter([RUNNING, FINISHED])]
    with closing(coordinator.control(watch_s=0.3)) as control:
        assert list(control.watch(JOB)) == [RUNNING]  # somebody is there
        assert job_of(control).wait(GUARD_S).last.state == pb.JOB_FINISHED
    assert told.n_watched == 4


def test_a_stream_may_break_again_and_again(coordinator: Any) -> None:
    def broken(context: Any) -> Iterator[pb.JobStatus]:
        yield RUNNING
        context.abort(grpc.StatusCode.UNAVAILABLE, "restarting")

    coordinator.told.streams = [broken] * 5 + [lambda _: iter([FINISHED])]
    with closing(coordinator.control()) as control:
        control.list_jobs(pb.ListRequest())  # somebody is there
        assert job_of(control).wait(GUARD_S).last.state == pb.JOB_FINISHED


def test_a_channel_that_another_thread_gave_up_is_opened_again(coordinator: Any) -> None:
    coordinator.told.streams = [lambda _: iter([RUNNING]), lambda _: iter([FINISHED])]
    with closing(coordinator.control()) as control:
        assert list(control.watch(JOB)) == [RUNNING]
        control._channel.close()
        assert job_of(control).wait(GUARD_S).last.state == pb.JOB_FINISHED
        control._channel.close()
        assert not control.list_jobs(pb.ListRequest()).jobs


def test_a_watch_that_ends_by_a_bug_is_heard_of() -> None:
    def broken(_: pb.JobRequest) -> Iterator[pb.JobStatus]:
        yield RUNNING
        raise KeyError("bug")

    with pytest.raises(InternalError, match=r"ended by KeyError\('bug'\)"):
        job_of(SimpleNamespace(watch=broken)).wait(GUARD_S)
