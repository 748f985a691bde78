"""Mutated messages at every entry point, sent with tokens that get behind the gate.

Agents and coordinators are processes that are watched: no message ends one, leaves a call without
an answer, or makes threads, descriptors or memory grow. `make test` sends `N` messages an entry,
`make soak` 5,000; a failure names the seed and the message.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from fabric import __version__
from fabric.checkpoint import codec
from fabric.checkpoint.manifest import FINAL, SnapshotAck
from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.grpc_link import GrpcLink
from fabric.control.rpc import bearer
from fabric.errors import NotFoundError
from fabric.flight import wire_pb2
from fabric.plan import plan_pb2
from fabric.plan.codec import encode
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import Aggregate, Exchange, Node, Plan, Scan, Sink
from fabric.plan.sources import FileSource
from fabric.plan.targets import FileTarget
from fabric.security.tokens import Scope
from tests.support.by_hand import ipc_messages
from tests.support.hostile import Hostile, flight
from tests.support.local import Child, LocalFabric, local_fabric
from tests.support.sampled import SEED, SOAK
from tests.support.wait import wait_until

N = 5000 if SOAK else 30
ANSWER_S = 30.0
MEMORY_BYTES = 64 << 20
SETTINGS = {
    "FABRIC_COORDINATOR_REST_PORT": "0", "FABRIC_COORDINATOR_JOBS_KEPT_MAX": "20",
    "FABRIC_COORDINATOR_EVENTS_KEPT_MAX": "200", "FABRIC_COORDINATOR_TRANSACTION_S": "5",
    "FABRIC_COORDINATOR_ATTEMPTS_MAX": "1000000", "FABRIC_COORDINATOR_RETRY_S_MAX": "0.1",
    "FABRIC_AGENT_GIVE_BACK_S": "1",
}  # fmt: skip
CONTROL, FLIGHT = "/fabric.control.v1.Control/", "/arrow.flight.protocol.FlightService/"
SERVICE = pb.DESCRIPTOR.services_by_name["Control"]
ACTIONS = (
    "healthcheck", "job.list", "job.logs", "dataset.list", "dataset.begin", "dataset.locate",
    "dataset.commit", "dataset.abort", "dataset.drop", "dataset.discard", "CancelFlightInfo",
    "RenewFlightEndpoint", "SetSessionOptions", "GetSessionOptions", "CloseSession", "unknown",
)  # fmt: skip
ASKS = {
    "ListFlights": "Criteria", "GetFlightInfo": "FlightDescriptor", "GetSchema": "FlightDescriptor",
    "PollFlightInfo": "FlightDescriptor", "ListActions": "Empty",
}  # fmt: skip
WIRE = flight()
ROWS = pa.record_batch({"k": [1, 2, 3], "s": pa.array(["a", "b", None]).dictionary_encode()})
pytestmark = pytest.mark.timeout(7200 if SOAK else 300)

Built = Callable[["Watched", Hostile], Iterable[bytes]]
Heard = Callable[[bytes], object]


@dataclass
class Watched:
    """A process of a fabric, and a connection to it."""

    child: Child
    running: LocalFabric
    address: str
    good: tuple[str, bytes]
    known: dict[str, list[Any]] = field(default_factory=dict)
    seeds: dict[str, list[Message]] = field(default_factory=dict)
    scope: Scope = "agent"

    def token(self, scope: Scope) -> str:
        """A token that holds for as long as the test."""
        return self.running.signer.token(scope, "hostile", 9000.0, SystemClock().wall_s())

    def holds(self) -> tuple[int, int, int]:
        """Threads, descriptors, bytes."""
        own = Path(f"/proc/{self.child.process.pid}")
        pages = int((own / "statm").read_text().split()[1])
        return len(os.listdir(own / "task")), len(os.listdir(own / "fd")), pages * 4096

    def endure(
        self, entry: str, path: str, build: Built, hear: Heard = lambda _: None, *, n: int = 1000,
        scope: Scope = "agent",
    ) -> None:  # fmt: skip
        """Send all messages of an entry with a token; afterwards the process is as it was.

        `hear` is told the first `n` answers of a call, which is then cancelled.
        """
        before, self.scope = self.holds(), scope
        with grpc.insecure_channel(self.address) as channel:
            call = channel.stream_stream(path)
            for number in range(N):
                if number == N // 3:
                    before = self.holds()
                seed = f"{SEED} {entry} {number}"
                sent = build(self, Hostile(seed, self.known))
                self.sent(call, seed, sent, hear, n)
        self.answers()
        wait_until(lambda: self.holds()[0] <= before[0] + 8)
        wait_until(lambda: self.holds()[1] <= before[1] + 8)
        if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # it keeps what is freed
            wait_until(lambda: self.holds()[2] <= before[2] + MEMORY_BYTES)

    def sent(
        self, call: Any, seed: str, messages: Iterable[bytes], hear: Heard, n_answers: int
    ) -> None:
        """One call: it has an answer, and whoever answers lives on."""
        told: list[bytes] = []
        mistakes: list[Exception] = []
        failure = ""

        def noted() -> Iterator[bytes]:
            try:
                for message in messages:
                    told.append(message)
                    yield message
            except Exception as error:
                mistakes.append(error)

        def said() -> str:
            return f"seed {seed!r}, messages {[each.hex() for each in told]}"[:20_000]

        answers = call(noted(), metadata=bearer(self.token(self.scope)), timeout=ANSWER_S)
        try:
            for answer in itertools.islice(answers, n_answers):
                hear(answer)
            answers.cancel()
        except grpc.RpcError as error:
            failure = f"{error.code()} {error.details()}"
        assert not mistakes
        assert "DEADLINE" not in failure, f"no answer in {ANSWER_S} s: {said()}"
        assert "unexpected" not in failure, f"{failure}: {said()}"
        code = self.child.process.poll()
        assert code is None, f"the {self.child.name} ended with {code}: {said()}"

    def answers(self) -> None:
        """A good call has an answer."""
        path, message = self.good
        with grpc.insecure_channel(self.address) as channel:
            call = channel.unary_stream(path)
            assert list(call(message, metadata=bearer(self.token("agent")), timeout=ANSWER_S))


def plans(folder: Path) -> list[Node]:
    """Of a few kinds of nodes, over a real file."""
    path = folder / "t.parquet"
    pq.write_table(pa.table({"k": [1, 2] * 40, "v": [1.5] * 80}), path, row_group_size=10)
    scan = Scan(FileSource("parquet", (str(path),)), pq.read_schema(path))
    total = (Alias(Agg("sum", Column("v")), "total"),)
    target = FileTarget("parquet", str(folder / "out"), single=False)
    return [
        Aggregate(scan, (Column("k"),), total, path="by"),
        Sink(Exchange(scan, "hash", ("k",), 3), target),
    ]


# ---- an agent: every verb of Flight


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """An agent that holds a dataset and a job's rows."""
    with local_fabric(1, environ=SETTINGS) as running:
        address = running.attached()[0].address.removeprefix("grpc+tcp://")
        job_id = running.submit(plans(tmp_path_factory.mktemp("agent"))[0])
        running.wait(job_id)
        good = (FLIGHT + "DoAction", made("Action", type="healthcheck", body=b"{}"))
        found = Watched(running.agents[0], running, address, good)
        edge = running.control.locate(pb.LocateRequest(job_id=job_id)).edges[-1]
        learn_flight(found, edge)
        yield found
        running.agents[0].check()


