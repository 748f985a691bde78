"""Alike is what is written alike, whatever objects it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from types import SimpleNamespace
from typing import ClassVar

import pyarrow as pa

from fabric.coordinator.optimizer.structure import Structure
from fabric.plan.expr import (
    Agg,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Frame,
    IsIn,
    Literal,
    Over,
    SortKey,
    Udf,
)
from fabric.plan.node import Columns, Unary
from fabric.plan.nodes import (
    Aggregate,
    Explode,
    Filter,
    Join,
    Limit,
    Node,
    Scan,
    Sink,
    Sort,
    StageInput,
    Union,
    WithColumns,
)
from fabric.plan.targets import GateTarget

I64, F64 = pa.int64(), pa.float64()


def exprs() -> list[Expr]:
    a, one = Column("a"), Literal(1, I64)
    rank = Agg("rank", None)
    return [
        a, Column("b"), one, Literal(1, pa.int32()), Literal(True, pa.bool_()),
        Literal(0.0, F64), Literal(-0.0, F64), Literal(None, I64),
        Call("add", (a, one)), Call("add", (one, a)), Call("subtract", (a, one)),
        Case(((a, one),), a), Case(((a, one), (a, a)), a),
        Cast(a, pa.int32()), Cast(a, pa.int32(), True), Cast(a, pa.int16()),
        IsIn(a, (one,)), IsIn(a, (one, one)), Alias(a, "x"), Alias(a, "y"),
        Agg("sum", a), Agg("min", a), Agg("count", None), Agg("corr", a, (a,)),
        Agg("corr", None, (a, a)),
        Over(rank, (a,), ()), Over(rank, (), (SortKey(a),)), Over(rank, (), (SortKey(a, True),)),
        Over(rank, (a,), (), Frame("rows", None, 0)),
        Udf("f", (a,), I64, "arrow", b"1"), Udf("f", (a,), I64, "arrow", b"2"),
    ]  # fmt: skip


def test_expressions() -> None:
    known = Structure()
    numbers = [known.expr(expr) for expr in exprs()]
    assert numbers == [known.expr(expr) for expr in exprs()]
    assert len(set(numbers)) == len(numbers)
    assert known.same(Column("a"), Column("a"))
    assert not known.same(Literal(0.0, F64), Literal(-0.0, F64))


def nodes(p: SimpleNamespace) -> list[Node]:
    t, k = p.table("t", a=I64, l=pa.list_(I64)), (Column("a"),)
    assert isinstance(t, Scan)
    return [
        t, p.file(), StageInput(0, t.schema), StageInput(1, t.schema),
        Limit(t, 1), Limit(t, 1, 1), Sort(t, (SortKey(k[0]),)), Sort(t, (SortKey(k[0], True),)),
        WithColumns(t, k), WithColumns(t, k, True), Filter(t, k[0]),
        Aggregate(t, k, ()), Aggregate(t, (), k), Join(t, t, k, k), Join(t, t, k, k, "left"),
        Join(t, t, k, k, strategy="hash"), Join(t, t, (), (), condition=k[0]),
        Explode(t, "l"), Explode(t, "l", True), Union((t, t)), Union((t,)),
    ]  # fmt: skip


def test_nodes(p: SimpleNamespace) -> None:
    known = Structure()

    def number(node: Node) -> int:
        return known.node(node, tuple(number(child) for child in node.children))

    numbers = [number(node) for node in nodes(p)]
    assert numbers == [number(node) for node in nodes(p)]
    assert all(one != other for one, other in combinations(numbers, 2))
    t = p.table()
    assert number(Sink(t, GateTarget("g"))) != number(Sink(t, GateTarget("g")))
    assert number(Limit(t, 1, path="x")) == number(Limit(t, 1, path="y"))


@dataclass(frozen=True, slots=True)
class Repeat(Unary):
    """A node that nobody has named in `structure.py`."""

    exprs: tuple[Expr, ...]
    n: int

    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("exprs",)

    def output(self, *inputs: pa.Schema) -> Columns:
        raise NotImplementedError

    def text(self) -> str:
        raise NotImplementedError


def test_a_new_node_differs_by_its_fields(p: SimpleNamespace) -> None:
    """Else two that are alike but for a setting would be computed once."""
    known, t, exprs = Structure(), p.table(), (Column("a"),)
    assert known.node(Repeat(t, exprs, 2), (0,)) != known.node(Repeat(t, exprs, 3), (0,))
    assert known.node(Repeat(t, exprs, 2), (0,)) == known.node(Repeat(t, exprs, 2, path="x"), (0,))
