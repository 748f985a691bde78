"""A verb's expressions before it is lowered: types and names of fields.

One job: expressions are checked here, so that errors show the line to write, and a dotted name that
is no column becomes the field of a struct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.faults import ExprFault
from fabric.plan.functions import AGGREGATES
from fabric.plan.infer import infer, infer_agg
from fabric.plan.nodes import Aggregate, Filter, Node, Select, Sort, WithColumns
from fabric.plan.python import column_text
from fabric.plan.schema import schema_of
from fabric.plan.types import is_struct, plain
from fabric.plan.walk import map_exprs, rewrite_expr, walk_expr

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


def with_fields(node: Node) -> Node:
    """`node` with fields of structs for the dotted names that are no columns of its input."""
    if not isinstance(node, Select | WithColumns | Filter | Aggregate | Sort):
        return node
    exprs = node.expressions
    if not any("." in name for expr in exprs for name in plan.columns_of(expr)):
        return node
    schema = schema_of(node.input)

    def field(expr: plan.Expr) -> plan.Expr:
        made = rewrite_expr(expr, lambda part: _field(part, schema))
        if isinstance(expr, plan.Column) and made is not expr and not isinstance(node, Sort):
            return plan.Alias(made, expr.name.rsplit(".", 1)[1])
        return made

    return map_exprs(node, field)


def _field(part: plan.Expr, schema: pa.Schema) -> plan.Expr:
    if not isinstance(part, plan.Column) or part.name in schema.names:
        return part
    words = part.name.split(".")
    for n in range(len(words) - 1, 0, -1):
        name = ".".join(words[:n])
        if name in schema.names:
            found: plan.Expr = plan.Column(name)
            dtype = plain(schema.field(name).type)
            for word in words[n:]:
                if not is_struct(dtype) or dtype.get_field_index(word) < 0:
                    return part
                found = plan.Call("struct_field", (found, plan.Literal(word, pa.string())))
                dtype = plain(dtype.field(word).type)
            return found
    return part
