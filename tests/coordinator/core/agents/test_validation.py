"""What agents can't mean is refused before it changes anything; what they are at goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fabric.checkpoint.codec import encode_snapshot_ack
from fabric.checkpoint.manifest import SnapshotAck
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core.agents import validation
from fabric.coordinator.core.events import AgentAttached, AgentDrained
from fabric.coordinator.core.jobs.tasks import Task
from fabric.coordinator.core.scheduling.retries import judge
from fabric.errors import ConfigError, PeerLostError

OTHERS = encode_snapshot_ack(SnapshotAck(checkpoint=1, stage=0, task=1, attempt=0, epoch=1))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"rows_in": 1 << 63}, "implausible rows_in"),
        ({"rows_out": (1 << 64) - 1}, "implausible rows_out"),
        ({"seconds": float("nan")}, "implausible seconds"),
        ({"backpressure_ratio": float("inf")}, "implausible backpressure_ratio"),
        ({"backpressure_ratio": -1.0}, "implausible backpressure_ratio"),
        ({"counts": [pb.Counted(name="late_rows", n=1 << 63)]}, "implausible n"),
        ({"counts": [pb.Counted(name="x" * 70_000)]}, "implausible name"),
        ({"counts": [pb.Counted(name="x")] * 1001}, "implausible counts"),
        ({"outputs": [pb.EdgeTotals(edge=0, bytes=1 << 63)]}, "implausible bytes"),
        ({"outputs": [pb.EdgeTotals(edge=7, rows=1)]}, "another task's output"),
        ({"lost": [pb.LostInput(edge=1, gone=True)]}, "another task's input"),
        ({"ack": b"nothing of that kind"}, "damaged acknowledgement"),
        ({"ack": OTHERS}, "another task's acknowledgement"),
    ],
)
@pytest.mark.parametrize("state", [pb.TASK_RUNNING, pb.TASK_FINISHED, pb.TASK_FAILED])
def test_a_report_that_can_not_be_changes_nothing(
    world: Any, graphs: SimpleNamespace, fields: dict[str, Any], reason: str, state: int
) -> None:
    world.submit(graphs.shuffle())
    before = world.core.registry.status("job-1", world.now)
    for agent, task in (("x", 0), ("y", 1)):
        if reason != "another task's acknowledgement" or task == 0:
            world.report(agent, 0, task, state, **fields)
    assert set(world.core.refused) == {reason}
    assert world.core.registry.status("job-1", world.now) == before
    world.run_first_stage()
    assert world.core.registry.status("job-1", world.now).stages[0].finished == 2


def test_sums_over_many_tasks_are_numbers() -> None:
    assert pb.StageStatus(rows=validation.COUNT_MAX * 30_000).rows < 1 << 63


@pytest.mark.parametrize(
    "fields",
    [
        {"slots": (1 << 32) - 1},
        {"cpus": (1 << 32) - 1},
        {"memory_bytes": 1 << 63},
        {"address": "x" * 70_000},
        {"host": "a\nb"},
        {"version": "\x1b[2J"},
        {"socket": pb.UnixSocket(path="x" * 2000)},
    ],
)
def test_a_hello_that_can_not_be_is_refused(world: Any, fields: dict[str, Any]) -> None:
    hello = pb.Hello(
        **{"agent_id": "z", "address": "grpc+tcp://z", "slots": 1, "cpus": 1, **fields}
    )
    with pytest.raises(ConfigError, match="the hello of agent z has an implausible"):
        world.do(AgentAttached(9, hello))
    assert world.attached() == ["x", "y"]


def test_what_it_can_not_hold_is_left_out_of_a_hello(world: Any, graphs: SimpleNamespace) -> None:
    """The rest of its inventory counts: a coordinator that was restarted goes by it."""
    world.submit(graphs.shuffle())
    world.finish("x", 0, 0, rows_out=3)
    world.start()
    key = {"job_id": "job-1", "stage": 0, "attempt": 0}
    finished, running = pb.TASK_FINISHED, pb.TASK_RUNNING
    for session, agent, reports in (
        (11, "x", [pb.TaskReport(key=pb.TaskKey(task=0, **key), state=finished, rows_out=3)]),
        (12, "y", [
            pb.TaskReport(key=pb.TaskKey(task=1, **key), state=running),
            pb.TaskReport(key=pb.TaskKey(task=1, **key), state=finished, rows_out=1 << 63),
            pb.TaskReport(key=pb.TaskKey(task=1, **key), state=pb.TASK_FAILED),
        ]),
    ):  # fmt: skip
        hello = pb.Hello(agent_id=agent, address=f"grpc+tcp://{agent}", slots=4, cpus=4)
        hello.tasks.extend(reports)
        world.sessions[agent] = session
        world.do(AgentAttached(session, hello))
    tasks = world.core.registry.tasks("job-1")
    assert [(t.task, t.attempt, t.state) for t in tasks if t.stage == 0] == [
        (0, 0, finished), (1, 0, running),
    ]  # fmt: skip
    world.finish("y", 0, 1)
    assert world.core.registry.status("job-1", world.now).stages[0].finished == 2


def test_nobody_answers_for_another_agents_move(world: Any, graphs: SimpleNamespace) -> None:
    world.attach("z")
    world.submit(graphs.shuffle())
    world.finish("x", 0, 0)
    world.do(AgentDrained("x", undo=False))
    moves = {agent: world.heard(agent, "adopt") for agent in ("y", "z")}
    ((target, (adopt, *_)),) = ((agent, found) for agent, found in moves.items() if found)
    other = "z" if target == "y" else "y"
    world.say(other, adopted=pb.Adopted(number=adopt.number, error=pb.ErrorDetail(message="no")))
    world.say(target, adopted=pb.Adopted(number=adopt.number))
    (moved,) = (t for t in world.core.registry.tasks("job-1") if (t.stage, t.task) == (0, 0))
    assert moved.agent_id == target


def test_a_task_may_fail_more_than_a_thousand_times() -> None:
    """Where `attempts_max` allows it, the pause before the next attempt is the longest one."""
    config = CoordinatorConfig(attempts_max=1 << 20, retry_s_max=7.0)
    verdict = judge(Task("x", failures=5000), PeerLostError("gone"), False, None, config)
    assert (verdict.pause_s, verdict.final) == (7.0, None)
