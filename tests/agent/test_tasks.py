"""Tasks against a fake engine: the plan is a Python function, everything else is real."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fabric._cython.shuffle.store.store import Store
from fabric.agent.attempts import TaskSpec
from fabric.agent.engine import Services
from fabric.agent.pipes import Pipes
from fabric.agent.stream_tasks.mailbox import Mailbox
from fabric.agent.tasks import TaskRun
from fabric.cancellation import Cancellation
from fabric.control import control_pb2 as pb
from fabric.errors import ExpressionError, InternalError, StorageError
from fabric.flight.inprocess import InProcessTransport
from fabric.ids import TaskId
from fabric.operators.expressions.errors import as_fabric
from fabric.plan.nodes import Node, Sink, StageInput
from fabric.plan.targets import GateTarget
from fabric.testing.clock import ManualClock

SCHEMA = pa.schema([("a", pa.int64())])
COUNTS = pa.schema([("rows", pa.int64())])
LEAF = StageInput(0, SCHEMA)
Fragment = Callable[[Any, Any], Iterator[pa.RecordBatch]]


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


class FakeSink:
    def __init__(self, fail_at: str = "") -> None:
        self.rows, self.abandoned, self._fail_at = 0, 0, fail_at

    def write(self, rows: pa.RecordBatch) -> None:
        if self._fail_at == "write":
            raise StorageError("no space left on /disk/part-0")
        self.rows += rows.num_rows

    def prepare(self) -> bytes:
        if self._fail_at == "prepare":
            raise StorageError("no space left on /disk/part-0")
        return b"handle"

    def abandon(self) -> None:
        self.abandoned += 1


class FakeStream:
    """Stops after the batch at which it was closed, from whichever thread."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self._closed = batches, False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._closed:
            raise StopIteration
        return next(self._batches)

    def close(self) -> None:
        self._closed = True


