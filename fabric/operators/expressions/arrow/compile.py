"""Compile an expression for a schema into a function over record batches.

One job: walk the expression once, bind every function to its types and cast the arguments. What
functions do is in the families beside this file; what is evaluated on which rows is in `lazy.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import ExpressionError, PlanError
from fabric.operators.expressions.arrow import lazy
from fabric.operators.expressions.arrow.bound import Bound, Datum, Kernel, Request, arrays
from fabric.operators.expressions.arrow.casts import cast_kernel
from fabric.operators.expressions.arrow.comparison import is_in
from fabric.operators.expressions.arrow.frame import Frame, flat_type, restored
from fabric.operators.expressions.arrow.implementations import IMPLEMENTATIONS
from fabric.operators.expressions.arrow.lazy import Compiled
from fabric.operators.expressions.errors import value_fault
from fabric.operators.functions.kernel import kernel
from fabric.operators.functions.trust import load
from fabric.plan.expr import Agg, Alias, Call, Case, Cast, Column, Expr, IsIn, Literal, Over, Udf
from fabric.plan.functions import FUNCTIONS, signature
from fabric.plan.printer import expr_text
from fabric.plan.schema import type_of
from fabric.plan.types import common_of
from fabric.plan.walk import walk_expr

Evaluate = Callable[[pa.RecordBatch], pa.Array]

LAZY = frozenset(("and", "or", "coalesce"))
"""Functions that are forms of `lazy.py`: they don't look at all arguments on all rows."""


def compile_expr(expr: Expr, schema: pa.Schema) -> Evaluate:
    """A function from a batch of `schema` to one value per row, of ``type_of(expr, schema)``.

    Raises
    ------
    PlanError
        Now, if a column or function is not there or the types do not fit.
    ExpressionError
        When called, if a value breaks the expression (overflow, division by zero, a bad cast).

    Examples
    --------
    >>> batch = pa.record_batch({"a": [1, None, 3]})
    >>> double = Call("add", (Column("a"), Column("a")))
    >>> compile_expr(double, batch.schema)(batch).to_pylist()
    [2, None, 6]
    """
    inner = expr.input if isinstance(expr, Alias) else expr
    dtype = type_of(inner, schema)
    if isinstance(inner, Column):
        index = schema.get_field_index(inner.name)
        return lambda batch: batch.column(index)
    compiled = Compiler(schema).compile(inner)
    return lambda batch: restored(compiled.array(Frame.of(batch)), dtype)


