"""Expressions of a plan as PySpark columns that mean the same.

One job: `to_spark`. Arguments are cast to what the registry's signature says, so that Spark's own
type rules decide nothing; where Spark's function returns another type, the result is cast too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.plan.expr import Alias, Call, Case, Cast, Column, Expr, IsIn, Literal
from fabric.plan.functions import signature
from fabric.plan.printer import expr_text
from fabric.plan.schema import type_of
from fabric.plan.types import common_of, is_binary, is_string, numeric, plain
from fabric.plan.walk import walk_expr

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql.types import DataType

Build = Callable[..., "SparkColumn"]


def to_spark(expr: Expr, schema: pa.Schema) -> SparkColumn:
    """`expr` over a Spark data frame that has the columns of `schema`.

    The session must be in ANSI mode with time zone UTC. Types Spark has not are those `spark_type`
    names.

    Raises
    ------
    PlanError
        If a column or function is not there, or Spark has no such type.
    """
    inner = expr.input if isinstance(expr, Alias) else expr
    type_of(inner, schema)
    translation = _Translation(schema)
    for part in walk_expr(inner):
        column = translation.add(part)
    return column.alias(expr.name) if isinstance(expr, Alias) else column


def spark_type(dtype: pa.DataType) -> DataType:
    """The Spark type of values of an Arrow type: unsigned integers are the next signed ones."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_type

    dtype = numeric(dtype) or plain(dtype)
    if is_string(dtype):
        dtype = pa.string()
    elif is_binary(dtype):
        dtype = pa.binary()
    elif t.is_date(dtype):
        dtype = pa.date32()
    elif t.is_timestamp(dtype):
        dtype = pa.timestamp("us", dtype.tz)
    try:
        return from_arrow_type(dtype, prefer_timestamp_ntz=True)
    except PySparkTypeError as error:
        raise PlanError(f"Spark has no type for {dtype}; cast it first") from error


