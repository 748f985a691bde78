from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.passes import unnoted
from fabric.coordinator.optimizer.share_subplans import share_subplans
from fabric.plan.expr import Agg, Alias, Call, Column, Literal, Udf
from fabric.plan.nodes import Aggregate, Filter, Join, Node, Union, WithColumns

K = (Column("a"),)


ONE = Literal(1, pa.int64())


def grouped(source: Node, path: str, least: Literal = ONE) -> Node:
    kept = Filter(source, Call("gt", (Column("a"), least)), path=f"{path}/filter")
    return Aggregate(kept, K, (Alias(Agg("count", None), "n"),), path=path)


def test_fires(p: SimpleNamespace) -> None:
    plan = Join(grouped(p.table(), "one"), grouped(p.table(), "two"), K, K)
    found = share_subplans(plan, unnoted)
    assert found.left is found.right is plan.left
    both = Union((Join(plan.left, plan.right, K, K, "semi"), plan.right))
    found = share_subplans(both, unnoted)
    assert found.inputs[0].left is found.inputs[0].right is found.inputs[1]


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    user = Udf("f", K, pa.int64(), "arrow", b"")

    def by_user() -> Node:
        return Aggregate(WithColumns(p.table(), (Alias(user, "u"),)), K, ())

    once = grouped(t, "x")
    for plan in (
        Join(once, once, K, K),
        Join(grouped(t, "x"), grouped(t, "y", Literal(1, pa.int32())), K, K),
        Join(
            grouped(t, "x", Literal(0.0, pa.float64())),
            grouped(t, "y", Literal(-0.0, pa.float64())),
            K,
            K,
        ),
        Join(by_user(), by_user(), K, K),
        Union((p.table(), p.table())),
        t,
    ):
        assert share_subplans(plan, unnoted) is plan
