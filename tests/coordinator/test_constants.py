"""Constants as tasks would compute them."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from fabric.coordinator.constants import constant_value
from fabric.plan.expr import Call, Cast, Expr, Literal

S, ONE = pa.string(), Literal(1, pa.int64())


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Call("add", (ONE, ONE)), Literal(2, pa.int64())),
        (Call("gt", (ONE, Literal(None, pa.int64()))), Literal(None, pa.bool_())),
        (Cast(Literal("2024-02-29", S), pa.date32()), Literal(date(2024, 2, 29), pa.date32())),
        (Call("divide", (ONE, Literal(0, pa.int64()))), None),
        (Cast(Literal("x", S), pa.int64()), None),
        (Cast(Literal("2024-02-29", S), pa.timestamp("ns")), None),
    ],
)
def test_values(expr: Expr, expected: Literal | None) -> None:
    assert constant_value(expr) == expected
