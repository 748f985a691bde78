from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.filter_below_explode import filter_below_explode
from fabric.plan.nodes import Explode, Filter


def lists(p: SimpleNamespace) -> object:
    return p.table("t", a=pa.int64(), e=pa.list_(pa.int64()))


def test_fires_on_other_columns(p: SimpleNamespace) -> None:
    source = lists(p)
    other, element, place = p.call("gt", "a", 1), p.call("gt", "e", 1), p.call("lt", "i", 2)
    plan = Filter(Explode(source, "e", position="i"), p.both(element, other, place))
    below = Explode(Filter(source, other), "e", position="i")
    assert filter_below_explode(plan) == Filter(below, p.both(element, place))
    assert filter_below_explode(Filter(Explode(source, "e", True), other)) == Explode(
        Filter(source, other), "e", True
    )


def test_leaves_others(p: SimpleNamespace) -> None:
    source = lists(p)
    for plan in (
        Filter(Explode(source, "e"), p.call("gt", "e", 1)),
        Filter(Explode(source, "e"), p.call("gt", p.call("divide", 1, "a"), 0)),
        Filter(source, p.call("gt", "a", 1)),
        Explode(source, "e"),
    ):
        assert filter_below_explode(plan) is plan
