"""A fixture that computes one function of the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from fabric.operators.expressions.arrow import compile_expr
from fabric.plan.expr import Call, Column, Expr, Literal


def _computed(function: str, *args: Any) -> list[Any]:
    """Arrays are columns, what else there is a constant (None of no type)."""
    columns = {f"c{i}": arg for i, arg in enumerate(args) if isinstance(arg, pa.Array)}
    exprs: list[Expr] = []
    for index, arg in enumerate(args):
        if isinstance(arg, pa.Array):
            exprs.append(Column(f"c{index}"))
        else:
            exprs.append(Literal(arg, pa.null() if arg is None else pa.scalar(arg).type))
    batch = pa.record_batch(columns)
    values: list[Any] = compile_expr(Call(function, tuple(exprs)), batch.schema)(batch).to_pylist()
    return values


@pytest.fixture
def compute() -> Callable[..., list[Any]]:
    """``compute("list_len", array)``."""
    return _computed
