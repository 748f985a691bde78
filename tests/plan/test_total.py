"""What can't raise, as plans know it; the Arrow kernels must say the same."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest

from fabric.operators.expressions.arrow.casts import cast_kernel
from fabric.operators.expressions.arrow.compile import Compiler
from fabric.operators.expressions.arrow.frame import flat_type
from fabric.plan.expr import Call, Case, Cast, Column, Expr, IsIn, Literal, Udf
from fabric.plan.functions import FUNCTIONS
from fabric.plan.total import total, total_cast
from fabric.plan.types import can_cast

SCHEMA = pa.schema(
    {
        "i": pa.int64(), "j": pa.int32(), "f": pa.float64(), "s": pa.string(), "d": pa.date32(),
        "m": pa.decimal128(10, 2), "long": pa.decimal128(38, 2),
    }
)  # fmt: skip
N, J, F, S, D = (Column(name) for name in "ijfsd")
TYPES = [
    pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.date32(), pa.date64(), pa.timestamp("s"),
    pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "UTC"), pa.decimal128(3, 0), pa.decimal128(10, 2), pa.decimal128(11, 4),
    pa.decimal128(20, 0), pa.decimal128(30, 10), pa.decimal128(38, 18), pa.null(),
    pa.dictionary(pa.int8(), pa.int32()),
]  # fmt: skip


@pytest.mark.parametrize(
    "expr",
    [
        N,
        Literal(1, pa.int64()),
        Call("eq", (N, J)),
        Call("add", (F, F)),
        Call("coalesce", (N, Literal(0, pa.int64()))),
        Cast(N, pa.int32(), try_=True),
        Cast(J, pa.int64()),
        Cast(N, pa.float64()),
        Cast(D, pa.string()),
        IsIn(N, (Literal(1, pa.int64()),)),
        IsIn(N, (Literal(1, pa.int32()),)),
        Call("upper", (S,)),
        Call("year", (D,)),
        Call("abs", (Column("m"),)),
        Call("round", (N, Literal(2, pa.int32()))),
        Case(((Call("gt", (N, J)), S),), S),
        Case(((Call("gt", (N, J)), N),), J),
    ],
)
def test_can_not_fail(expr: Expr) -> None:
    assert total(expr, SCHEMA)
    assert Compiler(SCHEMA).compile(expr).total


@pytest.mark.parametrize(
    "expr",
    [
        Call("add", (N, N)),
        Call("divide", (F, F)),
        Call("modulo", (N, Literal(2, pa.int64()))),
        Call("negate", (N,)),
        Call("abs", (Column("long"),)),
        Call("floor", (F,)),
        Call("round", (N, Literal(-2, pa.int32()))),
        Cast(N, pa.int32()),
        Cast(S, pa.int64()),
        Call("gt", (Cast(S, pa.int64()), N)),
        Case(((Call("gt", (N, J)), Cast(S, pa.int64())),), N),
        Call("to_timestamp", (S,)),
    ],
)
def test_can_fail(expr: Expr) -> None:
    assert not total(expr, SCHEMA)
    assert not Compiler(SCHEMA).compile(expr).total


def test_a_users_function_can_fail() -> None:
    assert not total(Udf("f", (N,), pa.int64(), "arrow", b""), SCHEMA)


@pytest.mark.parametrize("source", TYPES, ids=str)
def test_casts_are_total_where_their_kernels_are(source: pa.DataType) -> None:
    for target in TYPES:
        if can_cast(source, target):
            kernel = cast_kernel(flat_type(source), flat_type(target))
            assert (target, total_cast(source, target)) == (target, kernel[1])


def test_a_function_says_true_or_how_it_depends() -> None:
    always = {name for name, function in FUNCTIONS.items() if function.total is True}
    assert {"eq", "and", "is_null", "upper", "year"} <= always
    assert FUNCTIONS["divide"].total is False
    depends = FUNCTIONS["add"]
    for dtype, expected in product((pa.float64(), pa.int64()), (None,)):
        assert depends.is_total((dtype, dtype), (expected, expected)) is (dtype == pa.float64())
