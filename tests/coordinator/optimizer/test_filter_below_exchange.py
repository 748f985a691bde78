from types import SimpleNamespace

import pytest

from fabric.coordinator.optimizer.filter_below_exchange import filter_below_exchange
from fabric.plan.nodes import Exchange, Filter


@pytest.mark.parametrize("kind", ["hash", "broadcast", "round_robin", "gather"])
def test_fires(p: SimpleNamespace, kind: str) -> None:
    t, predicate = p.table(), p.call("gt", p.call("divide", 1, "a"), 2)
    plan = Filter(Exchange(t, kind, ("a",), 4, path="e"), predicate, path="f")
    expected = Exchange(Filter(t, predicate, path="f"), kind, ("a",), 4, path="e")
    assert filter_below_exchange(plan) == expected


def test_leaves_others(p: SimpleNamespace) -> None:
    tapped = Exchange(p.table(), "forward", mode="pipelined")
    predicate = p.call("gt", "a", 2)
    for plan in (
        Filter(p.table(), predicate), Exchange(p.table(), "gather"), Filter(tapped, predicate)
    ):  # fmt: skip
        assert filter_below_exchange(plan) is plan
