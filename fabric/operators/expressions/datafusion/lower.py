"""Lower an expression to DataFusion: natively where it means the same, else as a wrapped UDF.

One job: choose, part by part. Laziness decides too: a part that can raise must be looked at only on
the rows where Spark would, and DataFusion evaluates right sides, branches and later arguments on
other rows than Spark does (`AND` mostly on all). So a form with such a part is wrapped as a whole,
and the Arrow definition inside picks the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import datafusion
import pyarrow as pa
from datafusion import functions as f
from datafusion.expr import CaseBuilder

from fabric.operators.expressions.arrow.compile import Compiler, value_of
from fabric.operators.expressions.arrow.frame import flat_type
from fabric.operators.expressions.arrow.lazy import Compiled
from fabric.operators.expressions.datafusion.native import (
    NATIVE,
    casts_natively,
    is_plain,
    literal,
)
from fabric.operators.expressions.datafusion.wrap import column, wrapped
from fabric.plan.expr import Alias, Call, Case, Cast, Column, Expr, IsIn, Literal
from fabric.plan.schema import type_of


def to_datafusion(
    expr: Expr, schema: pa.Schema, names: Sequence[str] | None = None
) -> datafusion.Expr:
    """`expr` for a DataFusion data frame whose columns are those of `schema`.

    Columns are named exactly, without a relation. Values that break the expression raise while the
    query runs; `errors.as_fabric` turns that back into the `ExpressionError`. DataFusion
    merges filters and moves them below joins and projections, so a predicate that can raise, or
    that reads a column that can, would be evaluated on rows that are no longer there: select it as
    a column first, and filter by that column `held`.

    Parameters
    ----------
    names
        What the columns are called in the data frame, when not as in `schema`; errors go on to use
        the names of `schema`.

    Raises
    ------
    PlanError
        If a column or function is not there or the types do not fit.
    """
    inner = expr.input if isinstance(expr, Alias) else expr
    dtype = type_of(inner, schema)
    lowering = _Lowering(schema, schema.names if names is None else names)
    if dtype.equals(flat_type(dtype)) or isinstance(inner, Column):
        lowered = lowering.lower(inner)
    else:
        lowered = lowering.wrapped(inner)
    return lowered.alias(expr.name) if isinstance(expr, Alias) else lowered


class _Lowering:
    """Lowers the parts of one expression over one schema."""

    def __init__(self, schema: pa.Schema, names: Sequence[str]) -> None:
        self._schema = schema
        self._names = names
        self._compiler = Compiler(schema)

    def lower(self, expr: Expr) -> datafusion.Expr:
        """The native form, or the wrapped one."""
        compiled = self._compiler.compile(expr)
        if compiled.total and not compiled.columns:
            return literal(value_of(compiled))
        found = self._native(expr)
        return self.wrapped(expr) if found is None else found

    def wrapped(self, expr: Expr) -> datafusion.Expr:
        """The Arrow definition as a UDF."""
        return wrapped(expr, self._schema, self._names, self._compiler.compile(expr))

    def _native(self, expr: Expr) -> datafusion.Expr | None:
        match expr:
            case Column(name=name):
                return column(self._names[self._schema.get_field_index(name)])
            case Literal(value=value, dtype=dtype):
                return literal(pa.scalar(value, dtype))
            case Alias(input=source):
                return self.lower(source)
            case Cast(input=source, dtype=dtype):
                return self._as(source, flat_type(dtype))
            case Call():
                return self._call(expr)
            case Case():
                return self._case(expr)
            case IsIn():
                return self._is_in(expr)
            case _:
                return None

    def _as(self, expr: Expr, dtype: pa.DataType) -> datafusion.Expr | None:
        """`expr` cast to a flat type, if DataFusion's cast agrees."""
        compiled = self._compiler.compile(expr)
        if compiled.dtype.equals(dtype):
            lowered = self.lower(expr)
            same = not isinstance(expr, Column) or self._is_flat(expr)
            return lowered if same else lowered.cast(dtype)
        if not casts_natively(compiled.dtype, dtype):
            return None
        return self.lower(expr).cast(dtype)

    def _is_flat(self, expr: Column) -> bool:
        dtype = self._schema.field(expr.name).type
        return bool(dtype.equals(flat_type(dtype)))

    def _call(self, expr: Call) -> datafusion.Expr | None:
        choose = NATIVE.get(expr.function)
        operands = self._compiler.operands(expr)
        build = choose([operand.dtype for operand in operands]) if choose else None
        if build is None or not all(operand.total for operand in operands[1:]):
            return None
        args = self._operands(expr, operands)
        return None if args is None else build(*args)

    def _operands(self, expr: Call, operands: Sequence[Compiled]) -> list[datafusion.Expr] | None:
        """The arguments in the types the function takes, or None if a cast has no native form."""
        args: list[datafusion.Expr] = []
        for arg, operand in zip(expr.args, operands, strict=True):
            if operand.total and not operand.columns:
                args.append(literal(value_of(operand)))
            elif (lowered := self._as(arg, operand.dtype)) is not None:
                args.append(lowered)
            else:
                return None
        return args

    def _case(self, expr: Case) -> datafusion.Expr | None:
        dtype = self._compiler.compile(expr).dtype
        parts = [part for branch in expr.branches for part in branch]
        lazily = [self._compiler.compile(part) for part in (*parts[1:], expr.otherwise)]
        if not all(part.total for part in lazily):
            return None
        otherwise = self._as(expr.otherwise, dtype)
        builder: CaseBuilder | None = None
        for test, value in expr.branches:
            condition, result = self._as(test, pa.bool_()), self._as(value, dtype)
            if condition is None or result is None:
                return None
            builder = (builder.when if builder else f.when)(condition, result)
        if builder is None or otherwise is None:
            return None
        return builder.otherwise(otherwise)

    def _is_in(self, expr: IsIn) -> datafusion.Expr | None:
        source, values = self._compiler.membership(expr)
        lowered = self._as(expr.input, source.dtype)
        if lowered is None or not is_plain(source.dtype) or not values:
            return None
        return f.in_list(lowered, [literal(value) for value in values])
