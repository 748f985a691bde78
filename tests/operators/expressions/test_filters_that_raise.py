"""A condition or column that can raise is never evaluated on rows that are no longer there.

DataFusion merges filters, moves them below joins and projections, and evaluates AND on all rows;
each test is a plan where one of these would raise and Spark does not.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import ExpressionError
from fabric.operators.expressions.predicates import filter_expr, split_filter
from fabric.operators.fragment import execute_fragment
from fabric.operators.row_operators import FilterOperator
from fabric.plan.expr import Agg, Alias, Call, Case, Column, Expr, Literal, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Node,
    Select,
    Sort,
    StageInput,
    Union,
    WithColumns,
)

ROWS = pa.record_batch({"a": [1, 2, 5, 7, 3], "b": [0, 1, 2, 7, None]})
KEYS = pa.record_batch({"k": [1, 2]})
SOURCE = StageInput(0, ROWS.schema)
A, B = Column("a"), Column("b")
QUOTIENT = Call("divide", (A, B))
NOT_ZERO = Call("ne", (B, Literal(0, pa.int64())))
LARGE = Call("gt", (QUOTIENT, Literal(1.5, pa.float64())))
GUARDED = Filter(SOURCE, NOT_ZERO)
WITH_QUOTIENT = WithColumns(GUARDED, (Alias(QUOTIENT, "q"),))
LARGE_Q = Call("gt", (Column("q"), Literal(1.5, pa.float64())))


def run(root: Node) -> list[dict[str, object]]:
    inputs = {0: [ROWS], 1: [KEYS]}
    batches = execute_fragment(root, inputs, {})
    return sorted((row for batch in batches for row in batch.to_pylist()), key=str)


def joined(how: str) -> Join:
    keys = StageInput(1, KEYS.schema)
    return Join(SOURCE, keys, (B,), (Column("k"),), how=how)  # type: ignore[arg-type]


PLANS = {
    "filter": Filter(GUARDED, LARGE),
    "one filter": Filter(SOURCE, Call("and", (NOT_ZERO, LARGE))),
    "select": Filter(Select(GUARDED, (B, A)), LARGE),
    "column": Select(Filter(WITH_QUOTIENT, LARGE_Q), (A, B)),
    "join": Select(Filter(joined("inner"), LARGE), (A, B)),
    "semi": Filter(joined("semi"), LARGE),
    "aggregate": Filter(
        Aggregate(GUARDED, (B,), (Alias(Agg("sum", A), "a"),)), LARGE
    ),
    "distinct": Filter(Distinct(GUARDED), LARGE),
    "union": Distinct(Filter(Union((GUARDED, GUARDED)), LARGE)),
    "sort": Filter(Sort(GUARDED, (SortKey(A),)), LARGE),
    "top": Select(
        Limit(Sort(WITH_QUOTIENT, (SortKey(Column("q"), descending=True, nulls_last=True),)), 2),
        (A, B),
    ),
    "two filters": Filter(Filter(WithColumns(GUARDED, (Alias(QUOTIENT, "q"),)), LARGE_Q), LARGE),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_guarded_rows_do_not_raise(name: str) -> None:
    rows = [{"a": row["a"], "b": row["b"]} for row in run(PLANS[name])]
    assert rows == [{"a": 2, "b": 1}, {"a": 5, "b": 2}]


@pytest.mark.parametrize(
    "root",
    [
        Filter(SOURCE, LARGE),
        Filter(SOURCE, Call("and", (LARGE, NOT_ZERO))),
        Select(SOURCE, (Alias(QUOTIENT, "q"),)),
        Filter(Filter(SOURCE, Call("gt", (A, Literal(0, pa.int64())))), LARGE),
    ],
)
def test_rows_that_are_there_do_raise(root: Node) -> None:
    with pytest.raises(ExpressionError, match=r'division by zero in col\("a"\) / col\("b"\)'):
        run(root)


def test_conditions_are_taken_while_true() -> None:
    """Null ends a filter; as a value, `and` looks at its right side when the left is null."""
    null = Call("gt", (B, Literal(None, pa.int64())))
    both = Call("and", (null, LARGE))
    assert run(Filter(SOURCE, both)) == []
    assert FilterOperator(both, ROWS.schema).on_batch(0, ROWS) == []
    with pytest.raises(ExpressionError):
        run(Select(SOURCE, (Alias(both, "x"),)))


def test_chain_agrees() -> None:
    (batch,) = FilterOperator(Call("and", (NOT_ZERO, LARGE)), ROWS.schema).on_batch(0, ROWS)
    assert batch.to_pylist() == run(PLANS["filter"])


def test_predicates_that_cannot_raise_stay_whole() -> None:
    both: Expr = Call("and", (NOT_ZERO, Call("is_not_null", (A,))))
    assert split_filter(both, ROWS.schema) == (both, None)
    assert filter_expr(both, ROWS.schema) is both


def test_what_cannot_raise_goes_first() -> None:
    three = Call("and", (Call("and", (NOT_ZERO, LARGE)), Call("is_not_null", (A,))))
    rest = Case(((LARGE, Call("is_not_null", (A,))),), Literal(False, pa.bool_()))
    assert split_filter(three, ROWS.schema) == (NOT_ZERO, rest)
    assert split_filter(LARGE, ROWS.schema) == (None, LARGE)
