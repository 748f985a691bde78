"""Lower an expression to DataFusion: natively where it means the same, else as a wrapped UDF.

`to_datafusion` chooses, part by part. Laziness decides too: a part that can raise must be looked at
only on the rows where Spark would, and DataFusion evaluates right sides, branches and later
arguments on other rows than Spark does (`AND` mostly on all). So a form with such a part is
`wrapped` as a whole, and the Arrow definition inside picks the rows. A UDF whose expression can
raise is volatile, so that the optimizer neither folds nor repeats it; a total one is immutable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import datafusion
import pyarrow as pa
from datafusion import functions as f

from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.expressions.arrow.compile import (
    Compiler,
    converted,
    is_constant,
    value_of,
)
from fabric.operators.expressions.arrow.frame import flat_type
from fabric.operators.expressions.arrow.lazy import Compiled
from fabric.operators.expressions.datafusion.native import (
    NATIVE,
    Build,
    casts_natively,
    is_plain,
    literal,
)
from fabric.plan.expr import Alias, Call, Case, Cast, Column, Expr, IsIn, Literal, children
from fabric.plan.schema import type_of
from fabric.plan.walk import walk_expr

_NUMBERS = count()


def to_datafusion(
    expr: Expr,
    schema: pa.Schema,
    names: Sequence[str] | None = None,
    compiler: Compiler | None = None,
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
    compiler
        One of `schema`, which may have compiled parts of `expr` before.

    Raises
    ------
    PlanError
        If a column or function is not there or the types do not fit.
    """
    inner = expr.input if isinstance(expr, Alias) else expr
    dtype = type_of(inner, schema)
    lowering = _Lowering(schema, schema.names if names is None else names, compiler)
    if dtype.equals(flat_type(dtype)) or isinstance(inner, Column):
        lowered = lowering.lower(inner)
    else:
        lowered = lowering.wrapped(inner)
    return lowered.alias(expr.name) if isinstance(expr, Alias) else lowered


@dataclass(frozen=True, slots=True)
class _Form:
    """A native form: its parts, each with the flat type it is cast to, and what is made of them."""

    parts: tuple[tuple[Expr, pa.DataType], ...]
    build: Build


