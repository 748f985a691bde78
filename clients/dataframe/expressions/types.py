"""What users may pass to expressions and verbs, and the node of the plan that each becomes.

One job: the types of public arguments, and `Expression`, the base of `Expr`, at the bottom of all:
families of methods (`methods/aggregates.py`, `strings.py` …) make more of the class that has them,
so none of them imports `Expr`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import reduce
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import pyarrow as pa

from fabric.clients.dataframe.expressions.literal import PythonValue, to_literal
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.printer import expr_text


class ArrowStream(Protocol):
    """What gives its rows as an Arrow stream: frames of Polars and pandas, relations of DuckDB …"""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Expression:
    """A node of the plan, of which methods make the next."""

    __slots__ = ("node",)

    def __init__(self, node: plan.Expr) -> None:
        self.node = node

    def _of(self, node: plan.Expr) -> Self:
        """An expression of the same class."""
        return type(self)(node)


class Columns:
    """Several columns, which a verb finds in the schema of its input."""

    __slots__ = ()

    def names(self, schema: pa.Schema) -> list[str]:
        """The columns of `schema` that are meant."""
        raise NotImplementedError

    def expand(self, schema: pa.Schema) -> list[plan.Expr]:
        """An expression for each column that is meant."""
        raise NotImplementedError


class Order:
    """An expression with a direction; made by `Expr.asc` and `Expr.desc`."""

    __slots__ = ("key",)

    def __init__(self, node: plan.Expr, *, descending: bool, nulls_last: bool) -> None:
        self.key = plan.SortKey(node, descending, nulls_last)

    def nulls_first(self) -> Order:
        """The same order with nulls before all values.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [2, None, 1]}).sort(col("x").desc().nulls_first()).collect().to_pydict()
        {'x': [None, 2, 1]}
        """
        return Order(self.key.input, descending=self.key.descending, nulls_last=False)

    def nulls_last(self) -> Order:
        """The same order with nulls after all values.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [2, None, 1]}).sort(col("x").asc().nulls_last()).collect().to_pydict()
        {'x': [1, 2, None]}
        """
        return Order(self.key.input, descending=self.key.descending, nulls_last=True)

    def __repr__(self) -> str:
        direction = "desc" if self.key.descending else "asc"
        nulls = ".nulls_last()" if self.key.nulls_last else ".nulls_first()"
        return f"{expr_text(self.key.input)}.{direction}(){nulls}"


AnyExpression = TypeVar("AnyExpression", bound=Expression)

IntoExpr: TypeAlias = "Expression | PythonValue"
"""An operand: an expression or a constant. A text is that text, or where the docstring says so the
column of that name."""
ColumnName: TypeAlias = "str | Expression"
"""One column: its name or an expression."""
ManyNames: TypeAlias = "str | Columns | Iterable[str | Columns]"
"""Columns that are there: names, selections of columns, or a list of them."""
KeyColumns: TypeAlias = "ColumnName | Sequence[ColumnName]"
"""Columns to compare by: a name, an expression, or a list of them."""
Predicates: TypeAlias = "ColumnName | Columns | Sequence[ColumnName | Columns]"
"""Conditions: expressions, names of columns of booleans, or a list of them."""
ManyColumns: TypeAlias = "IntoExpr | Columns | Sequence[IntoExpr | Columns]"
"""Output columns: expressions, selections and constants, or a list of them. A text is the column of
that name, ``"*"`` all of them."""
Aggregates: TypeAlias = "ManyColumns | Mapping[str, str]"
"""The same of groups; in PySpark's form the name of an aggregate by that of its column."""
ManyKeys: TypeAlias = "IntoExpr | Order | Sequence[IntoExpr | Order]"
"""Keys of a sort: names, expressions, either with ``.asc()`` or ``.desc()``, or a list of them."""
Filler: TypeAlias = "IntoExpr | Mapping[str, IntoExpr]"
"""What takes the place of nulls: one value for all columns, or one by the name of each."""
Tolerance: TypeAlias = "int | float | Decimal | str | timedelta"
"""How far keys may be apart: a number, of times a length such as ``"10m"`` or a timedelta."""
PointOrRange: TypeAlias = "ColumnName | Sequence[ColumnName]"
"""A column, or the two columns where a range begins and ends."""
Values: TypeAlias = "PythonValue | Sequence[PythonValue] | Mapping[PythonValue, PythonValue]"
"""A constant, a list of constants, or what constants become."""
TableLike: TypeAlias = (
    "pa.Table | pa.RecordBatch | ArrowStream | Mapping[str, Iterable[Any]]"
    " | Sequence[Mapping[str, Any]] | Sequence[pa.RecordBatch]"
)
"""Rows of this process: a column a name, a dict a row, or anything that speaks Arrow."""


def to_node(value: IntoExpr | Order | Columns) -> plan.Expr:
    """The plan expression of an `Expr` or of a plain Python constant; an inner alias is dropped."""
    if isinstance(value, Expression):
        return value.node.input if isinstance(value.node, plan.Alias) else value.node
    if isinstance(value, Order):
        raise PlanError(f"{value!r} is an order; use it in sort(...) only")
    if isinstance(value, Columns):
        raise PlanError(
            f"{value!r} is several columns, and here is room for one; what is done to each of them "
            "is written behind it"
        )
    return to_literal(value)


def column_node(value: IntoExpr) -> plan.Expr:
    """As `to_node`, where a text is the column of that name."""
    return plan.Column(value) if isinstance(value, str) else to_node(value)


def call(function: str, source: AnyExpression, *args: IntoExpr) -> AnyExpression:
    """Registry function `function` of `source` and `args`, each an expression or a constant."""
    return call_of(source, function, source, *args)


def call_of(like: AnyExpression, function: str, *args: IntoExpr) -> AnyExpression:
    """As `call`, where the first argument may be a constant: of the class of `like`."""
    return like._of(plan.Call(function, tuple(to_node(arg) for arg in args)))


def all_of(conditions: Sequence[plan.Expr]) -> plan.Expr:
    """All of one or more conditions, joined by ``and`` from the first on."""
    return reduce(lambda one, other: plan.Call("and", (one, other)), conditions)


def case(condition: AnyExpression, value: IntoExpr, otherwise: IntoExpr = None) -> AnyExpression:
    """`value` where the condition is true, else `otherwise`."""
    branch = (to_node(condition), to_node(value))
    return condition._of(plan.Case((branch,), to_node(otherwise)))
