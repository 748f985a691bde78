"""The plan of an asof join: windows by key, an equi-join, readable paths."""

from __future__ import annotations

import pytest

from fabric import DataFrame
from fabric.plan import nodes
from fabric.plan.check import check
from fabric.plan.walk import walk

LEFT = DataFrame({"t": [1], "k": ["a"], "x": [1]})
RIGHT = DataFrame({"t": [1], "k": ["a"], "y": [1.0]})


@pytest.mark.parametrize(("strategy", "joins"), [("backward", 1), ("forward", 1), ("nearest", 2)])
def test_shape(strategy: str, joins: int) -> None:
    frame = LEFT.join_asof(RIGHT, on="t", by="k", strategy=strategy)  # type: ignore[arg-type]
    found = list(walk(check(frame.plan).root))
    made = [node for node in found if isinstance(node, nodes.Join)]
    assert len(made) == joins
    assert all(node.how == "left" and len(node.left_keys) == 2 for node in made)
    windows = [node for node in found if isinstance(node, nodes.Window)]
    assert {node.path for node in windows} == {"join_asof_1/count", "join_asof_1/order"}
    assert frame.columns == ["t", "k", "x", "y"]


def test_the_right_side_is_read_where_it_is() -> None:
    frame = LEFT.join_asof(RIGHT, on="t", strategy="nearest")
    scans = [node for node in walk(frame.plan.root) if isinstance(node, nodes.Scan)]
    assert scans == [LEFT.plan.root, RIGHT.plan.root]
