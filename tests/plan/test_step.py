"""One step more: the same schema and the same errors as the check of the whole plan."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.check import check, schema_after
from fabric.plan.expr import Alias, Column
from fabric.plan.nodes import Filter, Join, Limit, Node, NodeConfig, Plan, Scan, Select, WithColumns
from fabric.plan.schema import schema_of
from fabric.plan.sources import MemorySource

SCAN = Scan(MemorySource("t", 0), pa.schema([("a", pa.int64()), ("b", pa.bool_())]))


def test_the_schema_is_that_of_the_checked_plan() -> None:
    for root in (
        Filter(SCAN, Column("b")),
        Select(Filter(SCAN, Column("b")), (Column("a"),)),
        Join(SCAN, Limit(SCAN, 3), (Column("a"),), (Column("a"),)),
    ):
        assert schema_after(Plan(root)).equals(schema_of(check(Plan(root)).root))


@pytest.mark.parametrize("root", [Limit(SCAN, -1), Select(SCAN, (Column("c"),))])
def test_a_wrong_step_is_named_as_by_the_whole_check(root: Node) -> None:
    schema_of(SCAN)
    with pytest.raises(PlanError) as quick:
        schema_after(Plan(root))
    with pytest.raises(PlanError) as whole:
        check(Plan(root))
    assert str(quick.value) == str(whole.value)


def test_settings_of_a_step_that_is_not_there_are_refused() -> None:
    schema_after(Plan(SCAN))
    with pytest.raises(PlanError, match="no step"):
        schema_after(Plan(SCAN, (("nowhere", NodeConfig(parallelism=2)),)))


def test_a_thousand_steps_are_built_in_linear_time() -> None:
    def build(n: int) -> float:
        node: Node = SCAN
        begin = time.process_time()
        for i in range(n):
            node = WithColumns(node, (Alias(Column("a"), f"c{i}"),))
            schema_after(Plan(node))
        return time.process_time() - begin

    build(10)
    assert build(1000) < 5.0
