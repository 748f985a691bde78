"""A coordinator's runtime behind its HTTP server, and an agent that obeys."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.rest.server import RestServer
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Parts
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.plan.codec import encode
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import Aggregate, Plan, Scan
from fabric.plan.sources import FileSource
from fabric.security.tokens import Signer

BYTES_MAX = 4 << 20


class Agent:
    """Finishes every task it is given, unless told to hold."""

    def __init__(self, runtime: CoordinatorRuntime, agent_id: str) -> None:
        self.runtime, self.agent_id, self.hold = runtime, agent_id, False
        hello = pb.Hello(agent_id=agent_id, address=f"local:{agent_id}", cpus=2, slots=4)
        self.session = runtime.attach(agent_id, hello, self.take)

    def take(self, message: pb.CoordinatorMessage) -> None:
        if message.WhichOneof("kind") == "deploy" and not self.hold:
            threading.Thread(target=self.finish, args=(message.deploy,)).start()

    def finish(self, deploy: pb.Deploy) -> None:
        for task in deploy.tasks:
            key = pb.TaskKey(
                job_id=deploy.job_id, stage=deploy.stage, task=task.task,
                attempt=task.attempt, epoch=deploy.epoch,
            )  # fmt: skip
            report = pb.TaskReport(key=key, state=pb.TASK_FINISHED, rows_out=10)
            report.outputs.extend(pb.EdgeTotals(edge=e.edge, rows=10) for e in deploy.outputs)
            self.runtime.receive(self.agent_id, pb.AgentMessage(task=report), self.session)


@pytest.fixture
def plan(tmp_path: Path) -> bytes:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": [1, 2] * 40, "v": [1] * 80}), path, row_group_size=10)
    scan = Scan(FileSource("parquet", (str(path),)), pq.read_schema(path), path="<scan> & more")
    total = (Alias(Agg("sum", Column("v")), "total"),)
    return encode(Plan(Aggregate(scan, (Column("k"),), total, path="by")))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[SimpleNamespace]:
    signer, clock, logged = Signer(b"s" * 32), SystemClock(), []
    config = CoordinatorConfig(
        home=tmp_path, timeout_s=60.0, rest_port=0, message_bytes_max=BYTES_MAX
    )

    def log(event: str, fields: Any) -> None:
        logged.append((event, dict(fields)))

    def token(scope: str, ttl_s: float = 60.0) -> str:
        return signer.token(scope, "<ann>", ttl_s, clock.wall_s())

    with CoordinatorRuntime(config=config, clock=clock) as runtime:
        server = RestServer(Parts(config, signer, clock, log), runtime, PlanPool())
        url = server.start()
        yield SimpleNamespace(runtime=runtime, url=url, token=token, logged=logged, home=tmp_path)
        server.stop()


@pytest.fixture
def api(served: SimpleNamespace) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {served.token('submit')}"}
    with httpx.Client(base_url=f"{served.url}/api/v1", headers=headers, timeout=120) as client:
        yield client


@pytest.fixture
def agents(served: SimpleNamespace) -> list[Agent]:
    return [Agent(served.runtime, name) for name in ("a", "b")]


@pytest.fixture
def submit(api: httpx.Client, plan: bytes) -> Any:
    def call(**query: str) -> httpx.Response:
        headers = {"content-type": "application/x-protobuf"}
        return api.post("/jobs", params=query, content=plan, headers=headers)

    return call