class Compiler:
    """Compiles the parts of an expression over one schema, each object once, arguments first.

    Compiled forms are flat, and tell the columns they read and whether they can raise.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._done: dict[int, tuple[Expr, Compiled]] = {}
        self._calls: dict[int, tuple[Call, list[Compiled], pa.DataType]] = {}

    def compile(self, expr: Expr) -> Compiled:
        """The compiled form of `expr`; the same object again for the same object."""
        if id(expr) not in self._done:
            for part in walk_expr(expr):
                if id(part) not in self._done:
                    self._done[id(part)] = (part, self._compile(part))
        return self._done[id(expr)][1]

    def operands(self, expr: Call) -> list[Compiled]:
        """The arguments of a call, cast to what its function takes."""
        return self._known_call(expr)[0]

    def _known_call(self, expr: Call) -> tuple[list[Compiled], pa.DataType]:
        """The operands of a call and the type of its answer, worked out once."""
        if id(expr) not in self._calls:
            types, result = self._signature(expr)
            operands = [
                converted(self.compile(arg), dtype, expr)
                for arg, dtype in zip(expr.args, types, strict=True)
            ]
            self._calls[id(expr)] = expr, operands, result
        return self._calls[id(expr)][1:]

    def _compile(self, expr: Expr) -> Compiled:
        match expr:
            case Column(name=name):
                index = self.schema.get_field_index(name)
                dtype = flat_type(self.schema.field(index).type)
                return Compiled(lambda frame: frame.column(index), dtype, True, frozenset((index,)))
            case Literal(value=value, dtype=dtype):
                return constant(pa.scalar(value, flat_type(dtype)))
            case Alias(input=source):
                return self.compile(source)
            case Cast(input=source, dtype=dtype, try_=try_):
                return converted(self.compile(source), dtype, expr, try_=try_)
            case Case():
                return self._case(expr)
            case IsIn():
                return self._is_in(expr)
            case Call():
                return self._call(expr)
            case Udf():
                return self._udf(expr)
            case Over():
                raise PlanError(f"{expr_text(expr)} is a window function; it needs its own node")
            case Agg():
                raise PlanError(f"{expr_text(expr)} is an aggregate; it needs a group_by().agg()")

    def _signature(self, expr: Call) -> tuple[Sequence[pa.DataType], pa.DataType]:
        literals = [arg if isinstance(arg, Literal) else None for arg in expr.args]
        types = signature(expr.function, [self.compile(arg).dtype for arg in expr.args], literals)
        return types.args, flat_type(types.result)

    def _call(self, expr: Call) -> Compiled:
        operands, result = self._known_call(expr)
        if expr.function in LAZY:
            return _lazy_call(expr.function, operands, result)
        request = Request(
            expr.function,
            tuple(operand.dtype for operand in operands),
            tuple(_constant_of(operand) for operand in operands),
            result,
        )
        bound = IMPLEMENTATIONS[expr.function](request)
        literals = [arg if isinstance(arg, Literal) else None for arg in expr.args]
        total = FUNCTIONS[expr.function].is_total(request.operands, literals)
        return _applied(bound, operands, result, expr, total=total)

    def _udf(self, expr: Udf) -> Compiled:
        args = [self.compile(arg) for arg in expr.args]
        run = kernel(expr, load(expr), [arg.dtype for arg in args])

        def over_arrays(*values: Datum) -> Datum:
            return run(*arrays(*values))

        called = lazy.call(args, _explained(over_arrays, expr), "all", 0)
        return Compiled(called, flat_type(expr.dtype), False, lazy.all_columns(args))

    def _case(self, expr: Case) -> Compiled:
        values = [self.compile(value) for _, value in expr.branches]
        otherwise = self.compile(expr.otherwise)
        dtype = common_of([value.dtype for value in (*values, otherwise)])
        assert dtype is not None, f"{expr_text(expr)} was not checked"
        otherwise = converted(otherwise, dtype, expr)
        branches = [
            (converted(self.compile(test), pa.bool_(), expr), converted(value, dtype, expr))
            for (test, _), value in zip(expr.branches, values, strict=True)
        ]
        parts = [*(each for branch in branches for each in branch), otherwise]
        total = all(each.total for each in parts)
        run = lazy.case(branches, otherwise)
        return Compiled(run, otherwise.dtype, total, lazy.all_columns(parts))

    def _is_in(self, expr: IsIn) -> Compiled:
        source, values = self.membership(expr)
        run = lazy.call([source], is_in(values, source.dtype), array=0)
        return Compiled(run, pa.bool_(), source.total, source.columns)

    def membership(self, expr: IsIn) -> tuple[Compiled, list[pa.Scalar]]:
        """The input and the constants of an `IsIn`, cast to one type."""
        source = self.compile(expr.input)
        dtype = common_of((source.dtype, *(value.dtype for value in expr.values)))
        assert dtype is not None, f"{expr_text(expr)} was not checked"
        values = [converted(self.compile(value), dtype, expr) for value in expr.values]
        return converted(source, dtype, expr), [value_of(value) for value in values]


def value_of(compiled: Compiled) -> pa.Scalar:
    """The one value of an expression without columns."""
    value = compiled.run(Frame(().__getitem__, 1))
    return value if isinstance(value, pa.Scalar) else value[0]


def is_constant(compiled: Compiled) -> bool:
    """Whether it has the same value in every row, and has one."""
    return compiled.total and not compiled.columns


def _constant_of(compiled: Compiled) -> tuple[Any] | None:
    """What functions want to know beforehand: patterns, units, numbers of digits."""
    dtype = compiled.dtype
    known = t.is_integer(dtype) or t.is_string(dtype) or t.is_boolean(dtype)
    if not (known and is_constant(compiled)):
        return None
    return (value_of(compiled).as_py(),)


def constant(value: pa.Scalar) -> Compiled:
    """The same value in every row."""
    return Compiled(lambda _: value, value.type, True, frozenset())


def converted(source: Compiled, dtype: pa.DataType, expr: Expr, *, try_: bool = False) -> Compiled:
    """`source` cast by the ANSI rules; itself when it is of that type. Errors name `expr`."""
    target = flat_type(dtype)
    if source.dtype.equals(target):
        return source
    kernel, total = cast_kernel(source.dtype, target, try_=try_)
    run = lazy.call([source], kernel if total else _explained(kernel, expr), array=0)
    found = Compiled(run, target, source.total and total, source.columns)
    if source.columns or not source.total:
        return found
    try:
        return constant(value_of(found))
    except ExpressionError:
        return found  # raises again when there are rows


def _applied(
    bound: Bound, args: Sequence[Compiled], result: pa.DataType, expr: Expr, *, total: bool
) -> Compiled:
    kernel = bound.kernel if total else _explained(bound.kernel, expr)
    run = lazy.call(args, kernel, bound.order, bound.array)
    total = total and all(arg.total for arg in args)
    return Compiled(run, result, total, lazy.all_columns(args))


def _lazy_call(function: str, args: Sequence[Compiled], result: pa.DataType) -> Compiled:
    if function == "coalesce":
        run = lazy.coalesce(args)
    else:
        left, right = args
        run = lazy.short_circuit(left, right, stop=function == "or")
    return Compiled(run, result, all(arg.total for arg in args), lazy.all_columns(args))


def _explained(kernel: Kernel, expr: Expr) -> Kernel:
    """The kernel; what it says about a value becomes an error that names the expression."""

    def explained(*values: Datum) -> Datum:
        try:
            return kernel(*values)
        except (pa.ArrowInvalid, ExpressionError) as error:
            fault = error.message if isinstance(error, ExpressionError) else value_fault(str(error))
            if not fault:
                raise
            raise ExpressionError(f"{fault} in {expr_text(expr)}") from error

    return explained
