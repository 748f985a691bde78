"""Expressions and nodes as Python: what is printed can be pasted and means the same."""

from __future__ import annotations

import datetime
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabric
from fabric.plan.expr import Agg, Alias, Call, Case, Cast, Column, Expr, IsIn, Literal, SortKey
from fabric.plan.faults import quoted
from fabric.plan.python import expr_text, sort_key_text
from tests.support.plans import random_tables
from tests.support.plans.expressions import Expressions

NAMES = {
    **vars(fabric.functions),
    **{name: getattr(fabric, name) for name in fabric.__all__},
    "pa": pa,
    "datetime": datetime,
    "Decimal": Decimal,
    "float": float,
}
UTC = datetime.UTC


def pasted(expr: Expr) -> Expr:
    node = eval(expr_text(expr), NAMES).node
    assert isinstance(node, Expr)
    return node


@given(seed=st.integers(0, 1 << 32))
def test_what_is_printed_makes_the_same_expression(seed: int) -> None:
    rng = Random(seed)
    schema = random_tables(rng, 1)["table_0"].schema
    expr = Expressions(rng, schema, frozenset()).any(4)
    assert pasted(expr) == expr


@given(name=st.text())
def test_any_name_can_be_quoted(name: str) -> None:
    assert eval(quoted(name)) == name
    assert quoted(name).isprintable()
    assert pasted(Alias(Column(name), name[::-1])) == Alias(Column(name), name[::-1])


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1, pa.int32(), "lit(1)"),
        (1, pa.int64(), 'lit(1, "int64")'),
        (1 << 40, pa.int64(), "lit(1099511627776)"),
        ("a", pa.string(), 'lit("a")'),
        (1.5, pa.float64(), "lit(1.5)"),
        (float("inf"), pa.float64(), 'lit(float("inf"))'),
        (None, pa.null(), "lit(None)"),
        (None, pa.string(), 'lit(None, "string")'),
        (True, pa.bool_(), "lit(True)"),
        (b"\x00", pa.binary(), r"lit(b'\x00')"),
        (Decimal("1.50"), pa.decimal128(3, 2), "lit(Decimal('1.50'))"),
        (datetime.date(2013, 1, 2), pa.date32(), "lit(datetime.date(2013, 1, 2))"),
        (datetime.datetime(2013, 1, 2, tzinfo=UTC), pa.timestamp("us", "UTC"),
         'lit(datetime.datetime.fromisoformat("2013-01-02T00:00:00+00:00"))'),
        (datetime.timedelta(1), pa.duration("us"), "lit(datetime.timedelta(days=1))"),
    ],
)  # fmt: skip
def test_constants(value: object, dtype: pa.DataType, text: str) -> None:
    literal = Literal(value, dtype)
    assert expr_text(literal) == text
    assert pasted(literal) == literal


A, B, ONE = Column("a"), Column("b"), Literal(1, pa.int32())


def call(function: str, *args: Expr) -> Call:
    return Call(function, args)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (call("multiply", call("add", A, ONE), B), '(col("a") + 1) * col("b")'),
        (call("subtract", A, call("subtract", B, ONE)), 'col("a") - (col("b") - 1)'),
        (call("subtract", call("subtract", A, B), ONE), 'col("a") - col("b") - 1'),
        (call("subtract", ONE, A), 'lit(1) - col("a")'),
        (call("and", call("gt", A, ONE), call("not", call("eq", A, B))),
         '(col("a") > 1) & ~(col("a") == col("b"))'),
        (call("or", call("and", A, B), A), 'col("a") & col("b") | col("a")'),
        (call("and", call("or", A, B), A), '(col("a") | col("b")) & col("a")'),
        (call("eq", call("eq", A, B), call("gt", A, ONE)),
         '(col("a") == col("b")) == (col("a") > 1)'),
        (call("abs", call("negate", A)), '(-col("a")).abs()'),
        (call("upper", call("trim", A)), 'col("a").str.trim().str.upper()'),
        (call("date_trunc", Literal("hour", pa.string()), A), 'col("a").dt.date_trunc("hour")'),
        (call("add_interval", A, Literal(-2, pa.int32()), Literal("hour", pa.string())),
         'col("a").dt.add(-2, "hour")'),
        (call("substring", A, ONE, Literal((1 << 31) - 1, pa.int32())),
         'col("a").str.substring(1)'),
        (call("coalesce", A, Literal("b", pa.string())), 'coalesce(col("a"), lit("b"))'),
        (Case(((call("gt", A, ONE), Literal("x", pa.string())),), Literal(None, pa.null())),
         'when(col("a") > 1).then(lit("x"))'),
        (Case(((A, ONE), (B, ONE)), Literal(2, pa.int32())),
         'when(col("a")).then(1).when(col("b")).then(1).otherwise(2)'),
        (IsIn(A, (ONE, Literal(2, pa.int64()))), 'col("a").is_in([1, pa.scalar(2, "int64")])'),
        (Cast(call("add", A, B), pa.decimal128(10, 2)),
         '(col("a") + col("b")).cast("decimal128(10, 2)")'),
        (Cast(A, pa.timestamp("us", "UTC"), try_=True),
         'col("a").try_cast("timestamp[us, tz=UTC]")'),
        (Alias(call("divide", A, B), "r"), '(col("a") / col("b")).alias("r")'),
        (Agg("sum", call("add", A, B)), '(col("a") + col("b")).sum()'),
        (Agg("count", None), "count()"),
    ],
)  # fmt: skip
def test_expressions(expr: Expr, text: str) -> None:
    assert expr_text(expr) == text
    assert pasted(expr) == expr


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (SortKey(A), '"a"'),
        (SortKey(call("abs", A)), 'col("a").abs()'),
        (SortKey(A, True, True), 'col("a").desc()'),
        (SortKey(A, True, False), 'col("a").desc().nulls_first()'),
        (SortKey(call("add", A, B), False, True), '(col("a") + col("b")).asc().nulls_last()'),
    ],
)
def test_sort_keys(key: SortKey, text: str) -> None:
    assert sort_key_text(key) == text


def test_an_unknown_function_can_be_shown() -> None:
    assert expr_text(call("frobnicate", A, ONE)) == 'frobnicate(col("a"), lit(1))'
