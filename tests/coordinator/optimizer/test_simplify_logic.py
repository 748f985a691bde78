from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.simplify_logic import FALSE, TRUE, simplify_logic
from fabric.plan.expr import Alias, Call, Case, Column, Expr, IsIn, Literal, SortKey
from fabric.plan.nodes import Filter, Select, Sort
from fabric.plan.schema import schema_of

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
def test_fires(source: object, before: Expr, after: Expr) -> None:
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
def test_leaves_others(source: object, expr: Expr) -> None:
    plan = Filter(source, expr)
    assert simplify_logic(plan) is plan
    assert simplify_logic(source) is source


def test_leaves_what_would_be_of_another_type(source: object) -> None:
    plan = Sort(source, (SortKey(both(TRUE, Column("u"))),))
    assert simplify_logic(plan) is plan