def made(kind: str, **fields: Any) -> bytes:
    """The bytes of one of Flight's messages."""
    message: Message = GetMessageClass(WIRE[kind])(**fields)
    return message.SerializeToString()


def learn_flight(agent: Watched, edge: pb.EdgeLocation) -> None:
    """What good messages to an agent hold."""
    paths = [
        ["dataset", "good"], ["dataset", "good", "tx", "w", "0"],
        ["dataset", "good", "tx", "w", "0", "owner"], ["job", edge.job_id, edge.node_path],
        ["job", edge.job_id, edge.node_path, "0"], ["state", edge.job_id, edge.node_path, "s"],
    ]  # fmt: skip
    descriptor, data = (
        GetMessageClass(WIRE["FlightDescriptor"]),
        GetMessageClass(WIRE["FlightData"]),
    )
    asked = [descriptor(kind=1, path=path) for path in paths]
    (schema, *rows) = ipc_messages(ROWS)
    bodies = [m.body.to_pybytes() for m in rows if m.body is not None]
    headers = [m.metadata.to_pybytes() for m in rows]
    first = data(flight_descriptor=asked[0], data_header=schema.metadata.to_pybytes())
    agent.seeds = {
        "FlightDescriptor": asked,
        "FlightData": [
            first, data(app_metadata=b"alone"),
            *(data(data_header=h, data_body=b) for h, b in zip(headers, bodies, strict=True)),
        ],
        "Ticket": [
            wire_pb2.Ticket(
                version=1, expires_s=4e9,
                partition=wire_pb2.PartitionTicket(
                    job_id=edge.job_id, edge=edge.edge, node_path=edge.node_path,
                    producers=[wire_pb2.ProducerAttempt(task=0, attempt=0)],
                ),
            ),
            wire_pb2.Ticket(
                version=1, expires_s=4e9, dataset=wire_pb2.DatasetTicket(name="good", version=1),
            ),
        ],
    }  # fmt: skip
    agent.known = {
        "path": [element for path in paths for element in path], "job_id": [edge.job_id],
        "node_path": [edge.node_path], "edge": [edge.edge], "version": [1], "kind": [1, 2],
        "data_header": [*headers, first.data_header], "data_body": bodies, "expires_s": [4e9],
        "name": ["good"], "transaction": ["tx"], "writer": ["w"], "job": [edge.job_id],
        "schema": [base64.b64encode(ROWS.schema.serialize().to_pybytes()).decode()],
        "mode": ["create", "append", "overwrite"], "keys": [["k"], []], "partitions": [1, 3],
    }  # fmt: skip


