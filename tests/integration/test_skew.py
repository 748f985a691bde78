"""Joins and groups of skewed keys: DuckDB's rows, planned anew or not, at any threshold.

Keys: 90 % the same, Zipf 1.2, all the same, all different, half null. Thresholds go from less than
a row to more than all. One row of 64 MB must go through whatever is done around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fabric
from fabric.clients.demo.checksum import checksum
from fabric.control import control_pb2 as pb
from fabric.io.sources import memory
from fabric.plan.check import check
from fabric.plan.expr import Agg, Alias, Call, Column, Literal, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Filter,
    Join,
    Node,
    Plan,
    Scan,
    Select,
    Sort,
)
from tests.support import duckdb, running
from tests.support.compare import unlike
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.local import LocalFabric
from tests.support.sampled import SOAK

K, V, W = Column("k"), Column("v"), Column("w")
AGENTS = (1, 2, 4)


@pytest.fixture(scope="module")
def fabrics() -> Iterator[dict[int, EmbeddedFabric]]:
    with ExitStack() as stack:
        yield {n: stack.enter_context(embedded_pair(n)) for n in AGENTS}


def keys(kind: str, n: int, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    some = rng.integers(0, 50, n)
    match kind:
        case "hot":
            return pa.array(np.where(rng.random(n) < 0.9, 7, some))
        case "zipf":
            return pa.array(np.minimum(rng.zipf(1.2, n), 10_000))
        case "one":
            return pa.array(np.full(n, 3))
        case "null":
            return pa.array(some, mask=rng.random(n) < 0.5)
        case _:
            return pa.array(rng.permutation(n))


def grouped(node: Node) -> Node:
    aggs = {"n": Agg("count", None), "total": Agg("sum", V), "most": Agg("max", W)}
    return Aggregate(node, (K,), tuple(Alias(agg, name) for name, agg in aggs.items()))


def positive(node: Node) -> Node:
    return Filter(node, Call("gt", (V, Literal(10, pa.int64()))))


ABOVE = {
    "rows": lambda n: n,
    "narrow": positive,
    "grouped": grouped,
    "grouped, narrow": lambda n: Select(grouped(n), (K, Column("total"))),
    "by another key": lambda n: Aggregate(n, (W,), (Alias(Agg("sum", V), "total"),)),
    "values": lambda n: Aggregate(n, (K,), (Alias(Agg("count_distinct", V), "values"),)),
    "distinct": lambda n: Distinct(Select(n, (K, W))),
    "sorted": lambda n: Sort(n, (SortKey(V, True), SortKey(K), SortKey(W))),
}
LEFT_ONLY = ("narrow", "rows", "values")
HOWS = ("inner", "left", "right", "full", "semi", "anti")
ADAPTIVE = st.builds(
    pb.Adaptive,
    enabled=st.sampled_from([True, True, True, False]),
    broadcast_bytes=st.sampled_from([0, 300, 1 << 20]),
    target_bytes=st.sampled_from([1, 100, 4000, 1 << 20]),
    tiny_bytes=st.sampled_from([0, 100, 4000]),
    skew_factor=st.sampled_from([1.0, 2.0, 4.0]),
)


@settings(max_examples=60 if SOAK else 30, deadline=None)
@given(
    kinds=st.tuples(*[st.sampled_from(["hot", "zipf", "one", "null", "different"])] * 2),
    sizes=st.tuples(st.integers(0, 600), st.integers(0, 40)),
    how=st.sampled_from(HOWS),
    above=st.sampled_from(sorted(ABOVE)),
    adaptive=ADAPTIVE,
    agents=st.sampled_from(AGENTS),
    parallelism=st.sampled_from([0, 3, 9]),
    seed=st.integers(0, 99),
)
def test_the_same_rows_as_duckdb(
    fabrics: dict[int, EmbeddedFabric],
    *,
    kinds: tuple[str, str],
    sizes: tuple[int, int],
    how: Any,
    above: str,
    adaptive: pb.Adaptive,
    agents: int,
    parallelism: int,
    seed: int,
) -> None:
    tables: dict[str, pa.Table] = {}
    sides: list[Node] = []
    for value, kind, n in zip(("v", "w"), kinds, sizes, strict=True):
        table = pa.table({"k": keys(kind, n, seed), value: pa.array(range(n), pa.int64())})
        source = memory.register(table)
        tables[source.token] = table
        # written by three tasks
        sides.append(Exchange(Scan(source, table.schema), "round_robin", (), 3))
    if how in ("semi", "anti") and above not in LEFT_ONLY:
        above = "values"
    root = ABOVE[above](Join(*sides, (K,), (K,), how))
    rig = fabrics[agents]
    job = rig.submit(root, parallelism=parallelism, adaptive=adaptive)
    try:
        status = rig.wait(job)
        found = running.result(rig.control, rig.transport, job)
        why = [line for stage in status.stages for line in stage.adapted]
        assert not unlike(found, duckdb.run(check(Plan(root)).root, tables)), why
    finally:
        rig.control.release(pb.JobRequest(job_id=job))


@pytest.fixture
def eager(two: LocalFabric) -> Iterator[fabric.Session]:
    """A session on two agents of which every hot partition is split."""
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        session.configure(target_bytes=1 << 16, broadcast_bytes=0, skew_factor=2.0)
        yield session


N_ROWS = 400_000


@pytest.fixture(scope="module")
def hot() -> pa.Table:
    return pa.table({"k": keys("hot", N_ROWS, 1), "v": pa.array(range(N_ROWS))})


def test_a_join_with_a_hot_key_shows_its_split(eager: fabric.Session, hot: pa.Table) -> None:
    names = pa.table({"k": list(range(50)), "name": [f"n{k}" for k in range(50)]})
    joined = eager.read_arrow(hot).join(eager.read_arrow(names), on="k", strategy="hash")
    with eager.submit(joined.named("joined")) as job:
        found = job.collect()
        plan = job.explain()
    expected = hot.join(names, "k", join_type="inner")
    assert checksum(found.select(["k", "v", "name"])) == checksum(expected)
    assert "partition" in plan
    assert "of joined/left is hot (" in plan
    assert "split in 2; each part reads partition" in plan


def test_an_aggregate_over_a_hot_join_is_merged(eager: fabric.Session, hot: pa.Table) -> None:
    names = pa.table({"k": list(range(50)), "w": list(range(50))})
    joined = eager.read_arrow(hot).join(eager.read_arrow(names), on="k", strategy="hash")
    totals = joined.group_by("k").agg(fabric.sum("v").alias("total")).named("totals")
    with eager.submit(totals) as job:
        found = job.collect()
        plan = job.explain()
    expected = hot.group_by("k").aggregate([("v", "sum")]).rename_columns(["k", "total"])
    assert checksum(found) == checksum(expected)
    assert "is hot (" in plan
    assert "merges the parts of totals" in plan


def test_a_side_that_turned_out_small_is_broadcast(two: LocalFabric, hot: pa.Table) -> None:
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        lists = pa.table({"ks": pa.array([[k] for k in hot["k"].to_pylist()]), "v": hot["v"]})
        large = session.read_arrow(lists).explode("ks")  # nobody knows how many rows these are
        few = large.filter(fabric.col("v") % 100_000 == 7).select("ks", w=fabric.col("v"))
        with session.submit(large.join(few, on="ks").named("joined")) as job:
            found = job.collect()
            plan = job.explain()
    few_rows = pa.table({"k": hot["k"].take([7, 100_007, 200_007, 300_007])})
    many = few_rows.group_by("k").aggregate([("k", "count")])
    counts = hot.group_by("k").aggregate([("v", "count")]).join(many, "k", join_type="inner")
    assert found.num_rows == sum(row["v_count"] * row["k_count"] for row in counts.to_pylist())
    assert "broadcast instead of hash; each of 2 tasks reads its part of joined/" in plan


def test_one_row_of_64_mb_among_others(eager: fabric.Session) -> None:
    texts = ["x" * (64 << 20)] + ["y"] * 999
    wide = pa.table({"k": [n % 10 for n in range(1000)], "text": texts})
    other = pa.table({"k": list(range(10)), "w": list(range(10))})
    joined = eager.read_arrow(wide).join(eager.read_arrow(other), on="k", strategy="hash")
    with eager.submit(joined.with_columns(n=fabric.col("text").str.len_chars())) as job:
        found = job.collect()
    assert found.num_rows == 1000
    assert sorted(found["n"].to_pylist())[-2:] == [1, 64 << 20]