class _Lowering:
    """Lowers one expression over one schema, without recursion."""

    def __init__(self, schema: pa.Schema, names: Sequence[str], compiler: Compiler | None) -> None:
        self._schema = schema
        self._names = names
        self._compiler = compiler or Compiler(schema)

    def lower(self, root: Expr) -> datafusion.Expr:
        """The native form as far down as there is one, wrapped parts below."""
        exprs = list(walk_expr(root))
        forms: dict[int, _Form | None] = {id(root): self._form(root)}
        for expr in reversed(exprs):
            if (form := forms.get(id(expr))) is not None:
                forms.update((id(part), self._form(part)) for part, _ in form.parts)
        done: dict[int, datafusion.Expr] = {}
        for expr in exprs:
            if id(expr) in forms:
                done[id(expr)] = self._built(expr, forms[id(expr)], done)
        return done[id(root)]

    def wrapped(self, expr: Expr) -> datafusion.Expr:
        """The Arrow definition as a UDF."""
        return wrapped(expr, self._schema, self._names, self._compiler.compile(expr))

    def _built(
        self, expr: Expr, form: _Form | None, done: Mapping[int, datafusion.Expr]
    ) -> datafusion.Expr:
        compiled = self._compiler.compile(expr)
        if is_constant(compiled):
            return literal(value_of(compiled))
        if form is None:
            return self.wrapped(expr)
        return form.build(*(self._as(part, dtype, done) for part, dtype in form.parts))

    def _as(
        self, expr: Expr, dtype: pa.DataType, done: Mapping[int, datafusion.Expr]
    ) -> datafusion.Expr:
        """A lowered part in a flat type."""
        compiled = self._compiler.compile(expr)
        if is_constant(compiled):
            constant = converted(compiled, dtype, expr)
            if is_constant(constant):
                return literal(value_of(constant))
        has = compiled.dtype
        if isinstance(expr, Column):
            has = self._schema.field(expr.name).type
        return done[id(expr)] if has.equals(dtype) else done[id(expr)].cast(dtype)

    def _form(self, expr: Expr) -> _Form | None:
        """How DataFusion computes `expr` itself, or None where it differs."""
        form = self._candidate(expr)
        if form is None or not all(self._casts(part, dtype) for part, dtype in form.parts):
            return None
        return form

    def _casts(self, expr: Expr, dtype: pa.DataType) -> bool:
        """Whether DataFusion's cast of `expr` to a flat type agrees, or none is needed."""
        has = self._compiler.compile(expr)
        if has.dtype.equals(dtype) or casts_natively(has.dtype, dtype):
            return True
        return is_constant(has) and is_constant(converted(has, dtype, expr))

    def _candidate(self, expr: Expr) -> _Form | None:
        match expr:
            case Column(name=name):
                inner = column(self._names[self._schema.get_field_index(name)])
                return _Form((), lambda: inner)
            case Literal(value=value, dtype=dtype):
                return _Form((), lambda: literal(pa.scalar(value, dtype)))
            case Alias(input=source):
                return _Form(((source, self._compiler.compile(source).dtype),), lambda part: part)
            case Cast(input=source, dtype=dtype):
                return _Form(((source, flat_type(dtype)),), lambda part: part)
            case Call():
                return self._call(expr)
            case Case():
                return self._case(expr)
            case IsIn():
                return self._is_in(expr)
            case _:
                return None

    def _call(self, expr: Call) -> _Form | None:
        choose = NATIVE.get(expr.function)
        operands = self._compiler.operands(expr)
        dtypes = [operand.dtype for operand in operands]
        build = choose(dtypes) if choose else None
        if build is None or not all(operand.total for operand in operands[1:]):
            return None
        return _Form(tuple(zip(expr.args, dtypes, strict=True)), build)

    def _case(self, expr: Case) -> _Form | None:
        parts = children(expr)
        if not all(self._compiler.compile(part).total for part in parts[1:]):
            return None
        dtype = self._compiler.compile(expr).dtype
        dtypes = [pa.bool_(), dtype] * len(expr.branches) + [dtype]
        return _Form(tuple(zip(parts, dtypes, strict=True)), _case_of)

    def _is_in(self, expr: IsIn) -> _Form | None:
        source, values = self._compiler.membership(expr)
        if not is_plain(source.dtype) or not values:
            return None
        known = [literal(value) for value in values]
        return _Form(((expr.input, source.dtype),), lambda part: f.in_list(part, known))


def _case_of(*parts: datafusion.Expr) -> datafusion.Expr:
    """Conditions and values in turn, and the value for none at the end."""
    builder = f.when(parts[0], parts[1])
    for condition, value in zip(parts[2:-1:2], parts[3::2], strict=True):
        builder = builder.when(condition, value)
    return builder.otherwise(parts[-1])


def column(name: str) -> datafusion.Expr:
    """A column by its exact name, whatever it holds."""
    quoted = name.replace('"', '""')
    return datafusion.col(f'"{quoted}"')


def wrapped(
    expr: Expr, schema: pa.Schema, names: Sequence[str], compiled: Compiled
) -> datafusion.Expr:
    """`expr` as one opaque call over the columns it reads.

    `names` are those of the columns in the data frame. An expression without columns is given the
    first column, to learn the number of rows.
    """
    places = sorted(compiled.columns) or [0]
    fields = [schema.field(place) for place in places]
    read = pa.schema(fields)
    evaluate = compile_expr(expr, read)

    def function(*arrays: pa.Array) -> pa.Array:
        return evaluate(pa.RecordBatch.from_arrays(list(arrays), schema=read))

    udf = datafusion.udf(
        function,
        [field.type for field in fields],
        type_of(expr, schema),
        "immutable" if compiled.total else "volatile",
        f"fabric_{next(_NUMBERS)}",
    )
    return udf(*(column(names[place]) for place in places))


def held(predicate: datafusion.Expr) -> datafusion.Expr:
    """The same predicate as a call that says it is volatile, so that no rule moves it down.

    DataFusion 55 forgets about volatile columns when it moves a plain filter on one below the
    projection that computes it; a filter that is volatile itself stays.
    """
    udf = datafusion.udf(
        lambda values: values, [pa.bool_()], pa.bool_(), "volatile", f"fabric_{next(_NUMBERS)}"
    )
    return udf(predicate)
