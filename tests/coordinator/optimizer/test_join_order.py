"""Joins in another order: the same columns, the same rows, small results first."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.join_order import reorder_joins, smaller_side_right
from fabric.coordinator.optimizer.passes import unnoted
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.nodes import Filter, Join, Limit, Node, Select
from fabric.plan.schema import schema_of
from fabric.plan.statistics import ColumnFacts, SourceFacts
from fabric.plan.walk import walk

SIZES = {"much": 1_000_000, "mid": 10_000, "few": 10}
FACTS = {
    name: SourceFacts(n_rows=n_rows, columns={"few_id": ColumnFacts(n_nulls=0, least=1, most=10)})
    for name, n_rows in SIZES.items()
}
I64 = pa.int64()
rule = partial(reorder_joins, FACTS, (), note=unnoted)


def on(left: Node, right: Node, one: str, other: str, **options: object) -> Join:
    return Join(left, right, (Column(one),), (Column(other),), **options)


def sources(p: SimpleNamespace) -> tuple[Node, Node, Node]:
    much = p.table("much", m=I64, mid_id=I64, v=I64)
    mid = p.table("mid", mid_id=I64, few_id=I64, v=I64)
    return much, mid, p.table("few", few_id=I64, v=I64)


def some(few: Node) -> Filter:
    return Filter(few, Call("eq", (Column("v"), Literal(1, I64))))


def paths(root: Node) -> list[str]:
    """Sources from left to right."""
    return [node.path for node in walk(root) if node.path in SIZES]


def test_reorder_joins_fires(p: SimpleNamespace) -> None:
    much, mid, few = sources(p)
    one = on(much, mid, "mid_id", "mid_id", suffix="_1", path="a")
    plan = on(one, some(few), "few_id", "few_id", suffix="_2", path="b")
    found = rule(root=plan)
    assert isinstance(found, Select)
    assert schema_of(found).equals(schema_of(plan))
    top = found.input
    assert isinstance(top, Join)
    assert paths(top) == ["much", "mid", "few"]
    assert isinstance(top.right, Join)
    assert (top.right.path, top.path) == ("a", "b")
    assert [node.how for node in walk(top) if isinstance(node, Join)] == ["inner", "inner"]


def test_a_condition_waits_until_its_columns_are_there(p: SimpleNamespace) -> None:
    much, mid, few = sources(p)
    one = on(much, mid, "mid_id", "mid_id", suffix="_1", condition=p.call("gt", "v", "v_1"))
    plan = on(one, some(few), "few_id", "few_id", suffix="_2")
    found = rule(root=plan)
    kept = [node for node in walk(found) if isinstance(node, Filter)]
    assert len(kept) == 2
    assert found.input is kept[-1]


def test_a_cross_join_gives_way_to_keys(p: SimpleNamespace) -> None:
    much, mid, few = sources(p)
    crossed = Join(much, few, (), (), "cross", "_f")
    plan = Join(
        crossed, mid, (Column("mid_id"), Column("few_id")), (Column("mid_id"), Column("few_id"))
    )
    found = rule(root=plan)
    assert "cross" not in [node.how for node in walk(found) if isinstance(node, Join)]


def test_a_shared_join_is_a_relation_of_its_own(p: SimpleNamespace) -> None:
    much, mid, few = sources(p)
    one = on(much, mid, "mid_id", "mid_id", suffix="_1", path="a")
    plan = on(one, some(few), "few_id", "few_id", suffix="_2", path="b")
    found = rule(root=on(plan, Limit(one, 3), "m", "m", suffix="_3", path="c"))
    assert sum(node is one for node in walk(found)) == 1
    assert sum(child is one for node in walk(found) for child in node.children) == 2


@pytest.mark.parametrize(
    "change", ["good", "left", "asked for", "can raise", "unknown", "pinned", "two"]
)
def test_reorder_joins_leaves_others(p: SimpleNamespace, change: str) -> None:
    much, mid, few = sources(p)
    options: dict[str, object] = {"suffix": "_1", "path": "a"}
    if change == "left":
        options["how"] = "left"
    if change == "asked for":
        options["strategy"] = "hash"
    if change == "can raise":
        options["condition"] = p.call("gt", p.call("divide", 1, "v"), 0)
    if change == "unknown":
        mid = p.table("who knows", mid_id=I64, few_id=I64, v=I64)
    one = on(much, mid, "mid_id", "mid_id", **options)
    plan: Node = on(one, some(few), "few_id", "few_id", suffix="_2", path="b")
    if change == "good":
        plan = on(much, on(mid, some(few), "few_id", "few_id"), "mid_id", "mid_id", suffix="_3")
    if change == "two":
        plan = one
    pinned = ("a", "b") if change == "pinned" else ()
    assert reorder_joins(FACTS, pinned, plan, unnoted) is plan


FEW_AND_MANY = {"few": SourceFacts(n_rows=10), "many": SourceFacts(n_rows=10_000)}
HUGE = {name: SourceFacts(n_rows=n << 30) for name, n in (("few", 1), ("many", 2))}
K = (Column("k"),)


def sides(p: SimpleNamespace) -> tuple[object, object]:
    columns = {"k": pa.int64(), "a": pa.int64()}
    return p.table("few", **columns), p.table("many", **columns)


def test_smaller_side_right_fires(p: SimpleNamespace) -> None:
    few, many = sides(p)
    plan = Join(few, many, K, K, path="j")
    found = smaller_side_right(FEW_AND_MANY, (), plan, unnoted)
    assert isinstance(found, Select)
    assert schema_of(found).equals(schema_of(plan))
    swapped = found.input
    assert swapped.left.input is many
    assert swapped.right is few
    assert swapped.path == "j"


@pytest.mark.parametrize("change", ["right", "left", "asked", "unknown", "huge", "pinned"])
def test_smaller_side_right_leaves_others(p: SimpleNamespace, change: str) -> None:
    few, many = sides(p)
    how = "left" if change == "left" else "inner"
    strategy = "hash" if change == "asked" else "auto"
    left, right = (many, few) if change == "right" else (few, many)
    plan = Join(left, right, K, K, how, strategy=strategy, path="j")
    facts = {"unknown": {}, "huge": HUGE}.get(change, FEW_AND_MANY)
    pinned = ("j",) if change == "pinned" else ()
    assert smaller_side_right(facts, pinned, plan, unnoted) is plan
    assert smaller_side_right(facts, pinned, few, unnoted) is few
