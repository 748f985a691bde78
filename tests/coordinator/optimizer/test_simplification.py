from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.simplification import (
    FALSE,
    TRUE,
    fold_constants,
    simplify_filter,
    simplify_logic,
)
from fabric.coordinator.submit.constants import constant_value
from fabric.plan.expr import Alias, Call, Case, Cast, Column, Expr, IsIn, Literal, SortKey, Udf
from fabric.plan.nodes import Filter, Limit, Select, Sort
from fabric.plan.schema import schema_of

fold = partial(fold_constants, constant_value)


def test_fold_constants_fires(p: SimpleNamespace) -> None:
    source = p.table()
    hour = p.call("multiply", 60, 60)
    assert fold(Filter(source, p.call("lt", "a", hour))) == Filter(source, p.call("lt", "a", 3600))
    text = p.call("upper", Literal("x", pa.string()))
    plan = Select(source, (Alias(text, "x"), text, p.call("add", "a", p.call("add", 1, 2))))
    found = fold(plan)
    big = Literal("X", pa.string())
    assert found.exprs == (Alias(big, "x"), big, p.call("add", "a", 3))
    assert schema_of(found) == schema_of(plan)


def test_a_constant_that_fails_stays_to_fail(p: SimpleNamespace) -> None:
    source = p.table()
    for bad in (p.call("divide", 1, 0), Cast(Literal("x", pa.string()), pa.int64())):
        plan = Filter(source, p.call("lt", "a", bad))
        assert fold(plan) is plan


def test_fold_constants_leaves_others(p: SimpleNamespace) -> None:
    source = p.table("t", a=pa.int64(), d=pa.decimal128(10, 2))
    user = Udf("f", (Literal(1, pa.int64()),), pa.int64(), "arrow", b"")
    for plan in (
        Filter(source, p.call("lt", "a", 1)),
        Select(source, (Alias(user, "x"),)),
        Select(source, (p.call("add", "d", p.call("add", 1, 2)),)),  # 3 is a decimal(1, 0)
        Select(source, (Column("a"),)),
        source,
    ):
        assert fold(plan) is plan


A, B, C, X = (Column(name) for name in "abcx")
RISKY = Call("gt", (Call("divide", (Literal(1, pa.int64()), X)), Literal(0, pa.int64())))


def both(left: Expr, right: Expr) -> Expr:
    return Call("and", (left, right))


def either(left: Expr, right: Expr) -> Expr:
    return Call("or", (left, right))


def inverse(expr: Expr) -> Expr:
    return Call("not", (expr,))


def call(function: str, *args: Expr) -> Expr:
    return Call(function, args)


@pytest.fixture
def source(p: SimpleNamespace) -> object:
    return p.table(a=pa.bool_(), b=pa.bool_(), c=pa.bool_(), x=pa.int64(), u=pa.null())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (inverse(inverse(A)), A),
        (inverse(call("lt", X, X)), call("ge", X, X)),
        (inverse(call("is_null", X)), call("is_not_null", X)),
        (inverse(TRUE), FALSE),
        (both(A, TRUE), A),
        (both(TRUE, A), A),
        (both(A, FALSE), FALSE),
        (either(A, TRUE), TRUE),
        (either(FALSE, A), A),
        (both(A, A), A),
        (either(A, A), A),
        (both(A, either(A, RISKY)), A),
        (either(A, both(B, A)), A),
        (either(both(A, B), A), A),
        (either(both(A, B), both(A, C)), both(A, either(B, C))),
        (either(either(both(A, B), both(C, A)), A), A),
        (call("eq_null_safe", X, Literal(None, pa.int64())), call("is_null", X)),
        (IsIn(X, (Literal(1, pa.int64()),)), call("eq", X, Literal(1, pa.int64()))),
    ],
)
def test_simplify_logic_fires(source: object, before: Expr, after: Expr) -> None:
    assert simplify_logic(Filter(source, before)) == Filter(source, after)


def test_names_of_columns_stay(source: object) -> None:
    plan = Select(source, (both(TRUE, A), inverse(inverse(B))))
    assert simplify_logic(plan) == Select(source, (A, B))
    plan = Select(source, (Call("and", (call("gt", X, X), TRUE)), call("or", A, TRUE)))
    found = simplify_logic(plan)
    assert found.exprs == (call("gt", X, X), Alias(TRUE, "a"))
    assert schema_of(found) == schema_of(plan)


@pytest.mark.parametrize(
    "expr",
    [
        both(A, B),
        both(A, Literal(None, pa.bool_())),
        both(either(RISKY, A), RISKY),
        either(both(A, RISKY), both(B, RISKY)),
        inverse(A),
        IsIn(X, (Literal(None, pa.int64()),)),
        Case(((A, B),), C),
    ],
)
def test_simplify_logic_leaves_others(source: object, expr: Expr) -> None:
    plan = Filter(source, expr)
    assert simplify_logic(plan) is plan
    assert simplify_logic(source) is source


def test_leaves_what_would_be_of_another_type(source: object) -> None:
    plan = Sort(source, (SortKey(both(TRUE, Column("u"))),))
    assert simplify_logic(plan) is plan


NULL = Literal(None, pa.bool_())


def test_simplify_filter_fires(p: SimpleNamespace) -> None:
    source, more = p.table(), p.call("gt", "b", 1)
    valid = Call("is_not_null", (Column("a"),))
    for always in (p.call("eq", "a", "a"), p.call("le", "a", "a")):
        assert simplify_filter(Filter(source, always)) == Filter(source, valid)
        assert simplify_filter(Filter(source, p.both(more, always))) == Filter(
            source, p.both(more, valid)
        )
    assert simplify_filter(Filter(source, p.both(more, TRUE))) == Filter(source, more)
    assert simplify_filter(Filter(source, p.both(more, more))) == Filter(source, more)
    assert simplify_filter(Filter(source, TRUE)) is source
    assert simplify_filter(Filter(source, p.call("eq_null_safe", "a", "a"))) is source


@pytest.mark.parametrize("never", ["false", "null", "different", "with null"])
def test_what_keeps_nothing_reads_nothing(p: SimpleNamespace, never: str) -> None:
    source = p.table()
    predicate = {
        "false": FALSE,
        "null": NULL,
        "different": p.call("lt", "a", "a"),
        "with null": p.call("eq", "a", Literal(None, pa.int64())),
    }[never]
    for plan in (
        Filter(source, predicate, path="f"),
        Filter(source, p.both(predicate, TRUE), path="f"),
    ):
        assert simplify_filter(plan) == Limit(source, 0, path="f")


def test_simplify_filter_leaves_others(p: SimpleNamespace) -> None:
    source = p.table()
    half = p.call("divide", 1, "a")
    for plan in (
        Filter(source, p.call("gt", "a", 1)),
        Filter(source, p.call("eq", "a", "b")),
        Filter(source, p.call("eq", half, half)),
        Filter(source, p.call("eq_null_safe", "a", Literal(None, pa.int64()))),
        source,
    ):
        assert simplify_filter(plan) is plan
