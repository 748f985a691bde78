from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.filter_below_window import filter_below_window
from fabric.plan.expr import Agg, Alias, Column, Over, SortKey
from fabric.plan.nodes import Filter, Window


def numbered(source: object, *keys: str) -> Window:
    over = Over(Agg("row_number", None), tuple(map(Column, keys)), (SortKey(Column("b")),))
    return Window(source, (Alias(over, "n"),))


def test_fires_on_partition_keys(p: SimpleNamespace) -> None:
    key, number = p.call("gt", "a", 1), p.call("lt", "n", 3)
    source = p.table()
    plan = Filter(numbered(source, "a", "s"), p.both(number, key))
    assert filter_below_window(plan) == Filter(numbered(Filter(source, key), "a", "s"), number)
    plan = Filter(numbered(source, "a"), key)
    assert filter_below_window(plan) == numbered(Filter(source, key), "a")


def test_leaves_others(p: SimpleNamespace) -> None:
    source = p.table("t", a=pa.int64(), b=pa.int64(), f=pa.float64())
    for plan in (
        Filter(numbered(source, "a"), p.call("lt", "n", 3)),
        Filter(numbered(source, "a"), p.call("lt", "b", 3)),
        Filter(numbered(source, "a"), p.call("gt", p.call("divide", 1, "a"), 0)),
        Filter(numbered(source, "f"), p.call("gt", "f", 1)),
        Filter(numbered(source), p.call("gt", "a", 1)),
        Filter(source, p.call("gt", "a", 1)),
        numbered(source, "a"),
    ):
        assert filter_below_window(plan) is plan
