"""The control API over real sockets: answers, streams, errors, refusals."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import grpc
import pyarrow as pa
import pytest

from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control import rpc
from fabric.control.api import SERVICE
from fabric.control.client import GrpcControl
from fabric.control.grpc_link import GrpcLink
from fabric.control.link import LocalLink
from fabric.control.rpc import ERROR_KEY
from fabric.coordinator.service.auth import SCOPES
from fabric.errors import AuthError, ConfigError, NotFoundError, PeerLostError, PlanError
from fabric.security.tokens import Scope, Signer
from tests.support.control_stub import control_stub


@pytest.fixture
def control(served: SimpleNamespace) -> Any:
    made = GrpcControl(served.address, served.token("submit"), connect_s=3.0, find_s=0.5)
    yield made
    made.close()


def test_a_job_over_the_network(served: Any, control: Any, make_agent: Any, request_: Any) -> None:
    agents = [
        make_agent(name).attach(GrpcLink(served.address, served.token("agent"))) for name in "ab"
    ]
    status = control.submit(request_)
    assert (status.name, status.result_path) == ("by k", "by")
    *_, last = control.watch(pb.JobRequest(job_id=status.job_id))
    assert (last.state, last.result_rows) == (pb.JOB_FINISHED, 20)
    assert [stage.n_tasks for stage in last.stages] == [2, 2]
    found = control.locate(pb.LocateRequest(job_id=status.job_id))
    assert {edge.node_path for edge in found.edges} == {"by", "by/exchange"}
    assert [a.agent_id for a in control.list_agents(pb.ListRequest()).agents] == ["a", "b"]
    assert control.explain(request_).stages.startswith("stage 0 (by): 2 tasks")
    assert control.release(pb.JobRequest(job_id=status.job_id)).state == pb.JOB_RELEASED
    assert len(control.list_jobs(pb.ListRequest()).jobs) == 1
    for agent in agents:
        agent.until(lambda agent=agent: "release" in agent.kinds())
        agent.link.close()


def test_what_runs_can_be_looked_at(
    served: Any, control: Any, make_agent: Any, request_: Any
) -> None:
    agent = make_agent("a", finish=False).attach(LocalLink(served.runtime))
    job = pb.JobRequest(job_id=control.submit(request_).job_id)
    (task,) = control.list_tasks(job).tasks
    assert (task.stage, task.task, task.agent_id, task.node_path) == (0, 0, "a", "by")
    plan = control.job_plan(job)
    assert plan.optimised.startswith("by: ")
    assert plan.stages.startswith("stage 0")
    assert plan.svg.startswith("<svg")
    kinds = [event.kind for event in control.list_events(pb.EventsRequest()).events]
    assert kinds == ["coordinator leads", "agent attached", "job submitted"]
    (started,) = control.list_events(pb.EventsRequest(job_id=job.job_id)).events
    assert (started.number, started.job_id, started.epoch) == (3, job.job_id, served.runtime.epoch)
    assert len(control.list_events(pb.EventsRequest(last=1)).events) == 1
    for unknown in (control.list_tasks, control.job_plan):
        with pytest.raises(NotFoundError, match="there is no job 'job-9'"):
            unknown(pb.JobRequest(job_id="job-9"))
    agent.link.close()


def test_cancel_ends_a_watch(served: Any, control: Any, make_agent: Any, request_: Any) -> None:
    agent = make_agent("a", finish=False).attach(LocalLink(served.runtime))
    job = pb.JobRequest(job_id=control.submit(request_).job_id)
    watch = control.watch(job)
    assert next(watch).state == pb.JOB_RUNNING
    assert control.cancel(job).state == pb.JOB_RUNNING
    agent.until(lambda: "cancel" in agent.kinds())
    (deploy,) = (m.deploy for m in agent.heard if m.WhichOneof("kind") == "deploy")
    agent.run(deploy, pb.TASK_CANCELLED)
    *_, last = watch
    assert (last.state, last.error.kind) == (pb.JOB_CANCELLED, "CancelledError")
    agent.link.close()


def test_errors_come_back_as_what_they_were(served: Any, control: Any, make_agent: Any) -> None:
    agent = make_agent("a").attach(LocalLink(served.runtime))
    with pytest.raises(NotFoundError, match="there is no job 'job-9'"):
        control.cancel(pb.JobRequest(job_id="job-9"))
    with pytest.raises(NotFoundError, match="there is no job 'job-9'"):
        list(control.watch(pb.JobRequest(job_id="job-9")))
    with pytest.raises(PlanError):
        control.submit(pb.SubmitRequest(plan=b"junk"))
    with pytest.raises(NotFoundError, match="no dataset 'd'"):
        control.dataset(pb.DatasetRequest(drop=pb.DatasetDrop(name="d")))
    agent.link.close()


def test_keys_belong_to_the_subject_of_the_token(
    served: Any, make_agent: Any, request_: Any
) -> None:
    def token(subject: str, scope: Scope = "submit") -> str:
        return Signer(b"s" * 32).token(scope, subject, 60.0, SystemClock().wall_s())

    agent = make_agent("a", finish=False).attach(LocalLink(served.runtime))
    keyed = pb.SubmitRequest(plan=request_.plan, client_key="load-7")
    schema = pa.schema([("k", pa.int64())]).serialize().to_pybytes()
    begin = pb.DatasetBegin(name="d", schema=schema, idempotency_key="load-7", subject="client ann")
    asked = pb.DatasetRequest(begin=begin)
    jobs, transactions = [], []
    with (
        closing(GrpcControl(served.address, token("ann"))) as ann,
        closing(GrpcControl(served.address, token("bob"))) as bob,
        closing(GrpcControl(served.address, token("a", "agent"))) as relay,
    ):
        for control in (ann, ann, bob, bob, relay):  # an agent says whose it is, bob can't
            jobs.append(control.submit(keyed).job_id)
            transactions.append(control.dataset(asked).transaction)
        with pytest.raises(ConfigError, match="at most 256 characters"):
            bob.submit(pb.SubmitRequest(plan=request_.plan, client_key="x" * 257))
    assert [jobs.index(job) for job in jobs] == [0, 0, 2, 2, 4]
    assert [transactions.index(one) for one in transactions] == [0, 0, 2, 2, 0]
    agent.link.close()


def test_only_agents_are_told_how_the_state_of_streams_is_read(served: Any) -> None:
    asked = pb.LocateRequest(states=True)
    for scope in ("read", "write", "submit"):
        with (
            closing(GrpcControl(served.address, served.token(scope))) as control,
            pytest.raises(AuthError, match=f"scope 'agent', this one has '{scope}'"),
        ):
            control.locate(asked)
    with closing(GrpcControl(served.address, served.token("read"))) as control:
        assert not control.locate(pb.LocateRequest()).states
    with closing(GrpcControl(served.address, served.token("agent"))) as control:
        assert not control.locate(asked).states


def test_unexpected_errors_tell_nothing_but_are_logged(
    served: Any, control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: object) -> None:
        raise KeyError("/home/ann/secret")

    monkeypatch.setattr(served.runtime, "list_jobs", broken)
    with pytest.raises(Exception, match="unexpected KeyError") as caught:
        control.list_jobs(pb.ListRequest())
    assert "secret" not in str(caught.value)
    assert any("secret" in fields.get("error", "") for _, fields in served.logged)


def calls(address: str) -> tuple[grpc.Channel, dict[str, Any]]:
    channel = grpc.insecure_channel(address)
    stub = control_stub(channel)
    requests = {
        "Submit": pb.SubmitRequest(),
        "Explain": pb.SubmitRequest(),
        "Watch": pb.JobRequest(),
        "Cancel": pb.JobRequest(),
        "Release": pb.JobRequest(),
        "Restart": pb.RestartRequest(),
        "Rescale": pb.RescaleRequest(),
        "ListTasks": pb.JobRequest(),
        "ListCheckpoints": pb.CheckpointsRequest(),
        "TakeCheckpoint": pb.TakeCheckpointRequest(),
        "ListSavepoints": pb.SavepointsRequest(),
        "DeleteSavepoint": pb.SavepointsRequest(),
        "ListStreams": pb.StreamsRequest(),
        "DropStream": pb.StreamsRequest(),
        "JobPlan": pb.JobRequest(),
        "ListEvents": pb.EventsRequest(),
        "Drain": pb.AgentRequest(),
        "Undrain": pb.AgentRequest(),
        "ListJobs": pb.ListRequest(),
        "ListAgents": pb.ListRequest(),
        "Locate": pb.LocateRequest(),
        "Dataset": pb.DatasetRequest(),
        "Depose": pb.Leadership(),
        "Attach": iter([pb.AgentMessage(hello=pb.Hello(agent_id="a"))]),
    }

    def one(method: str) -> Any:
        def call(metadata: Any) -> None:
            answer = getattr(stub, method)(requests[method], metadata=metadata, timeout=60)
            if method in ("Watch", "Attach"):
                next(answer)

        return call

    return channel, {method: one(method) for method in requests}


def test_the_table_of_scopes_names_every_call() -> None:
    assert {method.name for method in SERVICE.methods} == set(SCOPES)


@pytest.mark.parametrize("method", SCOPES)
def test_every_call_needs_a_token(served: Any, method: str) -> None:
    channel, all_calls = calls(served.address)
    lesser = {"agent": "submit", "submit": "write", "read": None}[SCOPES[method]]
    bad = {
        "none": [],
        "other scheme": [("authorization", "Basic abc")],
        "not ours": [("authorization", "Bearer fab1.e30.AAAA")],
        "expired": [("authorization", f"Bearer {served.token(SCOPES[method], -3600.0)}")],
        "two": [("authorization", f"Bearer {served.token('agent')}")] * 2,
    }
    if lesser:
        bad["lesser scope"] = [("authorization", f"Bearer {served.token(lesser)}")]
    for why, metadata in bad.items():
        with pytest.raises(grpc.RpcError) as caught:
            all_calls[method](metadata)
        assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED, why
        assert "Traceback" not in caught.value.details()
        assert ERROR_KEY in dict(caught.value.trailing_metadata())
    channel.close()
    assert not served.runtime.list_agents(pb.ListRequest()).agents


def test_ctrl_c_while_a_channel_closes_leaves_it_to_be_closed(control: Any) -> None:
    """gRPC's own closing, once interrupted, is never taken up again: `__del__` waits for it."""
    closing, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def close() -> None:
        closing.set()
        assert go_on.wait(30)
        closed.set()

    def interrupt() -> None:
        assert closing.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    control._channel = SimpleNamespace(close=close)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pressing = threading.Thread(target=interrupt)
    pressing.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            control.close()
    finally:
        pressing.join()
        signal.signal(signal.SIGINT, before)
    go_on.set()
    assert closed.wait(30)


