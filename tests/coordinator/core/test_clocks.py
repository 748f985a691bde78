"""The wall clock is set forward and back by hours: nobody is lost, nothing waits or ends for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.effects import DatasetAnswered
from fabric.coordinator.core.events import DatasetAsked, Tick

AWAY = pb.ErrorDetail(kind="PeerLostError", message="no answer")
HOURS_S = 5 * 3600.0
JUMPS = (HOURS_S, -HOURS_S)


def given(world: Any) -> list[tuple[int, int]]:
    """Tasks and attempts that the agents were told of."""
    return [(t.task, t.attempt) for d in world.heard("x", "deploy") for t in d.tasks]


@pytest.mark.parametrize("jump_s", JUMPS)
def test_agents_retries_and_partitions_go_by_the_monotonic_clock(
    make_world: Any, graphs: SimpleNamespace, jump_s: float
) -> None:
    world = make_world(retry_s=2.0, retain_s=10.0, timeout_s=5.0)
    world.attach("x")
    stages = (graphs.stage(0, 1),)
    world.submit(type(graphs.shuffle())(stages, (graphs.edge(0, 0, -1, 1),)))
    world.report("x", 0, 0, pb.TASK_FAILED, error=AWAY)
    world.do(Tick(1000.0 + jump_s), after=1.0)
    assert given(world) == [(0, 0)]  # half of the pause is over, whatever the clock says
    world.say("x", heartbeat=pb.Heartbeat(sequence=1))
    world.do(Tick(1000.0), after=1.0)
    assert given(world) == [(0, 0), (0, 1)]
    world.say("x", heartbeat=pb.Heartbeat(sequence=2))
    world.do(Tick(1000.0 + jump_s), after=4.5)
    assert [agent.state for agent in world.core.agents.all(world.now)] == ["active"]
    world.finish("x", 0, 0, attempt=1)
    assert world.state() == "finished"
    for wall_s in (1000.0, 1000.0 + jump_s):
        world.say("x", heartbeat=pb.Heartbeat(sequence=3))
        world.do(Tick(wall_s), after=4.5)
    assert world.state() == "finished"  # 9 s: its partitions are there
    world.do(Tick(1000.0), after=1.0)
    assert world.state() == "released"
    assert world.core.registry.status("job-1", world.now).seconds == pytest.approx(6.5)


@pytest.mark.parametrize("jump_s", JUMPS)
def test_open_transactions_go_by_it_too(make_world: Any, jump_s: float) -> None:
    world = make_world(transaction_s=60.0, timeout_s=1000.0)
    world.attach("x")
    schema = pa.schema([("k", pa.int64())]).serialize().to_pybytes()
    begin = pb.DatasetBegin(name="d", schema=schema, mode="create")
    world.do(Tick(1000.0 + jump_s), after=1.0)
    world.do(DatasetAsked(pb.DatasetRequest(begin=begin), "tx-1"))
    for wall_s in (1000.0, 1000.0 + jump_s, 1000.0):
        world.do(Tick(wall_s), after=15.0)
    assert [key for key, _ in world.store.scan("transactions")] == ["tx-1"]
    commit = pb.DatasetCommit(transaction="tx-1")
    effects = world.do(DatasetAsked(pb.DatasetRequest(commit=commit), "tx-2"))
    assert any(isinstance(effect, DatasetAnswered) for effect in effects)
    world.do(DatasetAsked(pb.DatasetRequest(begin=begin_of("e", schema)), "tx-3"))
    world.do(Tick(1000.0 - jump_s), after=61.0)
    assert "tx-3" not in [key for key, _ in world.store.scan("transactions")]


def begin_of(name: str, schema: bytes) -> pb.DatasetBegin:
    return pb.DatasetBegin(name=name, schema=schema, mode="create")


@pytest.mark.parametrize("jump_s", JUMPS)
def test_a_restart_after_a_jump(make_world: Any, graphs: SimpleNamespace, jump_s: float) -> None:
    """Only what was written down is left of the time: never less than nothing has passed."""
    world = make_world(retain_s=10.0, timeout_s=5.0)
    world.attach("x", "y")
    world.submit(graphs.shuffle())
    world.start(1000.0 + jump_s)
    assert world.state() == "running"
    status = world.core.registry.status("job-1", world.now)
    assert status.seconds >= 0
    assert [agent.state for agent in world.core.agents.all(world.now)] == ["starting", "starting"]
    world.do(Tick(1000.0), after=4.0)  # the clock is set right again
    assert [agent.state for agent in world.core.agents.all(world.now)] == ["starting", "starting"]
