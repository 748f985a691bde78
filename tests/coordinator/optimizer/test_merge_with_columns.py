from types import SimpleNamespace

from fabric.coordinator.optimizer.merge_with_columns import merge_with_columns
from fabric.plan.nodes import WithColumns


def test_fires(p: SimpleNamespace) -> None:
    source = p.table()
    one, two = p.alias(p.call("add", "a", 1), "x"), p.alias(p.call("add", "b", 1), "y")
    assert merge_with_columns(WithColumns(WithColumns(source, (one,)), (two,))) == WithColumns(
        source, (one, two)
    )
    over = p.alias(p.call("add", "b", 1), "a")
    assert merge_with_columns(
        WithColumns(WithColumns(source, (one,)), (over,), True)
    ) == WithColumns(source, (one, over), True)


def test_leaves_others(p: SimpleNamespace) -> None:
    source = p.table()
    one = p.alias(p.call("add", "a", 1), "x")
    for plan in (
        WithColumns(WithColumns(source, (one,)), (p.alias("x", "y"),)),
        WithColumns(WithColumns(source, (one,)), (p.alias("b", "x"),), True),
        WithColumns(source, (one,)),
        source,
    ):
        assert merge_with_columns(plan) is plan
