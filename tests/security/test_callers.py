"""Who did it: events and the log name subject and peer of what was asked for, and of refusals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.rest.server import RestServer
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.service.server import ControlServer
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.errors import AuthError
from fabric.plan.codec import encode
from fabric.plan.nodes import Plan, Scan
from fabric.plan.sources import FileSource
from fabric.security.callers import REFUSALS_SHOWN, Caller, Refusals, calling
from fabric.security.tokens import Claims, Scope, Signer
from tests.support.wait import wait_until

SIGNER = Signer(b"s" * 32)
DORA = Claims(scope="write", subject="dora", expires_s=0.0, token_id="1")
SCHEMA = pa.schema([("k", pa.int64())])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A coordinator behind gRPC and REST with an agent that never finishes anything."""
    clock, logged = SystemClock(), []
    config = CoordinatorConfig(home=tmp_path, port=0, rest_port=0, timeout_s=60.0)

    def log(event: str, fields: Any) -> None:
        logged.append((event, dict(fields)))

    def token(scope: Scope, subject: str = "ann") -> str:
        return SIGNER.token(scope, subject, 600.0, clock.wall_s())

    with CoordinatorRuntime(config=config, clock=clock, log=log) as runtime:
        hello = pb.Hello(agent_id="a", address="local:a", cpus=1, slots=1)
        runtime.attach("a", hello, lambda _: None)
        parts = Parts(config, SIGNER, clock, log)
        grpc_ = ControlServer(parts, Front(runtime))
        rest = RestServer(parts, runtime, PlanPool())
        yield SimpleNamespace(
            address=grpc_.start(), url=rest.start(), token=token, logged=logged, runtime=runtime
        )
        rest.stop()
        grpc_.stop()


@pytest.fixture
def request_(tmp_path: Path) -> pb.SubmitRequest:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": [1, 2]}), path)
    plan = Plan(Scan(FileSource("parquet", (str(path),)), pq.read_schema(path), path="scan"))
    return pb.SubmitRequest(plan=encode(plan))


def who_did(served: Any, kind: str) -> str:
    """Who is named by the newest event of a kind; the log says the same."""
    served.runtime.flush()
    events = served.runtime.list_events(pb.EventsRequest()).events
    who = next(event.who for event in reversed(events) if event.kind == kind)
    assert [f.get("who", "") for e, f in served.logged if e == kind][-1] == who
    return str(who)


def test_over_grpc(served: Any, request_: pb.SubmitRequest) -> None:
    with closing(GrpcControl(served.address, served.token("submit"))) as control:
        job = pb.JobRequest(job_id=control.submit(request_).job_id)
        control.drain(pb.AgentRequest(agent_id="a"))
        control.undrain(pb.AgentRequest(agent_id="a"))
        control.release(job)
        control.cancel(job)
        begin = pb.DatasetBegin(
            name="d", schema=SCHEMA.serialize().to_pybytes(), n_partitions=1, mode="create"
        )
        begun = control.dataset(pb.DatasetRequest(begin=begin))
        commit = pb.DatasetCommit(transaction=begun.transaction)
        control.dataset(pb.DatasetRequest(commit=commit))
        control.dataset(pb.DatasetRequest(drop=pb.DatasetDrop(name="d")))
    for kind in (
        "job submitted", "agent drains", "agent works again", "release asked", "cancel asked",
        "dataset dropped",
    ):  # fmt: skip
        assert who_did(served, kind).startswith("ann from 127.0.0.1:"), kind
    events = served.runtime.list_events(pb.EventsRequest()).events
    assert {event.who for event in events if event.kind == "agent attached"} == {""}


def test_over_http(served: Any, request_: pb.SubmitRequest) -> None:
    headers = {"Authorization": f"Bearer {served.token('submit', 'bea')}"}
    with httpx.Client(base_url=f"{served.url}/api/v1", headers=headers, timeout=60) as api:
        content_type = {"content-type": "application/x-protobuf"}
        job = api.post("/jobs", content=request_.plan, headers=content_type).json()["job_id"]
        assert who_did(served, "job submitted").startswith("bea from 127.0.0.1:")
        api.post(f"/jobs/{job}/cancel")
        assert who_did(served, "cancel asked").startswith("bea from 127.0.0.1:")
        told = api.get(f"/jobs/{job}/events").json()
        assert {"bea"} <= {event["who"].split(" ")[0] for event in told}


def test_through_a_form(served: Any) -> None:
    with httpx.Client(base_url=served.url, timeout=60) as browser:
        browser.post("/login", data={"token": served.token("submit", "carl")})
        word = browser.get("/agents").text.split('name="word" value="')[1].split('"')[0]
        assert browser.post("/agents/a/drain", data={"word": word}).status_code == 303
    assert who_did(served, "agent drains").startswith("carl from 127.0.0.1:")


def test_an_agent_says_whom_it_asks_for_and_nobody_else_may(served: Any) -> None:
    asked = pb.AgentRequest(agent_id="a")
    for scope, undo, shown in (
        ("agent", False, "dora by agent-1 from 127.0.0.1:"),
        ("submit", True, "agent-1 from 127.0.0.1:"),
    ):
        with (
            closing(GrpcControl(served.address, served.token(scope, "agent-1"))) as control,
            calling(Caller(DORA)),
        ):
            (control.undrain if undo else control.drain)(asked)
        kind = "agent works again" if undo else "agent drains"
        assert who_did(served, kind).startswith(shown)


def test_refused_calls_are_in_the_log(served: Any) -> None:
    for token, shown in (
        (served.token("read", "eve"), "eve from 127.0.0.1:"),
        ("nonsense", "somebody from 127.0.0.1:"),
    ):
        with closing(GrpcControl(served.address, token)) as control, pytest.raises(AuthError):
            control.drain(pb.AgentRequest(agent_id="a"))
        wait_until(lambda: any(event == "call refused" for event, _ in served.logged))
        ((_, fields),) = [one for one in served.logged if one[0] == "call refused"]
        assert fields["method"] == "Drain"
        assert fields["who"].startswith(shown)
        assert token not in str(fields)
        served.logged.clear()
    headers = {"Authorization": f"Bearer {served.token('read', 'eve')}"}
    assert (
        httpx.post(f"{served.url}/api/v1/agents/a/drain", headers=headers, timeout=60.0).status_code
        == 403
    )
    ((_, fields),) = served.logged
    assert fields["method"] == "POST /api/v1/agents/a/drain"
    assert fields["who"].startswith("eve from 127.0.0.1:")


def test_a_crowd_of_refused_calls_is_counted() -> None:
    logged: list[tuple[str, dict[str, Any]]] = []
    refusals = Refusals(lambda event, fields: logged.append((event, dict(fields))), 3600.0)
    for n in range(1000):
        refusals.add(f"method {n}", "no token", "10.0.0.7:1")
    assert [event for event, _ in logged] == ["call refused"] * REFUSALS_SHOWN
    refusals.settle()
    assert logged[-1] == ("more calls refused", {"n": 1000 - REFUSALS_SHOWN, "within_s": 3600})
    refusals.settle()
    refusals.add("one more", "no token", "")
    assert len(logged) == REFUSALS_SHOWN + 2
    refusals.settle()
    assert logged[-1][1]["method"] == "one more"


def test_a_crowd_is_counted_by_itself_after_a_while() -> None:
    logged: list[str] = []
    refusals = Refusals(lambda event, _: logged.append(event), 0.05)
    for _ in range(REFUSALS_SHOWN + 1):
        refusals.add("x", "no token", "")
    wait_until(lambda: "more calls refused" in logged)