class FakeChain:
    """Passes rows on until it has had `limit` of them."""

    has_more = False

    def __init__(self, limit: int) -> None:
        self._left = limit
        self.ended: list[int] = []

    @property
    def done(self) -> bool:
        return self._left <= 0

    def on_batch(self, edge: int, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        out = rows.slice(0, self._left)
        self._left -= out.num_rows
        return [out]

    def on_end(self, edge: int) -> list[pa.RecordBatch]:
        self.ended.append(edge)
        return []


@dataclass
class FakeEngine:
    fragment: Fragment = lambda inputs, splits: iter(())
    root: Node = LEAF
    sink: FakeSink = field(default_factory=FakeSink)
    limit: int = 1 << 60

    def decode(self, fragment: bytes) -> Node:
        return self.root

    def has_functions(self, root: Node) -> bool:
        return False

    def execute(self, root: Node, inputs: Any, splits: Any, target_partitions: int) -> FakeStream:
        return FakeStream(self.fragment(inputs, splits))

    def chain(self, root: Node) -> FakeChain:
        return FakeChain(self.limit)

    def open_sink(self, root: Sink, spec: TaskSpec) -> FakeSink:
        return self.sink


class Agent:
    """One agent's services, and its tasks run in the test's thread."""

    def __init__(self, engine: FakeEngine | None = None, agent_id: str = "agent-1") -> None:
        self.engine = engine or FakeEngine()
        self.store = Store(agent_id)
        self.transport = InProcessTransport()
        self.pipes = Pipes("job")
        self.services = Services(
            agent_id=agent_id,
            store=self.store,
            transport=self.transport,
            engine=self.engine,
            clock=ManualClock(),
        )

    def run(
        self, deploy: pb.Deploy, task: int = 0, cancel: Cancellation | None = None
    ) -> pb.TaskReport:
        spec = TaskSpec(TaskId("job", deploy.stage, task), 1, deploy, pb.TaskAssignment(task=task))
        return TaskRun(
            spec, self.services, self.pipes, cancel or Cancellation(), Mailbox(print)
        ).run()

    def values(self, edge: int, partition: int, *producers: int) -> list[int]:
        asked = [(p, 0) for p in producers or (0,)]
        found = iter(self.store.batches("job", edge, partition, asked).take_batches, [])
        return [v for some in found for b in some for v in b.column(0).to_pylist()]


def output(
    edge: int = 1, n: int = 2, kind: pb.EdgeKind = pb.EDGE_HASH, **given: Any
) -> pb.OutputEdge:
    schema = given.pop("schema", SCHEMA).serialize().to_pybytes()
    given.setdefault("mode", pb.MODE_MATERIALISED)
    return pb.OutputEdge(
        edge=edge, kind=kind, n_partitions=n, schema=schema, keys=["a"], node_path="agg", **given
    )


def input_edge(edge: int = 1, n: int = 2, *producers: pb.Producer, **given: Any) -> pb.InputEdge:
    given.setdefault("mode", pb.MODE_MATERIALISED)
    given.setdefault("kind", pb.EDGE_HASH)
    return pb.InputEdge(edge=edge, n_partitions=n, producers=producers, node_path="agg", **given)


def deploy(
    outputs: Sequence[pb.OutputEdge] = (), inputs: Sequence[pb.InputEdge] = (), **given: Any
) -> pb.Deploy:
    given.setdefault("kind", pb.STAGE_FRAGMENT)
    given.setdefault("n_tasks", 2)
    return pb.Deploy(
        job_id="job", node_path="scan", inputs=inputs, outputs=outputs, epoch=1, **given
    )


def of(*values: int) -> Fragment:
    return lambda inputs, splits: iter([batch(v) for v in values])


def test_a_fragment_writes_every_edge_and_reports_totals() -> None:
    agent = Agent(FakeEngine(of(1, 2, 3)))
    report = agent.run(deploy([output(1), output(2, 2, pb.EDGE_BROADCAST)]))
    assert report.state == pb.TASK_FINISHED
    assert [(o.edge, o.rows, o.bytes) for o in report.outputs] == [(1, 3, 24), (2, 3, 24)]
    assert report.rows_out == 3
    assert sorted(agent.values(1, 0) + agent.values(1, 1)) == [1, 2, 3]
    assert agent.values(2, 1) == [1, 2, 3]


@pytest.mark.parametrize("kind", [pb.EDGE_BROADCAST, pb.EDGE_GATHER, pb.EDGE_HASH])
def test_what_a_filter_left_out_is_not_kept(kind: pb.EdgeKind) -> None:
    """A few rows of views would hold all the bytes they were chosen from."""
    texts = pa.array([f"{n:06}" * 16 for n in range(10_000)], pa.string_view())
    few = pa.record_batch([texts], names=["a"]).slice(5000, 10)
    agent = Agent(FakeEngine(lambda inputs, splits: iter([few])))
    report = agent.run(deploy([output(1, 1, kind, schema=few.schema)]))
    assert report.outputs[0].bytes == agent.store.stored_bytes < 5000
    (kept,) = agent.store.batches("job", 1, 0, [(0, 0)]).take_batches()
    assert kept.nbytes < 5000
    assert kept.column("a").to_pylist() == few.column("a").to_pylist()


def test_inputs_come_from_here_and_from_other_agents() -> None:
    here, there = Agent(agent_id="agent-1"), Agent(agent_id="agent-2")
    for agent, producer in ((here, 0), (there, 1)):
        agent.engine.fragment = of(producer * 10, producer * 10 + 1)
        agent.run(deploy([output(1, 1, pb.EDGE_GATHER)]), task=producer)
    here.transport.register("local:agent-2", there.store, _NoDatasets())
    here.engine.fragment = lambda inputs, splits: iter(inputs[1])
    producers = [pb.Producer(task=0, agent_id="agent-1"), pb.Producer(task=1, agent_id="agent-2")]
    report = here.run(
        deploy(
            [output(2, 1, pb.EDGE_GATHER)],
            [input_edge(1, 1, *producers, kind=pb.EDGE_GATHER)],
            stage=1,
            addresses={"agent-2": "local:agent-2"},
        )
    )
    assert report.state == pb.TASK_FINISHED
    assert report.rows_in == 4
    assert here.values(2, 0) == [0, 1, 10, 11]


class _NoDatasets:
    """Nobody asks."""

    def open_write(self, put: Any, schema: pa.Schema) -> Any: ...
    def read(self, request: Any) -> Any: ...
    def discard(self, name: str, transaction: str) -> None: ...


@pytest.mark.parametrize("address", ["", "local:agent-2"])
def test_a_peer_that_is_gone_is_named(address: str) -> None:
    agent = Agent()
    edge = input_edge(1, 2, pb.Producer(task=5, agent_id="agent-2"))
    report = agent.run(deploy([output(2)], [edge], addresses={"agent-2": address}), task=1)
    assert report.state == pb.TASK_FAILED
    assert report.error.kind == "PeerLostError"
    assert "agent-2" in report.error.message + report.error.agent
    assert (report.error.job, report.error.node, report.error.task) == ("job", "scan", "job/0.1#0")
    assert agent.store.stored_bytes == 0


def test_a_lost_partition_is_named() -> None:
    agent = Agent()
    report = agent.run(deploy([], [input_edge(1, 2, pb.Producer(task=5, agent_id="agent-1"))]))
    assert report.error.kind == "PartitionLostError"
    assert "partition 0 of edge 1, written by task 5 attempt 0" in report.error.message


def broken(error: BaseException) -> Fragment:
    def rows(inputs: Any, splits: Any) -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise error

    return rows


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ExpressionError("overflow in a + b"), "ExpressionError"),
        (pa.ArrowInvalid("divide by zero"), "ExpressionError"),
        (SystemExit(3), "InternalError"),
        (RecursionError("deep"), "InternalError"),
    ],
)
def test_whatever_a_fragment_raises_becomes_a_report_and_leaves_nothing(
    error: BaseException, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = Agent(FakeEngine(broken(error)))
    report = agent.run(deploy([output()]))
    assert (report.state, report.error.kind) == (pb.TASK_FAILED, kind)
    assert report.error.node == "scan"
    assert report.error.agent == "agent-1"
    assert agent.store.stored_bytes == 0
    assert ("bug" in capsys.readouterr().err) == (kind == "InternalError")


def test_a_sink_reports_its_handle_and_puts_out_the_count() -> None:
    agent = Agent(FakeEngine(of(1, 2), Sink(LEAF, GateTarget("g"))))
    report = agent.run(deploy([output(1, 1, pb.EDGE_GATHER, schema=COUNTS)]))
    assert (report.state, report.sink_handle) == (pb.TASK_FINISHED, b"handle")
    assert agent.values(1, 0) == [2]
    assert agent.engine.sink.abandoned == 0


@pytest.mark.parametrize("step", ["write", "prepare"])
def test_a_sink_that_fails_is_abandoned(step: str) -> None:
    agent = Agent(FakeEngine(of(1, 2), Sink(LEAF, GateTarget("g")), FakeSink(step)))
    report = agent.run(deploy([output(1, 1, pb.EDGE_GATHER, schema=COUNTS)]))
    assert (report.state, report.error.kind) == (pb.TASK_FAILED, "StorageError")
    assert report.sink_handle == b""
    assert agent.engine.sink.abandoned == 1
    assert agent.store.jobs() == set()


def test_cancel_stops_between_batches_and_discards() -> None:
    cancel = Cancellation()

    def endless(inputs: Any, splits: Any) -> Iterator[pa.RecordBatch]:
        yield batch(1)
        cancel.cancel("enough")
        while True:
            yield batch(2)

    agent = Agent(FakeEngine(endless, Sink(LEAF, GateTarget("g"))))
    report = agent.run(deploy([output(1, 1, pb.EDGE_GATHER, schema=COUNTS)]), cancel=cancel)
    assert (report.state, report.error.kind) == (pb.TASK_CANCELLED, "CancelledError")
    assert report.error.message == "enough"
    assert agent.engine.sink.abandoned > 0


def test_a_wrong_schema_is_a_bug_with_both_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = pa.record_batch([pa.array(["x"])], names=["a"])
    agent = Agent(FakeEngine(lambda inputs, splits: iter([wrong])))
    report = agent.run(deploy([output()]))
    assert report.error.kind == "InternalError"
    assert "edge agg carries a: int64, but the stage made a: string" in report.error.message


def test_a_fragment_refuses_a_pipelined_edge(capsys: pytest.CaptureFixture[str]) -> None:
    report = Agent().run(deploy([], [input_edge(mode=pb.MODE_PIPELINED)]))
    assert "only a chain can read one" in report.error.message
    assert isinstance(as_fabric(InternalError("x")), InternalError)


def test_a_chain_reads_materialised_and_pipelined_edges_to_their_ends() -> None:
    agent = Agent(FakeEngine(of(1, 2)))
    agent.run(deploy([output(1, 1, pb.EDGE_GATHER)]))
    agent.run(deploy([output(2, 1, pb.EDGE_GATHER, mode=pb.MODE_PIPELINED, buffer_batches=2)]))
    gather = {"mode": pb.MODE_PIPELINED, "kind": pb.EDGE_GATHER}
    edges = [
        input_edge(1, 1, pb.Producer(agent_id="agent-1"), kind=pb.EDGE_GATHER),
        input_edge(2, 1, pb.Producer(agent_id="agent-1"), **gather),
    ]
    report = agent.run(deploy([output(3, 1)], edges, stage=1, kind=pb.STAGE_CHAIN))
    assert report.state == pb.TASK_FINISHED
    assert agent.values(3, 0) == [1, 2, 1, 2]
    assert report.rows_in == 4


def test_a_chain_that_has_enough_lets_its_producer_stop() -> None:
    agent = Agent(FakeEngine(of(1, 2, 3), limit=1))
    gather = {"mode": pb.MODE_PIPELINED, "kind": pb.EDGE_GATHER}
    consumer = deploy(
        [output(3, 1)],
        [input_edge(2, 1, pb.Producer(agent_id="agent-1"), **gather)],
        stage=1,
        kind=pb.STAGE_CHAIN,
    )
    agent.run(deploy([output(2, 1, buffer_batches=3, **gather)]))
    assert agent.run(consumer).state == pb.TASK_FINISHED
    assert agent.values(3, 0) == [1]

    def counted(inputs: Any, splits: Any) -> Iterator[pa.RecordBatch]:
        for number in range(1000):
            made.append(number)
            yield batch(number)

    made: list[int] = []
    agent.engine.fragment = counted
    report = agent.run(deploy([output(2, 1, buffer_batches=1, **gather)]), task=1)
    assert report.state == pb.TASK_FINISHED
    assert len(made) == 1


class SlowPipes(Pipes):
    """Every put waits a quarter of a second for room, by its own account."""

    def put(self, sends: Any) -> int:
        return super().put(sends) + 250_000_000

    def put_parts(self, producer: int, batches: Any) -> int:
        return super().put_parts(producer, batches) + 250_000_000


def test_a_report_says_how_much_of_its_time_a_task_waited_for_room() -> None:
    agent = Agent()

    def rows(inputs: Any, splits: Any) -> Iterator[pa.RecordBatch]:
        yield batch(1)
        agent.services.clock.advance(2.0)  # type: ignore[attr-defined]

    agent.engine.fragment, agent.pipes = rows, SlowPipes("job")
    gather = {"mode": pb.MODE_PIPELINED, "kind": pb.EDGE_GATHER}
    report = agent.run(deploy([output(2, 1, **gather)]))
    assert (report.seconds, report.backpressure_ratio) == (2.0, 0.25)  # a batch and its END


def test_no_machine_path_in_reports(tmp_path: Path) -> None:
    report = Agent(FakeEngine(broken(KeyError(str(tmp_path))))).run(deploy([output()]))
    assert "Traceback" not in str(report)


def test_it_fails_for_a_while_when_the_other_end_of_an_edge_was_stopped() -> None:
    """Nobody stopped the task itself: another attempt may do."""
    agent = Agent()
    gather = {"mode": pb.MODE_PIPELINED, "kind": pb.EDGE_GATHER}
    producer = pb.Producer(agent_id="agent-1")
    agent.pipes.cancel("its tasks run again")
    report = agent.run(
        deploy([output(3, 1)], [input_edge(2, 1, producer, **gather)], kind=pb.STAGE_CHAIN)
    )
    assert (report.state, report.error.kind) == (pb.TASK_FAILED, "PeerLostError")
    assert "its tasks run again" in report.error.message
