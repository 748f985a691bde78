"""Types of aggregates: what live Spark 4.3 answered, and what is refused with a mended line."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.expr import Agg, Column, Literal
from fabric.plan.faults import ArgumentFault
from fabric.plan.functions import AGGREGATES
from fabric.plan.schema import type_of

F64, I64 = pa.float64(), pa.int64()
DEC, STAMP = pa.decimal128(10, 2), pa.timestamp("us", "UTC")
Q = Literal(0.5, F64)
SCHEMA = pa.schema(
    [("i", pa.int32()), ("f", pa.float32()), ("d", DEC), ("s", pa.string()), ("t", STAMP),
     ("day", pa.date32()), ("b", pa.bool_()), ("l", pa.list_(pa.int8())), ("n", pa.null())]
)  # fmt: skip


def answer(function: str, column: str, *args: str | Literal) -> pa.DataType:
    exprs = tuple(Column(arg) if isinstance(arg, str) else arg for arg in args)
    return type_of(Agg(function, Column(column), exprs), SCHEMA)


@pytest.mark.parametrize("function", ["var", "std", "var_pop", "skewness", "kurtosis", "median"])
@pytest.mark.parametrize("column", ["i", "f", "d", "n"])
def test_statistics_are_float64(function: str, column: str) -> None:
    assert answer(function, column) == F64


def test_results_of_the_others() -> None:
    assert answer("corr", "i", "d") == answer("covar_pop", "f", "n") == F64
    assert answer("quantile", "d", Q) == F64
    assert answer("approx_quantile", "d", Q) == DEC
    assert answer("approx_quantile", "t", Q) == STAMP
    assert answer("approx_quantile", "i", Literal(1, pa.int32())) == pa.int32()
    assert answer("min_by", "l", "s") == pa.list_(pa.int8())
    assert answer("max_by", "s", "t") == pa.string()
    assert answer("collect", "s") == pa.list_(pa.string())
    assert answer("first", "l") == answer("last", "l") == answer("any_value", "l")
    assert answer("count_if", "b") == answer("approx_distinct", "l") == I64
    assert answer("bool_and", "b") == answer("bool_or", "n") == pa.bool_()


@pytest.mark.parametrize(
    ("function", "column", "args", "message"),
    [
        ("var", "s", (), r"var takes numbers, got string as argument 1; write: .*cast\("),
        ("corr", "i", ("s",), r"corr takes numbers, got string as argument 2"),
        ("corr", "i", (), "corr takes 2 arguments, got 1"),
        ("median", "b", (), "median takes numbers, got bool"),
        ("quantile", "i", (), "quantile takes 2 to 3 arguments, got 1"),
        ("quantile", "i", ("f",), "quantile needs a constant as argument 2"),
        ("quantile", "i", (Literal(1.5, F64),), "a fraction from 0 to 1, got 1.5"),
        ("quantile", "i", (Q, Literal("mean", pa.string())), "one of 'nearest', .*, got 'mean'"),
        ("quantile", "i", (Q, "s"), "quantile needs a constant as argument 3"),
        ("quantile", "i", (Literal(None, F64),), "a fraction from 0 to 1, got None"),
        ("approx_quantile", "s", (Q,), "approx_quantile takes numbers, got string"),
        ("min_by", "i", ("l",), "min_by takes single values, got list"),
        ("count_if", "i", (), r"count_if takes true or false, got int32.*; write: .*!="),
        ("sum", "i", ("f",), "sum takes 1 argument, got 2"),
    ],
)  # fmt: skip
def test_what_is_refused(
    function: str, column: str, args: tuple[str | Literal, ...], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        answer(function, column, *args)


def test_states_are_named_by_their_kinds() -> None:
    for aggregate in AGGREGATES.values():
        assert aggregate.doc
        if aggregate.states is None:
            assert not aggregate.kinds
            continue
        types = (pa.bool_() if "bool" in aggregate.name else I64,) * aggregate.arity[1]
        assert tuple(kind for kind, _ in aggregate.states(types)) == aggregate.kinds


def test_without_an_input() -> None:
    assert AGGREGATES["count"].result() == I64
    with pytest.raises(ArgumentFault, match="sum needs an input; only count goes without"):
        AGGREGATES["sum"].result()
