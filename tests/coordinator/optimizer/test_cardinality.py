"""Guesses of rows: what is known decides, then the usual shares."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.cardinality import Cardinality, Guess, different, kept_share
from fabric.plan.expr import Agg, Alias, Call, Column, Expr, IsIn, Literal
from fabric.plan.nodes import Aggregate, Filter, Join, Limit, Node, Select, Union
from fabric.plan.statistics import ColumnFacts, SourceFacts

I64 = pa.int64()
FACTS = {
    "t": SourceFacts(n_rows=1000, columns={"a": ColumnFacts(n_nulls=0, least=1, most=100)}),
    "u": SourceFacts(n_rows=50),
}


def rows(node: Node) -> float:
    found = Cardinality(FACTS).of(node)
    assert found is not None
    return found.rows


def a(function: str, value: int) -> Expr:
    return Call(function, (Column("a"), Literal(value, I64)))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (a("eq", 7), 10),
        (a("le", 50), 500),
        (a("gt", 200), 1),
        (a("ne", 1), 1000),
        (Call("lt", (Literal(51, I64), Column("a"))), 495),
        (Call("and", (a("eq", 7), a("le", 50))), 5),
        (Call("or", (a("eq", 7), a("eq", 8))), 20),
        (IsIn(Column("a"), (Literal(1, I64), Literal(2, I64))), 20),
        (Call("eq", (Column("b"), Literal(1, I64))), 100),
        (Call("lt", (Column("b"), Literal(1, I64))), 300),
        (Call("is_not_null", (Column("b"),)), 1000),
        (Call("contains", (Column("s"), Literal("x", pa.string()))), 250),
    ],
)
def test_filters(p: SimpleNamespace, predicate: Expr, expected: float) -> None:
    assert rows(Filter(p.table(), predicate)) == pytest.approx(expected, rel=0.03)


def test_nodes(p: SimpleNamespace) -> None:
    t, u = p.table(), p.table("u")
    k = (Column("a"),)
    assert rows(Limit(t, 7)) == 7
    assert rows(Union((t, u))) == 1050
    assert rows(Aggregate(t, k, ())) == 100
    assert rows(Aggregate(Filter(t, a("le", 5)), k, ())) == pytest.approx(40, abs=1)  # its rows
    assert rows(Aggregate(t, (Column("b"),), ())) == 100  # a tenth: nothing is known of b
    assert rows(Aggregate(t, (), (Alias(Agg("count", None), "n"),))) == 1
    assert rows(Join(t, u, k, k)) == 500
    assert rows(Join(t, u, (Column("b"),), (Column("b"),))) == 1000
    assert rows(Join(t, u, k, k, "full")) == 1050
    assert rows(Join(t, u, k, k, "semi")) == 500
    assert rows(Join(t, u, (), (), "cross")) == 50_000
    renamed = Select(t, (Alias(Column("a"), "z"),))
    assert rows(Filter(renamed, Call("eq", (Column("z"), Literal(7, I64))))) == 10
    assert Cardinality({}).of(t) is None
    assert Cardinality(FACTS).of(Union((t, p.table("who knows")))) is None


def test_different_values() -> None:
    def facts(least: object, most: object) -> ColumnFacts:
        return ColumnFacts(n_nulls=0, least=least, most=most)

    assert different(facts(1, 25), 1000) == 25
    assert different(facts(1, 10**9), 1000) == 1000
    assert different(facts(date(2024, 1, 1), date(2024, 1, 31)), 1000) == 31
    assert different(facts(None, None), 1000) is None
    assert different(facts(0.5, 9.5), 1000) is None
    assert different(facts("a", "b"), 1000) is None


def test_a_share_is_never_above_one() -> None:
    one = Guess(10, 10, dict(FACTS["t"].columns))
    many = IsIn(Column("b"), tuple(Literal(i, I64) for i in range(99)))
    assert kept_share(Call("or", (many, many)), one) == 1.0
