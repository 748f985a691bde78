from types import SimpleNamespace

from fabric.coordinator.optimizer.merge_selects import merge_selects
from fabric.plan.expr import Column
from fabric.plan.nodes import Select


def test_fires_and_keeps_names(p: SimpleNamespace) -> None:
    t, add = p.table(), p.call("add", "a", "b")
    inner = (p.alias(add, "x"), p.alias("s", "y"), p.alias(1, "one"))
    plan = Select(Select(t, inner, path="i"), (p.call("negate", "x"), Column("y")), path="o")
    expected = Select(t, (p.alias(p.call("negate", add), "x"), p.alias("s", "y")), path="o")
    assert merge_selects(plan) == expected
    plan = Select(Select(t, inner), (Column("one"), p.alias("y", "z")))
    assert merge_selects(plan) == Select(t, (p.alias(1, "one"), p.alias("s", "z")))


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    inner = Select(t, (p.alias(p.call("add", "a", "b"), "x"), p.alias(1, "one")))
    for plan in (
        Select(inner, (p.alias(p.call("multiply", "x", "x"), "y"),)),
        Select(inner, (p.alias(p.call("add", "one", "x"), "y"),)),
        inner,
    ):
        assert merge_selects(plan) is plan
