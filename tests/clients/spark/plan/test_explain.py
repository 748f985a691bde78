from __future__ import annotations

import pyarrow as pa
import pytest
from plan_frames import agg, col, over, scan

from fabric.clients.spark.plan.explain import REFUSALS, refuse, refused
from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.expr import SortKey, Udf
from fabric.plan.nodes import Limit, MapAsync, Match, Node, Plan, Scan, Sink, Window
from fabric.plan.sources import DatasetSource
from fabric.plan.targets import FileTarget


def of(dtype: pa.DataType) -> Node:
    return scan(pa.table({"x": pa.array([], dtype)}))


WIDE = of(pa.decimal256(50, 2))
REFUSED: list[list[Node]] = [
    [WIDE, of(pa.decimal128(5, -2)), of(pa.month_day_nano_interval()), of(pa.list_(pa.null())),
     of(pa.struct([("a", pa.list_view(pa.int8()))]))],
    [Limit(of(pa.int8()), 1, 1 << 31)],
    [Window(of(pa.list_(pa.struct([("f", pa.float32())]))),
            (over(agg("count_distinct", col("x"))),))],
    [Match(of(pa.int8()), "A+", (), (SortKey(col("x")),), (), (), per_match="all")],
    [Scan(DatasetSource("d", 3), pa.schema([("x", pa.int8())]))],
    [MapAsync(of(pa.int8()), Udf("f", (), pa.null(), "object", b""), pa.schema([("y", pa.int8())]),
              rate_per_s=5.0)],
]  # fmt: skip
"""For each line of the table plans that it finds."""


def test_each_line_finds_its_own() -> None:
    assert len(REFUSED) == len(REFUSALS)
    for number, nodes in enumerate(REFUSED):
        for node in nodes:
            root = check(Plan(node)).root
            assert [bool([*line.find(root)]) for line in REFUSALS].index(True) == number
            with pytest.raises(PlanError, match="Spark can't run this: ") as caught:
                refuse(root)
            assert caught.value.where.node


def test_a_finding_is_told_once_and_where_it_begins() -> None:
    root = check(Plan(Sink(Limit(Limit(WIDE, 3), 2), FileTarget("ipc", "/x/y", True)))).root
    (error,) = refused(root)
    assert error.where.node == "scan_1"
    with pytest.raises(PlanError, match="cast the column or drop it before, or run the plan emb"):
        refuse(root)


def test_other_plans_are_not() -> None:
    fine = Limit(of(pa.list_(pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))]))), 1, 5)
    assert [*refused(check(Plan(fine)).root)] == []
