"""Window functions taken out of expressions: one node a partition, one column a function."""

from __future__ import annotations

import pyarrow as pa

from fabric import col, row_number
from fabric.clients.dataframe.lowering.over import has_window, plain_windows, windowed
from fabric.plan import expr as plan
from fabric.plan import nodes

SCAN = nodes.StageInput(0, pa.schema([("k", pa.string()), ("x", pa.int64()),
                                      ("__over_0", pa.int64())]))  # fmt: skip
TOTAL = col("x").sum().over("k")


def test_a_function_used_twice_is_one_column_with_a_free_name() -> None:
    exprs = ((col("x") / TOTAL).node, (TOTAL + 1).alias("y").node)
    found = windowed(SCAN, exprs, "select_*/window")
    assert found.added == ("__over_0_2",)
    assert isinstance(found.node, nodes.Window)
    assert found.node.exprs == (plan.Alias(TOTAL.node, "__over_0_2"),)
    assert found.node.path == "select_*/window"
    assert found.exprs[0] == plan.Alias((col("x") / col("__over_0_2")).node, "x")
    assert plan.output_name(found.exprs[1]) == "y"


def test_expressions_without_one_are_the_same_objects() -> None:
    plain = (col("x") + 1).node
    found = windowed(SCAN, (plain, TOTAL.node), "p")
    assert found.exprs[0] is plain
    assert not has_window(plain)
    assert has_window(TOTAL.node)


def test_windows_in_windows_lie_below() -> None:
    outer = (col("x") - TOTAL).max().over("x")
    found = windowed(SCAN, (outer.node,), "p")
    assert isinstance(found.node, nodes.Window)
    assert isinstance(found.node.input, nodes.Window)
    assert found.node.input.input is SCAN
    assert not plain_windows((outer.node,))


def test_plain_windows_share_a_partition() -> None:
    first = row_number().over("k", order_by="x").alias("n").node
    assert plain_windows((first, TOTAL.node))
    assert not plain_windows((first, col("x").sum().over().node))
    assert not plain_windows((first, col("x").node))
    assert not plain_windows(())