class _Translation:
    """Translates the parts of one expression over one schema, arguments before what uses them."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._types: dict[int, pa.DataType] = {}
        self._done: dict[int, SparkColumn] = {}

    def add(self, expr: Expr) -> SparkColumn:
        """The Spark column of a part whose arguments were added before."""
        self._done[id(expr)] = column = self._column(expr)
        return column

    def _column(self, expr: Expr) -> SparkColumn:
        from pyspark.sql import functions as sf

        match expr:
            case Column(name=name):
                return sf.col("`" + name.replace("`", "``") + "`")
            case Literal():
                return _literal(expr)
            case Alias(input=source):
                return self._done[id(source)]
            case Cast(input=source, dtype=dtype, try_=try_):
                column, target = self._done[id(source)], spark_type(dtype)
                return column.try_cast(target) if try_ else column.cast(target)
            case Call():
                return self._call(expr)
            case Case():
                return self._case(expr)
            case IsIn():
                return self._is_in(expr)
            case _:
                raise PlanError(f"{expr_text(expr)} is an aggregate; it needs a group_by().agg()")

    def _type(self, expr: Expr) -> pa.DataType:
        """The type of a part; parts live as long as this object, so their ids stay theirs."""
        if id(expr) not in self._types:
            self._types[id(expr)] = type_of(expr, self._schema)
        return self._types[id(expr)]

    def _as(self, expr: Expr, dtype: pa.DataType) -> SparkColumn:
        column = self._done[id(expr)]
        same = spark_type(self._type(expr)) == spark_type(dtype)
        return column if same else column.cast(spark_type(dtype))

    def _call(self, expr: Call) -> SparkColumn:
        literals = [arg if isinstance(arg, Literal) else None for arg in expr.args]
        types = signature(expr.function, [self._type(arg) for arg in expr.args], literals)
        args = [self._as(arg, dtype) for arg, dtype in zip(expr.args, types.args, strict=True)]
        values = [None if literal is None else literal.value for literal in literals]
        column = _FUNCTIONS[expr.function](args, values)
        if expr.function in _RETYPED:
            return column.cast(spark_type(types.result))
        return column

    def _case(self, expr: Case) -> SparkColumn:
        from pyspark.sql import functions as sf

        dtype = self._type(expr)
        (test, value), *others = expr.branches
        column = sf.when(self._as(test, pa.bool_()), self._as(value, dtype))
        for test, value in others:
            column = column.when(self._as(test, pa.bool_()), self._as(value, dtype))
        return column.otherwise(self._as(expr.otherwise, dtype))

    def _is_in(self, expr: IsIn) -> SparkColumn:
        dtype = common_of((self._type(expr.input), *(value.dtype for value in expr.values)))
        if dtype is None:
            raise PlanError(f"{expr_text(expr)}: the values are of other types than the input")
        for value in expr.values:
            self.add(value)
        values = [self._as(value, dtype) for value in expr.values]
        return self._as(expr.input, dtype).isin(*values)


def _literal(literal: Literal) -> SparkColumn:
    """By way of Arrow, so that any value ``pa.scalar`` takes is one."""
    from pyspark.sql import functions as sf

    target = spark_type(literal.dtype)
    scalar = pa.scalar(literal.value, literal.dtype)
    if not scalar.is_valid or t.is_null(literal.dtype):
        return sf.lit(None).cast(target)
    dtype = plain(literal.dtype)
    if t.is_timestamp(dtype):
        return _instant(scalar.cast(pa.timestamp("us", dtype.tz)).value).cast(target)
    if t.is_floating(dtype):
        return sf.lit(float(scalar.as_py())).cast(target)
    if t.is_date(dtype):
        return sf.date_from_unix_date(sf.lit(scalar.cast(pa.date32()).value))
    value = scalar.as_py()
    return sf.lit(bytearray(value) if isinstance(value, bytes) else value).cast(target)


def _instant(micros: int) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.timestamp_micros(sf.lit(micros))


def _named(name: str) -> Build:
    """A function of Spark's by its name, applied to all arguments."""

    def build(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        return sf.call_function(name, *args)

    return build


def _operator(apply: Callable[..., SparkColumn]) -> Build:
    return lambda args, _: apply(*args)


def _round(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    if len(args) == 1:
        return sf.round(args[0])
    return sf.round(args[0], sf.lit(values[1]).cast("int"))


def _date_trunc(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.date_trunc(values[0], args[1])


def _to_timestamp(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    if len(args) == 1:
        return args[0].cast("timestamp")
    if values[1] is None:
        return sf.lit(None).cast("timestamp")
    return sf.to_timestamp(args[0], values[1])


def _add_interval(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.timestamp_add(values[2].upper(), args[1], args[0])


def _concat(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.concat(*args)


_FUNCTIONS: dict[str, Build] = {
    "add": _operator(lambda a, b: a + b),
    "subtract": _operator(lambda a, b: a - b),
    "multiply": _operator(lambda a, b: a * b),
    "divide": _operator(lambda a, b: a / b),
    "floor_divide": _named("div"),
    "modulo": _operator(lambda a, b: a % b),
    "negate": _operator(lambda a: -a),
    "abs": _named("abs"),
    "eq": _operator(lambda a, b: a == b),
    "ne": _operator(lambda a, b: a != b),
    "lt": _operator(lambda a, b: a < b),
    "le": _operator(lambda a, b: a <= b),
    "gt": _operator(lambda a, b: a > b),
    "ge": _operator(lambda a, b: a >= b),
    "eq_null_safe": _operator(lambda a, b: a.eqNullSafe(b)),
    "and": _operator(lambda a, b: a & b),
    "or": _operator(lambda a, b: a | b),
    "not": _operator(lambda a: ~a),
    "is_null": _operator(lambda a: a.isNull()),
    "is_not_null": _operator(lambda a: a.isNotNull()),
    "is_nan": _named("isnan"),
    "coalesce": _named("coalesce"),
    "round": _round,
    "floor": _named("floor"),
    "ceil": _named("ceil"),
    "upper": _named("upper"),
    "lower": _named("lower"),
    "length": _named("length"),
    "trim": _named("trim"),
    "ltrim": _named("ltrim"),
    "rtrim": _named("rtrim"),
    "substring": _named("substring"),
    "concat": _concat,
    "contains": _named("contains"),
    "starts_with": _named("startswith"),
    "ends_with": _named("endswith"),
    "replace": _named("replace"),
    "year": _named("year"),
    "month": _named("month"),
    "day": _named("day"),
    "hour": _named("hour"),
    "minute": _named("minute"),
    "second": _named("second"),
    "day_of_week": _named("dayofweek"),
    "date_trunc": _date_trunc,
    "to_date": _operator(lambda a: a.cast("date")),
    "to_timestamp": _to_timestamp,
    "add_interval": _add_interval,
}
"""How Spark spells each function of the registry; takes the arguments and their constant values."""

_RETYPED = frozenset({"date_trunc"})
"""Functions whose result has another type in Spark: date_trunc gives every timestamp a zone."""
