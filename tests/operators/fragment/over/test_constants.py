"""Window functions whose arguments are constants, over rows that are stored or not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Agg, Alias, Call, Column, Frame, Literal, Over, SortKey
from fabric.plan.nodes import StageInput, Window

I32, F64 = pa.int32(), pa.float64()
P, T, X = (Column(name) for name in "pox")


def whole(value: int) -> Literal:
    return Literal(value, I32)


CONSTANTS = [
    (Agg("max", whole(3)), 3), (Agg("var", whole(3)), 0.0), (Agg("mean", whole(3)), 3.0),
    (Agg("count_distinct", whole(3)), 1), (Agg("median", whole(3)), 3.0),
    (Agg("quantile", whole(3), (Literal(0.5, F64),)), 3.0),
    (Agg("covar_pop", X, (whole(3),)), 0.0), (Agg("collect", whole(3)), [3, 3]),
    (Agg("bool_or", Call("is_null", (Literal(None, I32),))), True),
]  # fmt: skip


@pytest.mark.parametrize(("agg", "expected"), CONSTANTS)
@pytest.mark.parametrize("unit", ["rows", "range"])
def test_arguments_may_be_constants(agg: Agg, expected: Any, unit: Any) -> None:
    batch = pa.record_batch({"p": [1, 1, 1], "o": [1, 2, 3], "x": [1.5, 1.5, 1.5]})
    over = Alias(Over(agg, (P,), (SortKey(T),), Frame(unit, -1, 0)), "r")
    node = Window(StageInput(0, batch.schema), (over,))
    (found,) = execute_fragment(node, {0: [batch]}, {})
    rows = sorted(found.to_pylist(), key=lambda row: row["o"])
    assert rows[2]["r"] == expected
