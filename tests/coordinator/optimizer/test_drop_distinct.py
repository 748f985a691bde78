from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.drop_distinct import drop_distinct
from fabric.plan.expr import Agg, Alias, Column, SortKey
from fabric.plan.nodes import Aggregate, Distinct, Filter, Limit, Select, Sort


def test_fires(p: SimpleNamespace) -> None:
    source = p.table()
    grouped = Aggregate(source, (Column("a"),), (Alias(Agg("sum", Column("b")), "x"),))
    for different in (
        Distinct(source),
        grouped,
        Filter(grouped, p.call("gt", "x", 1)),
        Limit(Sort(Distinct(source), (SortKey(Column("a")),)), 3),
    ):
        assert drop_distinct(Distinct(different)) is different


def test_leaves_others(p: SimpleNamespace) -> None:
    source = p.table("t", a=pa.float64(), b=pa.int64())
    floats = Aggregate(source, (Column("a"),), ())
    for plan in (
        Distinct(source),
        Distinct(floats),
        Distinct(Select(Distinct(source), (Column("a"),))),
        floats,
    ):
        assert drop_distinct(plan) is plan
