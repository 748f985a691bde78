"""What Prometheus reads: parsed by its own parser, bounded, gone when the job is."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import fabric
from fabric.agent.process.metrics import AgentCollector
from fabric.agent.tally import JOBS_MAX, NODES_MAX, TaskTally
from fabric.control import control_pb2 as pb
from fabric.coordinator.service.metrics import JOBS_SHOWN, CoordinatorCollector
from fabric.errors import ConfigError, PeerLostError
from fabric.event_time import IDLE
from fabric.telemetry.metrics import metrics_served
from tests.support.local import local_fabric
from tests.support.wait import wait_until

EVIL = 'x"\\\n{}'


def read(url: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = httpx.get(url, timeout=60).raise_for_status().text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def served(*collectors: Any) -> Any:
    with metrics_served(*collectors, host="127.0.0.1", port=0) as url:
        return read(url)


def report(job: str, **fields: Any) -> pb.TaskReport:
    return pb.TaskReport(key=pb.TaskKey(job_id=job), state=pb.TASK_FINISHED, **fields)


def test_an_agents_nodes() -> None:
    tally = TaskTally()
    tally.add(EVIL, report("j", rows_in=10, rows_out=5, seconds=0.3, backpressure_ratio=0.25))
    tally.add(EVIL, report("j", rows_in=10, rows_out=0, seconds=7.0))
    found = served(AgentCollector("a", 4, tally, lambda: pb.Heartbeat(stored_bytes=7)))
    labels = (("agent", "a"), ("job", "j"), ("node", EVIL))
    assert found["records_processed_total", labels] == 20
    assert found["selectivity", labels] == 0.25
    assert found["backpressure_ratio", labels] == 0.25
    assert found["processing_latency_seconds_count", labels] == 2
    assert found["processing_latency_seconds_sum", labels] == pytest.approx(7.3)
    by_bound = {"0.1": 0, "0.5": 1, "5.0": 1, "30.0": 2, "+Inf": 2}
    for bound, n in by_bound.items():
        where = (("agent", "a"), ("job", "j"), ("le", bound), ("node", EVIL))
        assert found["processing_latency_seconds_bucket", where] == n
    assert found["fabric_agent_stored_bytes", (("agent", "a"),)] == 7
    assert found["fabric_tasks_total", (("agent", "a"), ("state", "finished"))] == 2
    assert any(name == "process_resident_memory_bytes" for name, _ in found)


def test_labels_are_bounded_and_go_with_their_job() -> None:
    tally = TaskTally()
    for n in range(3 * JOBS_MAX):
        tally.add("by", report(f"job-{n}"))
    for n in range(2 * NODES_MAX):
        tally.add(f"node-{n}", report("many"))
    assert len(tally.jobs()) == JOBS_MAX
    assert len(tally.jobs()["many"]) == NODES_MAX
    tally.forget("many")
    tally.add("late", report("many"))
    assert "many" not in tally.jobs()
    assert tally.ended[pb.TASK_FINISHED] == 3 * JOBS_MAX + 2 * NODES_MAX + 1


class Coordinator:
    """Answers with what a test put there."""

    epoch, refused = 3, {"old epoch": 2}

    def __init__(self) -> None:
        self.jobs: list[pb.JobStatus] = []
        self.lost = False

    def list_jobs(self, request: pb.ListRequest) -> pb.JobList:
        if self.lost:
            raise PeerLostError("not me")
        return pb.JobList(jobs=self.jobs)

    def list_agents(self, request: pb.ListRequest) -> pb.AgentList:
        return pb.AgentList(agents=[pb.AgentStatus(agent_id=EVIL, state="active", slots=4)])


def test_jobs_are_counted_once() -> None:
    control = Coordinator()
    collector = CoordinatorCollector(control)
    control.jobs = [pb.JobStatus(job_id="a", state=pb.JOB_RUNNING)]
    assert served(collector)["fabric_jobs_submitted_total", ()] == 1
    ended = [
        pb.JobStatus(job_id="a", state=pb.JOB_FINISHED, seconds=2.0, n_attempts=3),
        pb.JobStatus(job_id="b", state=pb.JOB_FAILED, seconds=1.0),
        pb.JobStatus(
            job_id="c", state=pb.JOB_RELEASED, error=pb.ErrorDetail(kind="CancelledError")
        ),
    ]
    control.jobs = ended
    for _ in range(2):
        found = served(collector)
        assert found["fabric_jobs_submitted_total", ()] == 3
        assert found["fabric_job_seconds_total", ()] == 3.0
        assert found["fabric_task_retries_total", ()] == 3
        for outcome in ("completed", "failed", "cancelled"):
            assert found[f"fabric_jobs_{outcome}_total", ()] == 1
    assert found["fabric_jobs", (("state", "failed"),)] == 1
    assert found["fabric_refused_messages_total", (("reason", "old epoch"),)] == 2
    assert found["fabric_known_agent_slots", (("agent", EVIL),)] == 4
    control.jobs = []
    assert served(collector)["fabric_jobs_submitted_total", ()] == 3
    control.lost = True
    assert served(collector)["fabric_coordinator_leads", ()] == 0


def test_jobs_of_a_long_history_are_no_labels() -> None:
    control = Coordinator()
    stage = pb.StageStatus(n_tasks=4, finished=4)
    control.jobs = [
        pb.JobStatus(
            job_id=f"job-{n}", stages=[stage],
            state=pb.JOB_RELEASED if n % 2 else pb.JOB_FINISHED,
        )
        for n in range(10_000)
    ]  # fmt: skip
    found = served(CoordinatorCollector(control))
    assert sum(name == "fabric_job_rows" for name, _ in found) == JOBS_SHOWN
    assert found["fabric_job_tasks", (("job", "job-9998"), ("state", "finished"))] == 4


def test_how_far_streams_are() -> None:
    control = Coordinator()
    behind = pb.Counted(node_path="in", name="records_behind", n=7)
    reached = int((time.time() - 100) * 1e6)
    stages = [
        pb.StageStatus(node_path="top", rows_in=5, watermark_us=reached, counts=[behind]),
        pb.StageStatus(node_path="idle", rows_in=6, watermark_us=IDLE),
        pb.StageStatus(node_path="batch", rows_in=8),
    ]
    control.jobs = [pb.JobStatus(job_id="a", state=pb.JOB_RUNNING, stages=stages)]
    found = served(CoordinatorCollector(control))
    top = (("job", "a"), ("node", "top"))
    assert found["fabric_stream_rows_read_total", top] == 5
    assert 100 <= found["fabric_stream_watermark_lag_seconds", top] < 10_000
    assert found["fabric_stream_records_behind", (("job", "a"), ("node", "in"))] == 7
    nodes = [dict(labels)["node"] for name, labels in found if name.startswith("fabric_stream")]
    assert sorted(nodes) == ["idle", "in", "top", "top"]


def test_an_occupied_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=f"port {port} .* choose another with --metrics-port"),
            metrics_served(host="127.0.0.1", port=port),
        ):
            pass


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-word\n")
    with metrics_served(host="127.0.0.1", port=0, token=token) as url:
        for headers in ({}, {"authorization": "Bearer another"}, {"authorization": "a-word"}):
            answer = httpx.get(url, headers=headers, timeout=60)
            assert (answer.status_code, "process_" in answer.text) == (401, False)
        for scheme in ("Bearer", "bearer"):
            answer = httpx.get(url, headers={"authorization": f"{scheme} a-word"}, timeout=60)
            assert (answer.status_code, "process_" in answer.text) == (200, True)


@pytest.mark.parametrize("text", ["", " \n", "two words", "gr\u00fcn"])
def test_a_token_is_one_word(tmp_path: Path, text: str) -> None:
    token = tmp_path / "token"
    token.write_text(text)
    with (
        pytest.raises(ConfigError, match="metrics_token"),
        metrics_served(host="127.0.0.1", port=0, token=token),
    ):
        pass


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200 OK"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET /secret HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"GET /metrics\r\n\r\n", b"400 Bad Request"),
        (b"\x16\x03\x01\r\n\r\n", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (1 << 16), b""),
    ],
)
def test_what_else_is_asked(asked: bytes, status: bytes) -> None:
    with metrics_served(host="127.0.0.1", port=0) as url:
        host, port = url.removeprefix("http://").removesuffix("/metrics").split(":")
        with socket.create_connection((host, int(port)), 30) as one:
            one.sendall(asked)
            answer = b""
            while got := one.recv(1 << 16):
                answer += got
    assert answer.startswith(b"HTTP/1.1 " + (status or b"400"))


def test_a_real_fabric() -> None:
    environ = {"FABRIC_COORDINATOR_METRICS_PORT": "0", "FABRIC_AGENT_METRICS_PORT": "0"}
    environ["FABRIC_COORDINATOR_REST_PORT"] = "0"
    with local_fabric(1, environ=environ) as local:
        assert local.coordinator is not None
        urls = SimpleNamespace(
            coordinator=_said(local.coordinator, "metrics"),
            rest=_said(local.coordinator, "REST and pages"),
            agent=_said(local.agents[0], "metrics"),
        )
        with fabric.connect(f"fabric://{local.address}", token=local.token) as session:
            job = session.read_arrow({"a": [1, 2, 2]}).group_by("a").count().submit().wait()
            found = read(urls.agent)
            rows = [key for key in found if key[0] == "records_processed_total"]
            assert (("job", job.id)) in dict(rows)["records_processed_total"]
            told = read(urls.coordinator)
            assert told["fabric_jobs_completed_total", ()] == 1
            assert sum(n for key, n in told.items() if key[0] == "fabric_agents") == 1
            answer = httpx.get(f"{urls.rest}/metrics", timeout=60.0)
            assert (answer.status_code, answer.headers["location"]) == (307, urls.coordinator)
            job.release()
            wait_until(lambda: not any(key[0].startswith("records") for key in read(urls.agent)))


def _said(child: Any, event: str) -> str:
    """The `url` of the line that says `event`."""
    lines = (line for line in child.log.read_text().splitlines() if line.startswith("{"))
    return next(said["url"] for said in map(json.loads, lines) if said["event"] == event)
