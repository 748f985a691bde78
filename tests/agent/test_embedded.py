"""Whole jobs on agents of this process, with the real planner, fragments and chains."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from fabric.clients.demo.checksum import checksum, rows
from fabric.control import control_pb2 as pb
from fabric.errors import CancelledError, ExpressionError
from fabric.io.sources import memory
from fabric.plan.expr import Agg, Alias, Call, Column, Expr, Literal, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Exchange,
    ExchangeKind,
    ExchangeMode,
    Filter,
    Join,
    JoinStrategy,
    Limit,
    NodeConfig,
    Scan,
    Select,
    Sink,
    Sort,
    Union,
)
from fabric.testing import Gate
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.wait import wait_until

N = 20_000
TABLE = pa.table({"k": np.arange(N) % 97, "v": np.arange(N)})


@pytest.fixture
def fabric() -> Iterator[EmbeddedFabric]:
    before = set(threading.enumerate())
    with embedded_pair(2) as running:
        yield running
        agents = running.agents
        wait_until(lambda: not any(agent.store.stored_bytes for agent in agents))
        wait_until(lambda: not any(agent.running_tasks for agent in agents))
    assert set(threading.enumerate()) <= before


@pytest.fixture
def scan() -> Scan:
    return Scan(memory.register(TABLE), TABLE.schema)


def call(function: str, *args: Expr | int) -> Call:
    literals = (Literal(a, pa.int64()) if isinstance(a, int) else a for a in args)
    return Call(function, tuple(literals))


K, V = Column("k"), Column("v")


def test_an_embedded_agent_has_no_lease(fabric: EmbeddedFabric) -> None:
    """It sends no heartbeats: with one it would give up its tasks after a while."""
    now = fabric.agents[0]._services.clock.monotonic_s()
    assert all(agent._lease.left_s(now) is None for agent in fabric.agents)


@pytest.mark.parametrize("kind", ["hash", "round_robin", "gather", "forward"])
@pytest.mark.parametrize("mode", ["materialised", "pipelined"])
def test_every_kind_of_edge_carries_every_row(
    fabric: EmbeddedFabric, scan: Scan, kind: ExchangeKind, mode: ExchangeMode
) -> None:
    keys = ("k",) if kind == "hash" else ()
    exchange = Exchange(scan, kind, keys, mode=mode)
    found = fabric.collect(Filter(exchange, call("ge", V, 0)), parallelism=2)
    assert checksum(found) == checksum(TABLE)


def test_a_pipelined_diamond_with_one_batch_buffers(fabric: EmbeddedFabric, scan: Scan) -> None:
    """One source, two filtered branches, union."""
    source = Exchange(scan, "hash", ("k",), mode="pipelined", path="source")
    few = Filter(source, call("eq", call("modulo", V, 1000), 0))
    many = Filter(source, call("ge", V, 0))
    branches = [
        Exchange(branch, "round_robin", mode="pipelined", path=f"branch_{i}")
        for i, branch in enumerate((few, many))
    ]
    union = Filter(Union(tuple(branches)), call("ge", K, 0))
    one = {p: NodeConfig(buffer_batches=1) for p in ("source", "branch_0", "branch_1")}
    found = fabric.collect(union, parallelism=2, config=one)
    multiples = TABLE.filter(np.arange(N) % 1000 == 0)
    assert checksum(found) == checksum(pa.concat_tables([TABLE, multiples]))


@pytest.mark.parametrize("strategy", ["hash", "broadcast"])
def test_a_self_join_whose_source_feeds_two_edges(
    fabric: EmbeddedFabric, scan: Scan, strategy: JoinStrategy
) -> None:
    sums = Aggregate(scan, (K,), (Alias(Agg("sum", V), "s"),))
    join = Join(scan, sums, (K,), (K,), strategy=strategy)
    found = fabric.collect(join, parallelism=2)
    want = TABLE.join(TABLE.group_by("k").aggregate([("v", "sum")]), "k")
    assert checksum(found) == checksum(want.select(["k", "v", "v_sum"]))


def test_eight_fragments_at_once_end(fabric: EmbeddedFabric, scan: Scan) -> None:
    """Eight jobs of joins and sorts on two agents of two slots."""
    sums = Aggregate(scan, (K,), (Alias(Agg("sum", V), "s"),))
    join = Join(sums, scan, (K,), (K,), strategy="hash")
    plan = Sort(Aggregate(join, (K,), (Alias(Agg("max", Column("s")), "m"),)), (SortKey(K),))
    jobs = [fabric.submit(plan, parallelism=1 + i % 4) for i in range(8)]
    states = [fabric.wait(job).state for job in jobs]
    assert states == [pb.JOB_FINISHED] * 8
    for job in jobs:
        fabric.control.release(pb.JobRequest(job_id=job))
    found = rows(fabric.collect(plan, parallelism=2))
    assert found == rows(TABLE.group_by("k").aggregate([("v", "sum")]).sort_by("k"))


def test_a_limit_stops_a_pipelined_source(fabric: EmbeddedFabric, scan: Scan) -> None:
    source = Exchange(scan, "gather", mode="pipelined")
    found = fabric.collect(Limit(source, 7), parallelism=2)
    assert found.num_rows == 7


def test_an_error_ends_the_job_and_leaves_nothing(fabric: EmbeddedFabric, scan: Scan) -> None:
    zero = call("subtract", V, V)
    plan = Select(Exchange(scan, "hash", ("k",)), (Alias(call("divide", V, zero), "x"),))
    with pytest.raises(ExpressionError, match="division by zero") as error:
        fabric.collect(plan, parallelism=2)
    assert error.value.where.task
    assert error.value.where.agent.startswith("agent-")


@pytest.mark.parametrize("mode", ["materialised", "pipelined"])
def test_cancel_ends_a_held_job(fabric: EmbeddedFabric, scan: Scan, mode: ExchangeMode) -> None:
    with Gate() as gate:
        source = Exchange(scan, "hash", ("k",), mode=mode)
        job = fabric.submit(Sink(Filter(source, call("ge", V, 0)), gate.target), parallelism=2)
        wait_until(lambda: any(agent.running_tasks for agent in fabric.agents))
        fabric.control.cancel(pb.JobRequest(job_id=job))
        with pytest.raises(CancelledError, match="the job was cancelled"):
            fabric.wait(job)
        fabric.control.release(pb.JobRequest(job_id=job))
        wait_until(lambda: not any(agent.running_tasks for agent in fabric.agents))
