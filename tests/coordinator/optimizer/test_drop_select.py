from types import SimpleNamespace

from fabric.coordinator.optimizer.drop_select import drop_select
from fabric.plan.expr import Column
from fabric.plan.nodes import Select


def test_fires(p: SimpleNamespace) -> None:
    t = p.table()
    assert drop_select(Select(t, (Column("a"), Column("b"), Column("s")))) is t


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    for exprs in (
        (Column("a"), Column("b")),
        (Column("b"), Column("a"), Column("s")),
        (p.alias("a", "x"), Column("b"), Column("s")),
    ):
        plan = Select(t, exprs)
        assert drop_select(plan) is plan
