"""Generated plans: optimised or not, in one stage or many, planned anew or not: the same rows.

Oracle: the plan as written, in one fragment. What DuckDB says to such plans is asked in
`tests/integration`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.config import AdaptiveConfig
from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.planner.planner import plan_stages
from fabric.io.sources import enumerate_splits, memory
from fabric.plan.check import check
from fabric.plan.expr import Agg, Alias, Call, Column, Expr, Literal, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Filter,
    Join,
    Limit,
    Node,
    NodeConfig,
    Plan,
    Scan,
    Select,
    Sort,
    Union,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import Split
from fabric.plan.walk import rewrite, walk
from tests.support.sampled import SOAK

K, V, S = Column("k"), Column("v"), Column("s")
FACTS = pa.schema({"k": pa.int64(), "v": pa.int64(), "s": pa.string()})
OTHERS = pa.schema({"k": pa.int32(), "w": pa.int64(), "s": pa.string()})


def lit(value: int) -> Literal:
    return Literal(value, pa.int64())


def call(function: str, *args: Expr) -> Call:
    return Call(function, args)


def kvs(node: Node, k: Expr = K, v: Expr = V, s: Expr = S) -> Node:
    """Back to the three columns that every step begins with."""
    return Select(node, (Alias(k, "k"), Alias(v, "v"), Alias(s, "s")))


def grouped(node: Node, keys: dict[str, Expr], **aggs: Agg) -> Node:
    named = tuple(Alias(agg, name) for name, agg in aggs.items())
    return kvs(Aggregate(node, tuple(Alias(key, name) for name, key in keys.items()), named))


PREDICATES: list[Expr] = [
    call("gt", K, lit(1)),
    call("is_not_null", S),
    call("and", call("lt", V, lit(4)), call("ne", K, V)),
    call("gt", call("modulo", V, lit(3)), lit(0)),
    call("or", call("is_null", V), call("eq", S, Literal("a", pa.string()))),
    call("eq", call("coalesce", K, lit(7)), lit(7)),
]

STEPS: list[Callable[[Node, Node], Node]] = [
    *(lambda n, _, p=p: Filter(n, p) for p in PREDICATES),
    lambda n, _: kvs(n, k=call("add", K, lit(1))),
    lambda n, _: kvs(WithColumns(n, (Alias(call("add", V, lit(2)), "x"),)), v=Column("x")),
    lambda n, _: WithColumns(n, (Alias(call("concat", S, S), "s"),), True),
    lambda n, _: grouped(n, {"k": K}, v=Agg("sum", V), s=Agg("max", S)),
    lambda n, _: grouped(n, {"s": S}, v=Agg("count", None), k=Agg("min", K)),
    lambda n, _: grouped(n, {"s": S, "k": K}, v=Agg("count", V)),
    lambda n, _: grouped(n, {"k": call("modulo", V, lit(3))}, v=Agg("max", K), s=Agg("min", S)),
    lambda n, _: grouped(n, {"k": K}, v=Agg("count_distinct", V), s=Agg("min", S)),
    lambda n, _: grouped(n, {}, k=Agg("max", K), v=Agg("sum", V), s=Agg("min", S)),
    lambda n, _: Distinct(n),
    lambda n, o: kvs(Join(n, o, (K,), (K,)), v=Column("w")),
    lambda n, o: kvs(Join(n, o, (K,), (K,), "left"), v=call("coalesce", Column("w"), V)),
    lambda n, o: kvs(Join(n, o, (S, K), (S, K), "left"), v=call("coalesce", Column("w"), V)),
    lambda n, o: Join(n, o, (call("add", K, lit(1)),), (K,), "semi"),
    lambda n, o: Join(n, o, (S,), (S,), "anti"),
    lambda n, o: kvs(Join(n, o, (K,), (K,), strategy="broadcast"), v=Column("w")),
    lambda n, o: kvs(Join(n, Exchange(o, "broadcast"), (K,), (K,)), v=Column("w")),
    lambda n, o: kvs(Join(n, o, (K,), (K,), strategy="hash"), v=Column("w")),
    lambda n, _: Join(n, Filter(n, PREDICATES[0]), (V,), (V,), "semi"),
    lambda n, _: Union((n, Filter(n, PREDICATES[1]))),
    lambda n, o: Union((n, kvs(o, k=Column("k"), v=Column("w")))),
    lambda n, _: Exchange(n, "hash", ("k",)),
    lambda n, _: Exchange(n, "round_robin", (), 3),
    lambda n, _: Exchange(n, "gather"),
    lambda n, _: Exchange(n, "forward"),
    lambda n, _: Limit(Sort(n, (SortKey(V, True), SortKey(K), SortKey(S))), 4, 1),
    lambda n, _: Sort(n, (SortKey(S),)),
]

VALUES = st.none() | st.integers(0, 5)
ROWS = st.lists(st.tuples(VALUES, VALUES, st.none() | st.sampled_from(["", "a", "B"])), max_size=14)
ADAPTIVE = st.builds(
    AdaptiveConfig,
    broadcast_bytes=st.sampled_from([0, 8, 40, 10**6]),
    target_bytes=st.sampled_from([1, 16, 50, 10**6]),
    tiny_bytes=st.sampled_from([0, 8, 50, 10**6]),
    skew_factor=st.sampled_from([1.0, 1.5, 4.0]),
)
"""From thresholds below one row to any number of rows."""


def scan(rows: list[Any], schema: pa.Schema, path: str) -> tuple[Scan, pa.Table]:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    return Scan(memory.register(table), schema, path=path), table


def splits_of(root: Node, n: int) -> dict[str, list[Split]]:
    """Every table in up to `n` pieces."""
    return {
        node.path: enumerate_splits(node.source, n) for node in walk(root) if isinstance(node, Scan)
    }


@settings(
    max_examples=120 if SOAK else 60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    facts=ROWS,
    others=ROWS,
    steps=st.lists(st.sampled_from(range(len(STEPS))), min_size=1, max_size=4),
    parallelism=st.integers(1, 4),
    configured=st.none() | st.integers(1, 3),
    adaptive=ADAPTIVE,
)
def test_same_rows(
    runner: SimpleNamespace,
    *,
    facts: list[Any],
    others: list[Any],
    steps: list[int],
    parallelism: int,
    configured: int | None,
    adaptive: AdaptiveConfig,
) -> None:
    left, keep_left = scan(facts, FACTS, "facts")
    right, keep_right = scan(others, OTHERS, "others")
    node: Node = left
    for step in steps:
        node = STEPS[step](node, right)
    written = check(Plan(node))
    expected = runner.rows(runner.run(plan_stages(_flat(written), splits_of(written.root, 1), 1)))
    paths = sorted(n.path for n in walk(written.root))
    config = ((paths[0], NodeConfig(parallelism=configured)),) if configured else ()
    plan = check(Plan(written.root, config))
    optimised = optimize(plan)
    assert schema_of(optimised.root).equals(schema_of(plan.root))
    for form in (plan, optimised):
        graph = plan_stages(
            form, splits_of(form.root, 4), parallelism, broadcast_bytes=adaptive.broadcast_bytes
        )
        assert runner.rows(runner.run(graph)) == expected
        assert runner.rows(runner.run(graph, adaptive)) == expected
    del keep_left, keep_right


def _flat(plan: Plan) -> Plan:
    """`plan` without exchanges: they change no rows."""
    return Plan(rewrite(plan.root, lambda n: n.input if isinstance(n, Exchange) else n))
