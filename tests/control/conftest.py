"""A coordinator, agents that obey at once, and plans over a real file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.service.server import ControlServer
from fabric.plan.codec import encode
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import Aggregate, Node, Plan, Scan
from fabric.plan.sources import FileSource
from fabric.security.tokens import Signer

DEADLINE_S = 60.0


class ObedientAgent:
    """Says that every task it is given has finished; keeps what it heard."""

    def __init__(self, agent_id: str, *, finish: bool = True) -> None:
        self.hello = pb.Hello(agent_id=agent_id, address=f"local:{agent_id}", cpus=2, slots=2)
        self.heard: list[pb.CoordinatorMessage] = []
        self.lost: list[Exception] = []
        self.changed = threading.Condition()
        self.link: Any = None
        self.finish = finish

    def attach(self, link: Any) -> ObedientAgent:
        self.link = link
        link.open(self.hello, self.on_message, self.on_lost)
        return self

    def on_message(self, message: pb.CoordinatorMessage) -> None:
        with self.changed:
            self.heard.append(message)
            self.changed.notify_all()
        if message.WhichOneof("kind") == "deploy" and self.finish:
            # a link's thread may not be used to answer from: agents have an inbox
            threading.Thread(target=self.run, args=(message.deploy,)).start()

    def on_lost(self, error: Exception) -> None:
        with self.changed:
            self.lost.append(error)
            self.changed.notify_all()

    def run(self, deploy: pb.Deploy, state: int = pb.TASK_FINISHED, **fields: Any) -> None:
        for task in deploy.tasks:
            key = pb.TaskKey(
                job_id=deploy.job_id,
                stage=deploy.stage,
                task=task.task,
                attempt=task.attempt,
                epoch=deploy.epoch,
            )
            report = pb.TaskReport(key=key, state=state, rows_out=10, **fields)
            report.outputs.extend(pb.EdgeTotals(edge=e.edge, rows=10) for e in deploy.outputs)
            self.link.send(pb.AgentMessage(task=report))

    def kinds(self) -> list[str]:
        with self.changed:
            return [str(message.WhichOneof("kind")) for message in self.heard]

    def until(self, reached: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(reached, DEADLINE_S), self.heard


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Eight row groups of ten rows."""
    path = tmp_path / "t.parquet"
    rows = pa.table({"k": [i % 5 for i in range(80)], "v": list(range(80))})
    pq.write_table(rows, path, row_group_size=10)
    return path


@pytest.fixture
def root(table: Path) -> Node:
    scan = Scan(FileSource("parquet", (str(table),)), pq.read_schema(table))
    return Aggregate(scan, (Column("k"),), (Alias(Agg("sum", Column("v")), "total"),), path="by")


@pytest.fixture
def request_(root: Node) -> pb.SubmitRequest:
    return pb.SubmitRequest(plan=encode(Plan(root)), name="by k")


@pytest.fixture
def make_agent() -> type[ObedientAgent]:
    return ObedientAgent


@pytest.fixture
def served(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A runtime behind a gRPC server on a free port, with short heartbeats."""
    config = CoordinatorConfig(home=tmp_path, port=0, heartbeat_s=0.2, timeout_s=30.0)
    signer, clock, logged = Signer(b"s" * 32), SystemClock(), []
    runtime = CoordinatorRuntime(config=config)
    runtime.start()
    parts = Parts(config, signer, clock, lambda event, fields: logged.append((event, dict(fields))))
    server = ControlServer(parts, Front(runtime))
    address = server.start()

    def token(scope: str, ttl_s: float = 60.0) -> str:
        return signer.token(scope, "test", ttl_s, clock.wall_s())

    yield SimpleNamespace(
        runtime=runtime, server=server, address=address, token=token, logged=logged, config=config
    )
    server.stop()
    runtime.close()
