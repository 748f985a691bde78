"""Decimal arithmetic inside DataFusion: the values and types of the Arrow definition."""

from __future__ import annotations

from decimal import Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Alias, Call, Column
from fabric.plan.nodes import Select, StageInput

FUNCTIONS = ("add", "subtract", "multiply")
WIDE = Context(prec=60)


@st.composite
def operands(draw: st.DrawFn) -> pa.RecordBatch:
    """Two columns of decimals of any precision and scale."""
    columns = []
    for _ in range(2):
        precision = draw(st.integers(1, 38))
        dtype = pa.decimal128(precision, draw(st.integers(0, precision)))
        most = 10**precision - 1
        numbers = st.integers(-most, most) | st.sampled_from([most, -most, 0])
        values = draw(st.lists(st.none() | numbers, min_size=3, max_size=3))
        shifted = [None if v is None else Decimal(v).scaleb(-dtype.scale, WIDE) for v in values]
        columns.append(pa.array(shifted, dtype))
    return pa.RecordBatch.from_arrays(columns, ["a", "b"])


def both(function: str, batch: pa.RecordBatch) -> tuple[object, object]:
    """What the fragment and the Arrow definition say: values, or that it is an error."""
    expr = Call(function, (Column("a"), Column("b")))
    root = Select(StageInput(0, batch.schema), (Alias(expr, "c"),))
    try:
        (found,) = execute_fragment(root, {0: [batch]}, {})
        ours: object = (found.column(0).type, found.column(0).to_pylist())
    except ExpressionError:
        ours = "error"
    try:
        array = compile_expr(expr, batch.schema)(batch)
        wanted: object = (array.type, array.to_pylist())
    except ExpressionError:
        wanted = "error"
    return ours, wanted


@settings(deadline=None)
@given(batch=operands(), function=st.sampled_from(FUNCTIONS))
def test_as_the_arrow_definition(batch: pa.RecordBatch, function: str) -> None:
    ours, wanted = both(function, batch)
    assert ours == wanted


def test_a_product_of_39_digits_is_an_overflow() -> None:
    big = pa.array([Decimal(12 * 10**19)], pa.decimal128(21, 0))
    batch = pa.RecordBatch.from_arrays([big, pa.array([Decimal(10**18)])], ["a", "b"])
    root = Select(
        StageInput(0, batch.schema), (Alias(Call("multiply", (Column("a"), Column("b"))), "c"),)
    )
    with pytest.raises(ExpressionError, match="overflow"):
        list(execute_fragment(root, {0: [batch]}, {}))