def tickets(agent: Watched, hostile: Hostile) -> Iterable[bytes]:
    ticket = hostile.message(wire_pb2.Ticket.DESCRIPTOR, agent.seeds["Ticket"])
    signed = agent.running.signer.sign(ticket, "ticket")
    return [made("Ticket", ticket=hostile.damaged(signed) if hostile.often(0.1) else signed)]


def streams(agent: Watched, hostile: Hostile) -> Iterable[bytes]:
    kinds = (wire_pb2.EdgeHeader, wire_pb2.Credit, wire_pb2.ExchangeEnd)
    heads = [hostile.message(kind.DESCRIPTOR) for kind in kinds]
    hostile.known = {**hostile.known, "app_metadata": heads}
    good, kind = agent.seeds["FlightData"], WIRE["FlightData"]
    first = good[0].SerializeToString() if hostile.often(0.6) else hostile.message(kind, good[:1])
    return [first, *(hostile.message(kind, good) for _ in range(hostile.chance.randrange(6)))]


BODIES: dict[str, list[dict[str, object]]] = {
    "job.logs": [{"job": "job-1"}],
    "dataset.begin": [{
        "name": "good", "schema": "", "keys": ["k"], "partitions": 2, "replicas": 1,
        "mode": "append", "idempotency_key": "key",
    }],
    "dataset.locate": [{"name": "good", "transaction": "tx"}],
    "dataset.commit": [{"transaction": "tx", "parts": [{"writer": "w", "attempt": 0, "rows": 3}]}],
    "dataset.abort": [{"name": "good", "transaction": "tx"}],
    "dataset.drop": [{"name": "good"}],
    "dataset.discard": [{"name": "good", "transaction": "tx"}],
}  # fmt: skip


@pytest.mark.parametrize("verb", ASKS)
def test_questions_to_an_agent(agent: Watched, verb: str) -> None:
    def build(agent: Watched, hostile: Hostile) -> Iterable[bytes]:
        kind = ASKS[verb]
        return [hostile.message(WIRE[kind], agent.seeds.get(kind, ()))]

    agent.endure(verb, FLIGHT + verb, build)


def test_tickets(agent: Watched) -> None:
    agent.endure("DoGet", FLIGHT + "DoGet", tickets)


@pytest.mark.parametrize("name", ACTIONS)
def test_actions(agent: Watched, name: str) -> None:
    def build(agent: Watched, hostile: Hostile) -> Iterable[bytes]:
        body = hostile.json(BODIES.get(name, []))
        if name[0].isupper() or hostile.often(0.1):
            body = hostile.message(WIRE["FlightData"], agent.seeds["FlightData"])
        return [made("Action", type=name, body=body)]

    agent.endure(name, FLIGHT + "DoAction", build)


@pytest.mark.parametrize(("verb", "scope"), [("DoPut", "write"), ("DoExchange", "agent")])
def test_streams_of_rows(agent: Watched, verb: str, scope: Scope) -> None:
    """Rows that come with an agent's token are believed (SECURITY.md), others validated."""
    agent.endure(verb, FLIGHT + verb, streams, scope=scope)


def test_handshakes(agent: Watched) -> None:
    kind = WIRE["HandshakeRequest"]
    agent.endure(
        "Handshake", FLIGHT + "Handshake",
        lambda _, hostile: [hostile.message(kind) for _ in range(hostile.chance.randrange(4))],
    )  # fmt: skip


