"""The API over real sockets: answers, scopes, problems, pages of jobs, any text."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import httpx
import pyarrow as pa
import pytest
from google.protobuf.json_format import MessageToDict

from fabric.checkpoint.names import HeldName, NameRecord
from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.rest.server import RestServer
from fabric.coordinator.service.front import Front, Parts, Standby
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.plan import plan_pb2
from fabric.security.tokens import Signer
from tests.support.wait import wait_until

PROBLEM = "application/problem+json"
CALLS = [
    ("GET", "/jobs", "read"), ("POST", "/jobs", "submit"), ("GET", "/jobs/x", "read"),
    ("GET", "/jobs/x/tasks", "read"), ("GET", "/jobs/x/plan", "read"),
    ("GET", "/jobs/x/plan.svg", "read"), ("GET", "/jobs/x/events", "read"),
    ("POST", "/jobs/x/cancel", "submit"), ("POST", "/jobs/x/restart", "submit"),
    ("POST", "/jobs/x/rescale", "submit"),
    ("POST", "/jobs/x/release", "submit"), ("GET", "/agents", "read"),
    ("GET", "/agents/x", "read"), ("POST", "/agents/x/drain", "submit"),
    ("DELETE", "/agents/x/drain", "submit"), ("GET", "/events", "read"),
    ("GET", "/datasets", "read"), ("POST", "/jobs/x/checkpoints", "submit"),
    ("GET", "/savepoints", "read"), ("DELETE", "/savepoints/x", "submit"),
    ("GET", "/streams", "read"), ("DELETE", "/streams/x", "submit"),
]  # fmt: skip


def problem(answer: httpx.Response, status: int) -> str:
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    told = answer.json()
    assert told["status"] == status
    assert "Traceback" not in answer.text
    return str(told["detail"])


def ended(served: SimpleNamespace, job_id: str) -> None:
    request = pb.JobRequest(job_id=job_id)
    wait_until(lambda: served.runtime.status(request).state in ENDED)


def test_a_job_from_submission_to_release(
    served: Any, api: httpx.Client, agents: Any, submit: Any
) -> None:
    answer = submit(name="by k")
    assert answer.status_code == 201
    job = answer.json()
    at = answer.headers["location"].removeprefix("/api/v1")
    assert at == f"/jobs/{job['job_id']}"
    ended(served, job["job_id"])
    job = api.get(at).json()
    assert (job["name"], job["state"], job["error"]) == ("by k", "finished", None)
    assert [stage["n_tasks"] for stage in job["stages"]] == [2, 2]
    tasks = api.get(f"{at}/tasks").json()
    assert [(t["stage"], t["task"], t["state"]) for t in tasks] == [
        (stage, task, "finished") for stage in (0, 1) for task in (0, 1)
    ]
    assert api.get(f"{at}/plan").json()["stages"].startswith("stage 0")
    picture = api.get(f"{at}/plan.svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    texts = "".join(ElementTree.fromstring(picture.text).itertext())
    assert "by/exchange" in texts
    assert "<scan>" in texts
    kinds = [event["kind"] for event in api.get(f"{at}/events").json()]
    assert (kinds[0], kinds[-1]) == ("job submitted", "job finished")
    assert api.post(f"{at}/release").json()["state"] == "released"
    assert [job["state"] for job in api.get("/jobs").json()["jobs"]] == ["released"]


def test_cancel(served: Any, api: httpx.Client, agents: Any, submit: Any) -> None:
    for agent in agents:
        agent.hold = True
    job_id = submit().json()["job_id"]
    assert api.post(f"/jobs/{job_id}/cancel").status_code == 200
    for agent in agents:
        served.runtime.detach(agent.agent_id, "gone", agent.session)
    ended(served, job_id)
    assert api.get(f"/jobs/{job_id}").json()["error"]["kind"] == "CancelledError"


def test_the_same_key_gives_the_same_job(api: httpx.Client, agents: Any, plan: bytes) -> None:
    headers = {"content-type": "application/x-protobuf", "Idempotency-Key": "k1"}
    one, two = (api.post("/jobs", content=plan, headers=headers).json() for _ in "ab")
    assert one["job_id"] == two["job_id"]
    bob = Signer(b"s" * 32).token("submit", "bob", 60.0, SystemClock().wall_s())
    headers["Authorization"] = f"Bearer {bob}"
    his = api.post("/jobs", content=plan, headers=headers).json()
    assert his["job_id"] != one["job_id"], "another subject's key is another key"


def test_a_plan_as_json(served: Any, api: httpx.Client, agents: Any, plan: bytes) -> None:
    given = MessageToDict(plan_pb2.Plan.FromString(plan))
    answer = api.post("/jobs", json={"plan": given, "name": "as json", "parallelism": 1})
    assert answer.status_code == 201, answer.text
    assert answer.json()["name"] == "as json"


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        (b"junk", "application/x-protobuf", "plan"),
        (b"", "application/x-protobuf", "plan"),
        (b"{", "application/json", "not JSON"),
        (b"[" * 100_000, "application/json", "not JSON"),
        (b"[]", "application/json", "must be an object"),
        (b'{"plan": 1}', "application/json", "must be an object"),
        (b'{"plan": {"nodez": []}}', "application/json", "does not fit plan.proto"),
        (b'{"plan": {}, "nme": "x"}', "application/json", "'nme' is not one of plan, name"),
        (b'{"plan": {}, "name": 1}', "application/json", "name must be a text"),
        (b'{"plan": {}, "parallelism": true}', "application/json", "parallelism must be"),
        (b"import os", "text/x-python", "content type of a plan"),
    ],
)
def test_what_is_no_plan(
    api: httpx.Client, agents: Any, body: bytes, content_type: str, message: str
) -> None:
    answer = api.post("/jobs", content=body, headers={"content-type": content_type})
    assert message in problem(answer, 400)


@pytest.mark.parametrize(("method", "path", "scope"), CALLS)
def test_every_call_needs_its_token(served: Any, method: str, path: str, scope: str) -> None:
    url = f"{served.url}/api/v1{path}"
    cookie = {"Cookie": f"fabric_session={served.token('submit')}"}
    expired = {"Authorization": f"Bearer {served.token(scope, -3600.0)}"}
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eA=="}, cookie,
                    expired):  # fmt: skip
        answer = httpx.request(method, url, headers=headers, timeout=60.0)
        problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
    if scope == "submit":
        headers = {"Authorization": f"Bearer {served.token('write')}"}
        assert "needs a token of scope 'submit'" in problem(
            httpx.request(method, url, headers=headers, timeout=60.0), 403
        )
    headers = {"Authorization": f"Bearer {served.token(scope)}"}
    assert httpx.request(method, url, headers=headers, timeout=60.0).status_code not in (401, 403)


def test_openapi_tells_all_of_it(served: Any) -> None:
    told = httpx.get(f"{served.url}/openapi.json", timeout=60.0).json()
    for method, path, _ in CALLS:
        place = path.replace("/agents/x", "/agents/{agent_id}").replace("/jobs/x", "/jobs/{job_id}")
        place = place.replace("/savepoints/x", "/savepoints/{name}")
        place = place.replace("/streams/x", "/streams/{name}")
        call = told["paths"][f"/api/v1{place}"][method.lower()]
        assert call["security"] == [{"token": []}]
    assert told["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_health_needs_no_token(served: Any) -> None:
    for path in ("/healthz", "/readyz"):
        assert httpx.get(served.url + path, timeout=60.0).json()["status"] == "ok"
    assert "--metrics-port" in problem(httpx.get(f"{served.url}/metrics", timeout=60.0), 404)
    served.runtime.close()
    assert "was stopped" in problem(httpx.get(f"{served.url}/readyz", timeout=60.0), 503)


def test_a_coordinator_that_does_not_lead_is_alive_and_not_ready(served: Any) -> None:
    config = CoordinatorConfig(home=served.home, rest_port=0)
    parts = Parts(config, Signer(b"s" * 32), SystemClock(), lambda *_: None)
    server = RestServer(parts, Front(Standby(lambda: "10.0.0.7:6123")), PlanPool())
    url = server.start()
    headers = {"Authorization": f"Bearer {served.token('read')}"}
    assert httpx.get(f"{url}/healthz", timeout=60.0).json() == {"status": "standby"}
    for path in ("/readyz", "/api/v1/jobs", "/api/v1/jobs/x", "/api/v1/agents"):
        answer = httpx.get(url + path, headers=headers, timeout=60.0)
        assert "the leader is at 10.0.0.7:6123" in problem(answer, 503)
    with httpx.Client(base_url=url, follow_redirects=True, timeout=60.0) as browser:
        page = browser.post("/login", data={"token": served.token("read")})
    assert (page.status_code, "the leader is at 10.0.0.7:6123" in page.text) == (503, True)
    server.stop()


def test_what_is_not_there(served: Any, api: httpx.Client) -> None:
    for path in ("/jobs/nope", "/jobs/nope/tasks", "/jobs/nope/plan", "/jobs/nope/events",
                 "/agents/nope", "/jobs/%00", "/jobs/" + "x" * 5000):  # fmt: skip
        assert "there is no" in problem(api.get(path), 404)
    problem(api.get("/jobs/../../../etc/passwd"), 404)
    problem(api.get("/nope"), 404)
    problem(api.put("/jobs"), 405)
    problem(api.get("/jobs", params={"limit": 0}), 422)
    problem(api.get("/jobs", params={"state": "<script>"}), 422)
    problem(api.get("/jobs", params={"before": "<script>"}), 400)


def test_bodies_are_bounded(api: httpx.Client) -> None:
    headers = {"content-type": "application/json"}
    big = b" " * (5 << 20)
    assert "may have" in problem(api.post("/jobs", content=big, headers=headers), 413)
    parts = (b" " * 100_000 for _ in range(60))
    assert "may have" in problem(api.post("/jobs", content=parts, headers=headers), 413)


def test_strangers_send_no_large_bodies(served: Any, api: httpx.Client) -> None:
    big, headers = b" " * (2 << 20), {"content-type": "application/json"}
    for token in ({}, {"authorization": "Bearer a-token-of-another-fabric"}):
        url = f"{served.url}/api/v1/jobs/x/restart"
        answer = httpx.post(url, content=big, headers=token | headers, timeout=120)
        assert "needs a token" in problem(answer, 401)
    assert api.post("/jobs", content=big, headers=headers).status_code == 400  # it was read


def test_healthz_is_answered_when_nothing_else_is(
    served: Any, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fabric.coordinator.rest.edge.REQUESTS_MAX", 0)
    assert "are under way" in problem(api.get("/jobs"), 503)
    assert httpx.get(f"{served.url}/healthz", timeout=120).json() == {"status": "ok"}


def test_a_body_that_stops_is_an_error(
    served: Any, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fabric.coordinator.rest.edge.IDLE_S", 0.2)
    host, port = served.url.removeprefix("http://").split(":")
    head = (
        "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
        f"Content-Type: application/json\r\nAuthorization: {api.headers['authorization']}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), 30) as one:
        one.sendall(head.encode() + b"{")
        assert one.recv(1000).startswith(b"HTTP/1.1 408")


def test_unexpected_errors_tell_nothing_but_are_logged(
    served: Any, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: object) -> None:
        raise KeyError("/home/ann/secret")

    monkeypatch.setattr(served.runtime, "list_agents", broken)
    answer = api.get("/agents")
    assert "unexpected KeyError" in problem(answer, 500)
    assert "secret" not in answer.text
    assert any("secret" in fields.get("error", "") for _, fields in served.logged)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "..", "a\0b", "é" * 300, "\u202e"])
def test_names_of_any_text(
    served: Any, api: httpx.Client, agents: Any, plan: bytes, name: str
) -> None:
    given = MessageToDict(plan_pb2.Plan.FromString(plan))
    job = api.post("/jobs", json={"plan": given, "name": name}).json()
    assert job["name"] == name[:256]
    assert api.get(f"/jobs/{job['job_id']}").json()["name"] == name[:256]


def test_a_name_of_a_megabyte_is_cut(api: httpx.Client, agents: Any, plan: bytes) -> None:
    given = MessageToDict(plan_pb2.Plan.FromString(plan))
    job = api.post("/jobs", json={"plan": given, "name": "x" * (1 << 20)}).json()
    assert job["name"] == "x" * 256


def test_pages_of_many_jobs(
    served: Any, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [
        pb.JobStatus(job_id=f"job-{i:05}", submitted_s=1e9 + i // 2, state=pb.JOB_FINISHED)
        for i in range(10_000)
    ]
    monkeypatch.setattr(served.runtime._core.registry, "statuses", lambda now: jobs)
    found: list[str] = []
    answer = api.get("/jobs", params={"limit": 1000, "state": ["finished", "failed"]})
    while True:
        page = answer.json()
        found += [job["job_id"] for job in page["jobs"]]
        if page["next"] is None:
            assert "link" not in answer.headers
            break
        link = answer.links["next"]["url"]
        assert len(page["jobs"]) == 1000
        answer = api.get(f"{served.url}{link}")
    assert found == [job.job_id for job in reversed(jobs)]


def test_restart_and_drain_pass_on_what_they_are_given(
    served: Any, api: httpx.Client, agents: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def restart(request: pb.RestartRequest) -> pb.JobStatus:
        asked.append(request)
        return pb.JobStatus(job_id=request.job_id, state=pb.JOB_RUNNING)

    def drain(request: pb.AgentRequest) -> pb.AgentStatus:
        asked.append(request)
        return pb.AgentStatus(agent_id=request.agent_id, state="draining")

    monkeypatch.setattr(served.runtime, "restart", restart)

    def undrain(request: pb.AgentRequest) -> pb.AgentStatus:
        asked.append((request, "undone"))
        return pb.AgentStatus(agent_id=request.agent_id, state="active")

    monkeypatch.setattr(served.runtime, "drain", drain)
    monkeypatch.setattr(served.runtime, "undrain", undrain)
    assert api.post("/jobs/x/restart", json={"from_path": "a/b"}).json()["state"] == "running"
    assert api.post("/jobs/x/restart").status_code == 200
    assert api.post("/agents/a/drain").json()["state"] == "draining"
    assert api.delete("/agents/a/drain").status_code == 200
    assert asked == [
        pb.RestartRequest(job_id="x", from_path="a/b"),
        pb.RestartRequest(job_id="x"),
        pb.AgentRequest(agent_id="a"),
        (pb.AgentRequest(agent_id="a"), "undone"),
    ]


def test_datasets_and_what_they_lack(served: Any, api: httpx.Client, agents: Any) -> None:
    assert api.get("/datasets").json() == []
    schema = pa.schema([("k", pa.int64())]).serialize().to_pybytes()
    begin = pb.DatasetBegin(name="d", schema=schema, keys=["k"], n_partitions=3, replicas=2)
    begun = served.runtime.dataset(pb.DatasetRequest(begin=begin))
    part = pb.CommittedPart(writer="w", rows=7)
    commit = pb.DatasetCommit(transaction=begun.transaction, parts=[part])
    served.runtime.dataset(pb.DatasetRequest(commit=commit))
    expected = {
        "name": "d", "version": 1, "rows": 7, "keys": ["k"], "partitions": 3, "replicas": 2,
        "partitions_lacking": 0,
    }  # fmt: skip
    assert api.get("/datasets").json() == [expected]
    left = pb.AgentMessage(goodbye=pb.Goodbye(reason="it goes home"))
    served.runtime.receive(agents[0].agent_id, left, agents[0].session)
    assert api.get("/datasets").json() == [{**expected, "partitions_lacking": 3}]


def test_checkpoints_are_asked_for(
    served: Any, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[pb.TakeCheckpointRequest] = []
    answers = [
        pb.TakenCheckpoint(state="under way"),
        pb.TakenCheckpoint(
            state="done", checkpoint=7, savepoint=pb.SavepointStatus(name="monday", checkpoint=7)
        ),
        pb.TakenCheckpoint(state="failed", error=pb.ErrorDetail(kind="StorageError", message="no")),
    ]

    def take(request: pb.TakeCheckpointRequest) -> pb.TakenCheckpoint:
        asked.append(request)
        return answers[len(asked) - 1]

    monkeypatch.setattr(served.runtime, "take_checkpoint", take)
    first = api.post("/jobs/x/checkpoints", json={"savepoint": "monday", "then": "stop"})
    assert first.status_code == 202, first.text
    told = first.json()
    assert (told["state"], told["savepoint"], told["error"]) == ("under way", None, None)
    headers = {"Idempotency-Key": told["key"]}
    again = {"savepoint": "monday", "then": "stop", "again": True}
    done = api.post("/jobs/x/checkpoints", json=again, headers=headers).json()
    assert (done["state"], done["checkpoint"], done["savepoint"]["name"]) == ("done", 7, "monday")
    failed = api.post("/jobs/x/checkpoints").json()
    assert (failed["error"]["kind"], failed["error"]["message"]) == ("StorageError", "no")
    key = told["key"]
    wanted = {"job_id": "x", "savepoint": "monday", "then": "stop"}
    assert asked[:2] == [
        pb.TakeCheckpointRequest(key=key, **wanted),
        pb.TakeCheckpointRequest(key=key, again=True, **wanted),
    ]
    assert (asked[2].then, asked[2].savepoint, asked[2].key == key) == ("go on", "", False)
    problem(api.post("/jobs/x/checkpoints", json={"then": "explode"}), 422)
    monkeypatch.undo()
    assert "there is no job" in problem(api.post("/jobs/nope/checkpoints"), 404)


def test_streams_and_savepoints_are_listed_and_removed(served: Any, api: httpx.Client) -> None:
    assert (api.get("/streams").json(), api.get("/savepoints").json()) == ([], [])
    held = HeldName(served.home / "checkpoints", "a/b per minute")
    held.write(NameRecord(held.name, "job-1", 2))
    (running,) = api.get("/streams").json()
    assert running["runs_in"].startswith(f"process {os.getpid()} on")
    place = "/streams/a/b%20per%20minute"
    assert "is running, in process" in problem(api.delete(place), 400)
    held.close()
    (gone,) = api.delete(place).json()
    assert (gone["name"], gone["job_id"], gone["starts"]) == ("a/b per minute", "job-1", 2)
    assert api.get("/streams").json() == []
    assert "there is no stream" in problem(api.delete(place), 404)
    assert "there is no savepoint" in problem(api.delete("/savepoints/monday"), 404)


def test_a_stopped_stream_says_where(
    served: Any, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = pb.StreamOrigin(name="clicks", checkpoint=3, state="job-1", changes=["a: added"])
    told = pb.JobStatus(job_id="x", state=pb.JOB_FINISHED, stopped_at=4, stream=origin)
    monkeypatch.setattr(served.runtime, "watch", lambda _: iter([told]))
    job = api.get("/jobs/x").json()
    assert (job["stopped_at"], job["stream"]["name"], job["stream"]["changes"]) == (
        4, "clicks", ["a: added"],
    )  # fmt: skip