def test_ctrl_c_while_connecting_closes_the_channel(
    control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = SimpleNamespace(close=lambda: closed.append(threading.current_thread()))
    closed: list[threading.Thread] = []

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rpc, "open_channel", lambda *_, **__: channel)
    monkeypatch.setattr(grpc, "channel_ready_future", interrupted)
    with pytest.raises(KeyboardInterrupt):
        control.list_agents(pb.ListRequest())
    assert len(closed) == 1
    assert closed[0] is not threading.current_thread()


def test_a_process_that_was_stopped_as_it_connected_did_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first short wait was over when it went on; what it waits for came just after."""
    waits: list[float] = []

    def result(timeout: float) -> None:
        waits.append(timeout)
        if len(waits) == 1:
            raise grpc.FutureTimeoutError

    channel = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(rpc, "open_channel", lambda *_, **__: channel)
    monkeypatch.setattr(grpc, "channel_ready_future", lambda _: SimpleNamespace(result=result))
    found: Any = rpc.connected("127.0.0.1:1", None, within_s=3.0, hurried=False)
    assert found is channel
    assert len(waits) == 2
    assert sum(waits) <= 3.0


def test_unknown_calls_are_refused(served: Any) -> None:
    with grpc.insecure_channel(served.address) as channel:
        call = channel.unary_unary("/fabric.control.v1.Control/Shutdown")
        metadata = [("authorization", f"Bearer {served.token('agent')}")]
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", metadata=metadata, timeout=60)
        assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_a_wrong_token_says_what_to_do(served: Any) -> None:
    control = GrpcControl(served.address, "fab1.e30.AAAA")
    with pytest.raises(AuthError, match="use the text of its token file"):
        control.list_jobs(pb.ListRequest())
    with pytest.raises(AuthError, match="token file"):
        list(control.watch(pb.JobRequest(job_id="x")))
    control.close()
    control = GrpcControl(served.address, served.token("read"))
    with pytest.raises(AuthError, match="needs a token of scope 'submit', this one has 'read'"):
        control.submit(pb.SubmitRequest())
    control.close()
    for nothing in ("", "line\nbreak", "é"):
        with pytest.raises(AuthError, match="token is missing or no token"):
            GrpcControl(served.address, nothing)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_nobody_there(free_port: int) -> None:
    address = f"127.0.0.1:{free_port}"
    control = GrpcControl(address, "t", connect_s=0.5)
    before = time.monotonic()
    with pytest.raises(PeerLostError, match=f"no coordinator answers at {address}; is it running"):
        control.list_jobs(pb.ListRequest())
    assert time.monotonic() - before < 30.0
    control.close()
    with pytest.raises(PeerLostError, match="is closed"):
        control.list_jobs(pb.ListRequest())


def test_somebody_else_there() -> None:
    """A server that accepts and never speaks."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        control = GrpcControl(address, "t", connect_s=0.5)
        with pytest.raises(PeerLostError, match="no coordinator answers"):
            control.list_jobs(pb.ListRequest())
        control.close()


def test_a_coordinator_that_goes_away(
    served: Any, control: Any, make_agent: Any, request_: Any
) -> None:
    make_agent("a", finish=False).attach(LocalLink(served.runtime))
    watch = control.watch(pb.JobRequest(job_id=control.submit(request_).job_id))
    next(watch)
    stopper = threading.Thread(target=served.runtime.close)
    stopper.start()
    with pytest.raises(PeerLostError, match="was stopped"):
        list(watch)
    stopper.join()
    served.server.stop()
    with pytest.raises(PeerLostError, match="no coordinator answers"):
        control.list_jobs(pb.ListRequest())


def test_bursts_of_calls_are_answered(served: Any, control: Any) -> None:
    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda _: control.list_jobs(pb.ListRequest()), range(1500)))
    assert len(answers) == 1500


def test_large_plans_are_refused_by_name(served: Any, control: Any) -> None:
    with pytest.raises(PlanError, match="at most 16777216 are allowed"):
        control.submit(pb.SubmitRequest(plan=bytes(17 << 20)))
    with pytest.raises(Exception, match="larger than 64 MiB"):
        control.submit(pb.SubmitRequest(plan=bytes(65 << 20)))