# ---- a coordinator: every call, and every message of an agent's link


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A coordinator with jobs for whoever says that it is an agent."""
    with local_fabric(0, environ=SETTINGS) as running:
        assert running.coordinator is not None
        good = (CONTROL + "ListAgents", pb.ListRequest().SerializeToString())
        found = Watched(running.coordinator, running, running.address, good)
        learn_control(found, plans(tmp_path_factory.mktemp("coordinator")))
        link = GrpcLink(running.address, found.token("agent"))
        # without agents nothing is planned
        link.open(hello("idle"), lambda _: None, lambda _: None)
        yield found
        link.close()
        running.coordinator.check()


def learn_control(coordinator: Watched, roots: Sequence[Node]) -> None:
    """What good messages to a coordinator hold."""
    schema = ROWS.schema.serialize().to_pybytes()
    ack = codec.encode_snapshot_ack(SnapshotAck(checkpoint=1, stage=0, task=0, attempt=0, epoch=1))
    submits = [pb.SubmitRequest(plan=encode(Plan(root)), parallelism=2) for root in roots]
    error = pb.ErrorDetail(kind="PeerLostError", message="lost")
    key = pb.TaskKey(job_id="job-1", epoch=1)
    part = pb.CommittedPart(transaction="tx", writer="w", rows=3)
    coordinator.seeds = {
        "SubmitRequest": [*submits],
        "Plan": [plan_pb2.Plan.FromString(submit.plan) for submit in submits],
        "DatasetRequest": [
            pb.DatasetRequest(begin=pb.DatasetBegin(name="d", schema=schema, mode="create")),
            pb.DatasetRequest(commit=pb.DatasetCommit(transaction="tx", parts=[part])),
            pb.DatasetRequest(take_back=pb.DatasetTakeBack(transaction="tx")),
            pb.DatasetRequest(drop=pb.DatasetDrop(name="d")),
        ],
        "hello": [pb.AgentMessage(hello=hello(f"hostile-{n}")) for n in range(4)],
        "heartbeat": [pb.AgentMessage(heartbeat=pb.Heartbeat(sequence=1, running_tasks=1))],
        "task": [
            pb.AgentMessage(task=pb.TaskReport(
                key=key, state=state, outputs=[pb.EdgeTotals(edge=0, rows=1, partition_bytes=[1])],
                lost=[pb.LostInput(agent_id="hostile")], error=error if state == 3 else None,
                counts=[pb.Counted(node_path="by", name="late_rows", n=1)],
            ))
            for state in (pb.TASK_RUNNING, pb.TASK_FINISHED, pb.TASK_FAILED)
        ],
        "sink": [pb.AgentMessage(sink=pb.SinkReport(job_id="job-1", published=pb.SinkPublish()))],
        "checkpointed": [
            pb.AgentMessage(checkpointed=pb.Checkpointed(key=key, checkpoint=1, ack=ack))
        ],
    }  # fmt: skip
    coordinator.known = {
        "stage": [0, 1], "task": [0, 1], "attempt": [0, 1], "edge": [0, 1], "epoch": [1],
        "agent_id": ["hostile", "hostile-1"], "version": [__version__], "name": ["d"],
        "schema": [schema], "mode": ["create", "append", "overwrite"], "ack": [ack],
        "transaction": ["tx"], "writer": ["w"], "dataset": ["d"], "from_path": ["by"],
        "node_path": ["by"], "kind": ["PeerLostError", "PlanError"], "parallelism": [1, 2],
        "address": ["grpc+tcp://127.0.0.1:1"], "checkpoint": [1, FINAL],
    }  # fmt: skip


def hello(agent_id: str) -> pb.Hello:
    return pb.Hello(
        agent_id=agent_id, address="grpc+tcp://127.0.0.1:1", host="h", slots=2, cpus=2,
        version=__version__,
    )  # fmt: skip


def begin_write(coordinator: Watched) -> None:
    """A write that can be committed."""
    control, seeds = coordinator.running.control, coordinator.seeds["DatasetRequest"]
    begin = pb.DatasetRequest.FromString(seeds[0].SerializeToString())
    begin.begin.mode = "overwrite"
    coordinator.known["transaction"] = [control.dataset(begin).transaction]
    control.dataset(pb.DatasetRequest(list=pb.DatasetList()))


def read_pages(coordinator: Watched, job_id: str) -> None:
    """What people look at is there."""
    found, *_ = re.findall(r"http://127\.0\.0\.1:\d+", coordinator.child.log.read_text())
    for path in (
        "jobs",
        f"jobs/{job_id}",
        f"jobs/{job_id}/tasks",
        "agents?lost=true",
        "events",
        "datasets",
    ):
        headers = {"Authorization": f"Bearer {coordinator.token('read')}"}
        request = urllib.request.Request(f"{found}/api/v1/{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code != 404 or not path.startswith("jobs/"):  # released by a late message
                raise


def jobs_of(coordinator: Watched) -> list[str]:
    """Three jobs that go on, whatever became of those before; lists of them are whole.

    A message that was given up may be carried out all the same, and a job be gone at any moment.
    """
    control = coordinator.running.control
    control.list_agents(pb.ListRequest(lost=True))
    control.list_events(pb.EventsRequest())
    active = []
    for job in control.list_jobs(pb.ListRequest()).jobs:
        if job.state in (pb.JOB_QUEUED, pb.JOB_RUNNING):
            active.append(job.job_id)
            with suppress(NotFoundError):
                control.list_tasks(pb.JobRequest(job_id=job.job_id))
                control.locate(pb.LocateRequest(job_id=job.job_id))
        elif job.state != pb.JOB_RELEASED:
            with suppress(NotFoundError):
                control.release(pb.JobRequest(job_id=job.job_id))
    for old in active[6:]:
        with suppress(NotFoundError):
            control.release(pb.JobRequest(job_id=old))
    while len(active) < 3:
        active.append(control.submit(coordinator.seeds["SubmitRequest"][0]).job_id)
    coordinator.known["job_id"] = active
    read_pages(coordinator, active[0])
    return active


@pytest.mark.parametrize("method", [m.name for m in SERVICE.methods if m.name != "Attach"])
def test_calls_of_a_coordinator(coordinator: Watched, method: str) -> None:
    kind = SERVICE.methods_by_name[method].input_type
    numbers = itertools.count()

    def build(coordinator: Watched, hostile: Hostile) -> Iterable[bytes]:
        if next(numbers) % 20 == 0:
            jobs_of(coordinator)
            begin_write(coordinator)
        if kind.name == "SubmitRequest" and hostile.often(0.8):
            data = hostile.message(plan_pb2.Plan.DESCRIPTOR, coordinator.seeds["Plan"])
            request = hostile.changed(hostile.chance.choice(coordinator.seeds[kind.name]))
            request.plan = data  # type: ignore[attr-defined]
            return [request.SerializeToString()]
        return [hostile.message(kind, coordinator.seeds.get(kind.name, ()))]

    n = 1 if method == "Watch" else 1000
    coordinator.endure(method, CONTROL + method, build, n=n)


@pytest.mark.parametrize("said", [field.name for field in pb.AgentMessage.DESCRIPTOR.fields])
def test_what_an_agent_says(coordinator: Watched, said: str) -> None:
    """Behind a good hello, of tasks that it was given."""
    kind = pb.AgentMessage.DESCRIPTOR
    field = kind.fields_by_name[said]
    given: queue.SimpleQueue[pb.Deploy] = queue.SimpleQueue()
    numbers = itertools.count()

    def hear(answer: bytes) -> None:
        message = pb.CoordinatorMessage.FromString(answer)
        if message.WhichOneof("kind") == "deploy":
            given.put(message.deploy)

    def build(coordinator: Watched, hostile: Hostile) -> Iterable[bytes]:
        if next(numbers) % 20 == 0:
            jobs_of(coordinator)
        if said == "hello":
            yield hostile.message(kind, coordinator.seeds["hello"])
            return
        yield pb.AgentMessage(hello=hello("hostile")).SerializeToString()
        with suppress(queue.Empty):
            deploy = given.get(timeout=0.2)
            task = deploy.tasks[0]
            hostile.known = {
                **hostile.known, "job_id": [deploy.job_id], "stage": [deploy.stage],
                "task": [task.task], "attempt": [task.attempt], "epoch": [deploy.epoch],
            }  # fmt: skip
        good = coordinator.seeds.get(said, ())
        for _ in range(hostile.chance.randint(1, 5)):
            message = pb.AgentMessage()
            if good and hostile.often(0.6):
                message.MergeFrom(hostile.changed(hostile.chance.choice(good)))  # type: ignore
            else:
                inner = hostile.drawn(field.message_type)
                getattr(message, said).CopyFrom(inner)
            hostile.place(getattr(message, said))
            yield message.SerializeToString()

    coordinator.endure(said, CONTROL + "Attach", build, hear)
    jobs_of(coordinator)
