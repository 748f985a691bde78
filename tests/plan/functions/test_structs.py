"""Types of structs, and names that are not there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.expr import Call, Column, Expr, Literal
from fabric.plan.schema import type_of

INNER = pa.struct([("city", pa.string_view()), ("zip", pa.list_view(pa.int32()))])
SCHEMA = pa.schema([("a", INNER), ("n", pa.int8())])
A, N = Column("a"), Column("n")


def text(value: str) -> Literal:
    return Literal(value, pa.string())


def test_types() -> None:
    made = Call("struct", (text("x"), N, text("y"), A))
    inner = pa.struct([("city", pa.string()), ("zip", pa.list_(pa.int32()))])
    assert type_of(made, SCHEMA) == pa.struct([("x", pa.int8()), ("y", inner)])
    assert type_of(Call("struct_field", (A, text("zip"))), SCHEMA) == pa.list_(pa.int32())


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (Call("struct_field", (A, text("citi"))),
         "no field 'citi'; its fields are .*struct.field\\(\"city\"\\)"),
        (Call("struct_field", (A, text("street"))), "no field 'street'"),
        (Call("struct_field", (N, text("x"))), r"\.struct\.field takes a struct, got int8"),
        (Call("struct_field", (A, N)), r"\.struct\.field needs a constant as argument 1"),
        (Call("struct", (N, N)), "struct needs a constant name as argument 1"),
        (Call("struct", (text("x"), N, text("x"), A)), "struct is given the name 'x' twice"),
    ],
)  # fmt: skip
def test_refusals(expr: Expr, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        type_of(expr, SCHEMA)
