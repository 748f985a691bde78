"""What DataFrame methods accept, and how what they don't is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fabric import col
from fabric.clients.dataframe import arguments as args
from fabric.errors import PlanError
from fabric.plan import expr as plan

A, B = plan.Column("a"), plan.Column("b")
ONE = plan.Literal(1, pa.int32())


def test_expressions() -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    found = args.expressions(["a", [col("b").alias("c")], "*"], {"d": 1}, schema)
    assert found == (A, plan.Alias(B, "c"), A, B, plan.Alias(ONE, "d"))


def test_predicates_are_joined_by_and() -> None:
    found = args.predicate([col("a") > 1, [col("b")]], {"a": 1})
    greater, equal = plan.Call("gt", (A, ONE)), plan.Call("eq", (A, ONE))
    assert found == plan.Call("and", (plan.Call("and", (greater, B)), equal))


@pytest.mark.parametrize(
    ("keys", "descending", "nulls_last", "expected"),
    [
        (["a"], False, None, [plan.SortKey(A, False, False)]),
        (["a"], True, None, [plan.SortKey(A, True, True)]),
        (["a"], True, False, [plan.SortKey(A, True, False)]),
        (["a", "b"], [True, False], None, [plan.SortKey(A, True, True), plan.SortKey(B)]),
        ([["a", col("b").desc()]], False, None, [plan.SortKey(A), plan.SortKey(B, True, True)]),
    ],
)
def test_sort_keys(
    keys: list[Any], descending: Any, nulls_last: bool | None, expected: list[plan.SortKey]
) -> None:
    assert args.sort_keys(keys, descending, nulls_last) == tuple(expected)


def test_join_keys() -> None:
    assert args.join_keys("a", None, None) == ((A,), (A,))
    assert args.join_keys(["a", col("b")], None, None) == ((A, B), (A, B))
    assert args.join_keys(None, "a", ["b"]) == ((A,), (B,))


@pytest.mark.parametrize(
    ("name", "how"),
    [("inner", "inner"), ("left_outer", "left"), ("leftsemi", "semi"), ("LEFT_ANTI", "anti")],
)
def test_join_names(name: str, how: str) -> None:
    assert args.join_how(name) == how


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: args.predicate([], {}), "filter needs a condition"),
        (lambda: args.predicate([True], {}), "filter got the Python value True"),
        (lambda: args.predicate(["a > 1"], {}), "SQL text is not read"),
        (lambda: args.sort_keys([], False, None), "sort needs a column"),
        (lambda: args.sort_keys(["a"], [True, False], None), "1 keys and 2 descending flags"),
        (lambda: args.join_keys(None, None, None), r'join needs on="id"'),
        (lambda: args.join_keys("a", "b", None), r'join needs on="id"'),
        (lambda: args.join_keys(None, ["a"], ["a", "b"]), "1 left and 2 right keys"),
        (
            lambda: args.join_how("rigth"),
            r"'rigth' is not a valid kind of.*write: how=\"right\"",
        ),
    ],
)
def test_refusals(call: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        call()
