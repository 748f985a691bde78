"""Walk and rewrite: every object once, identity kept, no recursion however deep."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.plan.check import check
from fabric.plan.codec import decode, encode
from fabric.plan.expr import (
    Agg,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    IsIn,
    Literal,
    children,
    columns_of,
    output_name,
)
from fabric.plan.nodes import Filter, Join, Node, Plan, Scan, Select, Union
from fabric.plan.printer import tree
from fabric.plan.schema import schema_of
from fabric.plan.sources import MemorySource
from fabric.plan.svg import layout, svg
from fabric.plan.walk import (
    fold,
    map_exprs,
    postorder,
    rewrite,
    rewrite_expr,
    walk,
    walk_expr,
    with_exprs,
)
from tests.support.plans import random_plan, random_tables

DEPTH = 2_000
TABLES = random_tables(Random(5))
seeds = st.integers(0, 1 << 32)


def scan() -> Scan:
    return Scan(MemorySource("t", 1), pa.schema([("a", pa.int32()), ("b", pa.int32())]))


def test_a_leaf_with_two_parents_comes_once_before_the_first() -> None:
    leaf, other = Column("a"), Column("b")
    low = Call("add", (leaf, other))
    root = Call("add", (Call("add", (leaf, low)), leaf))
    assert list(map(id, walk_expr(root))) == list(map(id, (leaf, other, low, root.args[0], root)))


def positive(node: Node) -> Filter:
    return Filter(node, Call("gt", (Column("a"), Literal(0, pa.int32()))))


@given(seed=seeds)
def test_walk_gives_each_object_once_children_first(seed: int) -> None:
    nodes = list(walk(random_plan(Random(seed), TABLES)))
    position = {id(node): index for index, node in enumerate(nodes)}
    assert len(position) == len(nodes)
    assert all(position[id(c)] < position[id(n)] for n in nodes for c in n.children)


@given(seed=seeds)
def test_walk_goes_in_the_order_of_postorder_whatever_is_shared(seed: int) -> None:
    root = random_plan(Random(seed), TABLES)
    twice = Join(root, Join(root, scan(), (), (), "cross", "_2"), (), (), "cross", "_3")
    for plan in (root, twice):
        expected = list(postorder(plan, lambda node: node.children))
        assert list(map(id, walk(plan))) == list(map(id, expected))
    for node in walk(root):
        for expr in node.expressions:
            both = Call("and", (expr, Call("or", (Column("a"), expr))))
            for part in (expr, both):
                expected = list(postorder(part, children))
                assert list(map(id, walk_expr(part))) == list(map(id, expected))


@given(seed=seeds)
def test_rewrite_that_changes_nothing_returns_the_same_object(seed: int) -> None:
    root = random_plan(Random(seed), TABLES)
    assert rewrite(root, lambda node: node) is root


@given(seed=seeds)
def test_map_exprs_that_changes_nothing_returns_the_same_object(seed: int) -> None:
    root = random_plan(Random(seed), TABLES)
    same = rewrite(root, lambda n: map_exprs(n, lambda e: rewrite_expr(e, lambda part: part)))
    assert same is root


@given(seed=seeds)
def test_with_exprs_puts_them_where_exprs_of_found_them(seed: int) -> None:
    for node in walk(random_plan(Random(seed), TABLES)):
        other = [Column(f"c{i}") for i in range(len(node.expressions))]
        assert list(with_exprs(node, other).expressions) == other


def test_rewrite_keeps_sharing() -> None:
    shared = positive(scan())
    root = Union((shared, Select(shared, (Column("a"), Column("b")))))
    done = rewrite(root, lambda node: replace(node, path=type(node).__name__))
    first, second = done.children
    assert second.children[0] is first
    assert len(list(walk(done))) == 4


def test_rewrite_leaves_the_other_branch_alone() -> None:
    left, right = positive(scan()), scan()
    root = Join(left, right, (Column("a"),), (Column("a"),))
    done = rewrite(root, lambda n: n.children[0] if isinstance(n, Filter) else n)
    assert done.children[0] is left.input
    assert done.children[1] is right


def test_a_diamond_is_walked_once_however_often_it_doubles() -> None:
    node: Node = scan()
    for _ in range(200):  # 2**200 ways from the root to the scan
        node = Union((node, node))
    assert len(list(walk(node))) == 201
    assert len(schema_of(node)) == 2
    assert len(list(walk(decode(encode(Plan(node))).root))) == 201
    assert tree(check(Plan(node)).root).count("\n") == 400


def test_a_deep_plan_recurses_nowhere() -> None:
    node: Node = scan()
    for _ in range(DEPTH):
        node = positive(node)
    assert len(list(walk(node))) == DEPTH + 1
    assert rewrite(node, lambda part: part) is node
    checked = check(Plan(node))
    assert checked.root.path == f"filter_{DEPTH}"
    data = encode(checked)
    assert encode(decode(data)) == data
    assert tree(checked.root).count("\n") == DEPTH
    assert layout(checked.root).n_layers == DEPTH + 1
    assert svg(checked.root).endswith("</svg>")


def test_a_deep_expression_recurses_nowhere() -> None:
    expr: Expr = Column("a")
    for _ in range(DEPTH):
        expr = Call("add", (expr, Column("b")))
    assert columns_of(expr) == {"a", "b"}
    assert output_name(expr) == "a"
    assert rewrite_expr(expr, lambda part: part) is expr
    assert fold(expr, lambda _, below: 1 + max(below, default=0)) == DEPTH + 1


@pytest.mark.parametrize(
    ("expr", "name"),
    [
        (Column("a"), "a"),
        (Alias(Column("a"), "b"), "b"),
        (Agg("count", None), "count"),
        (Agg("sum", Column("a")), "a"),
        (Call("date_trunc", (Literal("hour", pa.string()), Column("t"))), "t"),
        (Literal(1, pa.int32()), "literal"),
        (Case(((Column("c"), Column("a")),), Column("b")), "a"),
        (Case(((Column("c"), Literal(1, pa.int32())),), Column("b")), "b"),
        (Case(((Column("c"), Literal(1, pa.int32())),), Literal(2, pa.int32())), "literal"),
        (Call("struct_field", (Column("s"), Literal("x", pa.string()))), "x"),
        (
            Call(
                "add", (Call("struct_field", (Column("s"), Literal("x", pa.string()))), Column("a"))
            ),
            "x",
        ),
    ],
)
def test_output_name(expr: Expr, name: str) -> None:
    assert output_name(expr) == name


def test_rewrite_expr_reaches_every_kind() -> None:
    inner = Column("a")
    expr = Alias(
        Case(
            ((IsIn(inner, ()), Cast(inner, pa.int64())),),
            Call("add", (Agg("sum", inner), inner)),
        ),
        "x",
    )
    done = rewrite_expr(expr, lambda e: Column("b") if e is inner else e)
    assert columns_of(done) == {"b"}
    assert sum(isinstance(part, Column) for part in walk_expr(done)) == 1
