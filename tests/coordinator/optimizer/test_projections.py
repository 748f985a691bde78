from __future__ import annotations

from types import SimpleNamespace

from fabric.coordinator.optimizer.projections import drop_select, merge_selects, merge_with_columns
from fabric.plan.expr import Column
from fabric.plan.nodes import Select, WithColumns


def test_fires_and_keeps_names(p: SimpleNamespace) -> None:
    t, add = p.table(), p.call("add", "a", "b")
    inner = (p.alias(add, "x"), p.alias("s", "y"), p.alias(1, "one"))
    plan = Select(Select(t, inner, path="i"), (p.call("negate", "x"), Column("y")), path="o")
    expected = Select(t, (p.alias(p.call("negate", add), "x"), p.alias("s", "y")), path="o")
    assert merge_selects(plan) == expected
    plan = Select(Select(t, inner), (Column("one"), p.alias("y", "z")))
    assert merge_selects(plan) == Select(t, (p.alias(1, "one"), p.alias("s", "z")))


def test_merge_selects_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    inner = Select(t, (p.alias(p.call("add", "a", "b"), "x"), p.alias(1, "one")))
    for plan in (
        Select(inner, (p.alias(p.call("multiply", "x", "x"), "y"),)),
        Select(inner, (p.alias(p.call("add", "one", "x"), "y"),)),
        inner,
    ):
        assert merge_selects(plan) is plan


def test_drop_select_fires(p: SimpleNamespace) -> None:
    t = p.table()
    assert drop_select(Select(t, (Column("a"), Column("b"), Column("s")))) is t


def test_drop_select_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    for exprs in (
        (Column("a"), Column("b")),
        (Column("b"), Column("a"), Column("s")),
        (p.alias("a", "x"), Column("b"), Column("s")),
    ):
        plan = Select(t, exprs)
        assert drop_select(plan) is plan


def test_merge_with_columns_fires(p: SimpleNamespace) -> None:
    source = p.table()
    one, two = p.alias(p.call("add", "a", 1), "x"), p.alias(p.call("add", "b", 1), "y")
    assert merge_with_columns(WithColumns(WithColumns(source, (one,)), (two,))) == WithColumns(
        source, (one, two)
    )
    over = p.alias(p.call("add", "b", 1), "a")
    assert merge_with_columns(
        WithColumns(WithColumns(source, (one,)), (over,), True)
    ) == WithColumns(source, (one, over), True)


def test_merge_with_columns_leaves_others(p: SimpleNamespace) -> None:
    source = p.table()
    one = p.alias(p.call("add", "a", 1), "x")
    for plan in (
        WithColumns(WithColumns(source, (one,)), (p.alias("x", "y"),)),
        WithColumns(WithColumns(source, (one,)), (p.alias("b", "x"),), True),
        WithColumns(source, (one,)),
        source,
    ):
        assert merge_with_columns(plan) is plan
