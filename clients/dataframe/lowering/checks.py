"""A verb's expressions, checked before it is lowered, so that errors show the line to write."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.faults import ExprFault
from fabric.plan.functions import AGGREGATES
from fabric.plan.infer import infer, infer_agg
from fabric.plan.python import column_text
from fabric.plan.walk import rewrite_expr, walk_expr

Line = Callable[[tuple[plan.Expr, ...]], str]
"""Writes the call with other expressions in the places of the ones checked."""


def checked_types(
    exprs: Sequence[plan.Expr], schema: pa.Schema, what: str, line: Line
) -> list[pa.DataType]:
    """The types of `exprs`; a mistake is a `PlanError` that begins with `what`."""
    types: list[pa.DataType] = []
    for index, expr in enumerate(exprs):
        try:
            types.append(infer(expr, schema))
        except ExprFault as fault:
            raise PlanError(f"{what}: {fault.message}{_hint(fault, exprs, index, line)}") from None
    return types


def _hint(fault: ExprFault, exprs: Sequence[plan.Expr], index: int, line: Line) -> str:
    if fault.old is None or fault.new is None:
        return ""
    old, new = fault.old, fault.new
    mended = rewrite_expr(exprs[index], lambda part: new if part is old or part == old else part)
    return f"; write: {line((*exprs[:index], mended, *exprs[index + 1 :]))}"


def check_aggregates(exprs: Sequence[plan.Expr], schema: pa.Schema, what: str, line: Line) -> None:
    """Refuse what the aggregates in `exprs` can't read; a mistake begins with `what`."""
    for index, expr in enumerate(exprs):
        for part in walk_expr(expr):
            if not isinstance(part, plan.Agg) or part.function not in AGGREGATES:
                continue
            try:
                infer_agg(part, schema)
            except ExprFault as fault:
                hint = _hint(fault, exprs, index, line)
                raise PlanError(f"{what}: {fault.message}{hint}") from None


def exprs_text(exprs: Sequence[plan.Expr]) -> str:
    """One expression as it is written, several as a list."""
    text = ", ".join(column_text(expr) for expr in exprs)
    return text if len(exprs) == 1 else f"[{text}]"
