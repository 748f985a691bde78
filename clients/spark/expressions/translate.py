"""An expression of a plan as a PySpark column that means the same.

One job: `to_spark`. Arguments are cast to what the registry's signature says, so that Spark's own
type rules decide nothing; where Spark's function returns another type, the result is cast too.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from fabric.clients.spark.expressions import dates, lists, operators, regex, strings, udfs, zones
from fabric.clients.spark.expressions.build import Build, literal_column, named, spark_type
from fabric.errors import PlanError
from fabric.plan.expr import Alias, Call, Case, Cast, Column, Expr, IsIn, Literal, Udf
from fabric.plan.functions import FUNCTIONS, signature
from fabric.plan.printer import expr_text
from fabric.plan.schema import type_of
from fabric.plan.types import common_of
from fabric.plan.walk import walk_expr
from fabric.plan.zones import local_zone

FORMS: dict[str, Build] = {
    **{name: named(known.spark) for name, known in FUNCTIONS.items() if known.spark},
    **{name: build for family in (operators, strings, regex, dates, lists, zones, udfs)
       for name, build in family.FUNCTIONS.items()},
}  # fmt: skip
"""How Spark spells each function of the registry: by its name there, or by a form of our own."""
TYPED_FORMS = {**operators.TYPED, **lists.TYPED}
"""Functions that must know types."""
_RETYPED = frozenset((*dates.RETYPED, *lists.RETYPED))
"""Functions whose result has another type in Spark."""


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
        match expr:
            case Column(name=name):
                return sf.col("`" + name.replace("`", "``") + "`")
            case Literal():
                return literal_column(expr)
            case Alias(input=source):
                return self._done[id(source)]
            case Cast(input=source, dtype=dtype, try_=try_):
                return zones.cast(self._done[id(source)], self._type(source), dtype, try_=try_)
            case Call():
                return self._call(expr)
            case Udf():
                types = [self._type(arg) for arg in expr.args]
                return udfs.user_function(expr, [self._done[id(arg)] for arg in expr.args], types)
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
        given = self._type(expr)
        return (
            column if spark_type(given) == spark_type(dtype) else zones.cast(column, given, dtype)
        )

    def _call(self, expr: Call) -> SparkColumn:
        literals = [arg if isinstance(arg, Literal) else None for arg in expr.args]
        types = signature(expr.function, [self._type(arg) for arg in expr.args], literals)
        args = [self._as(arg, dtype) for arg, dtype in zip(expr.args, types.args, strict=True)]
        values = [None if literal is None else literal.value for literal in literals]
        place, zoned = zones.ZONED.get(expr.function, (0, None))
        if zoned is not None and (zone := local_zone(types.args[place])) is not None:
            return zoned(args, values, zone)
        if expr.function in TYPED_FORMS:
            return TYPED_FORMS[expr.function](args, types)
        column = FORMS[expr.function](args, values)
        if expr.function in _RETYPED:
            return column.cast(spark_type(types.result))
        return column

    def _case(self, expr: Case) -> SparkColumn:
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
