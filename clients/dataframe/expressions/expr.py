"""The expression users write with: operators, methods and the namespaces: str dt list struct.

One job: `Expr`, the class that has them all, and the case that ``when(condition).then(value)``
makes, branch by branch. Operators are in `operators.py`, each family of methods is a file of
`methods/`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from typing import Any, Self, overload

from fabric.clients.dataframe.calls import helpful, suggesting
from fabric.clients.dataframe.expressions.operators import Operators
from fabric.clients.dataframe.expressions.types import Expression, IntoExpr, to_node
from fabric.clients.dataframe.methods.aggregates import AggregateMethods
from fabric.clients.dataframe.methods.dates import DateTimeMethods
from fabric.clients.dataframe.methods.lists import ListMethods, StructMethods
from fabric.clients.dataframe.methods.numbers import NumberMethods
from fabric.clients.dataframe.methods.over import WindowMethods
from fabric.clients.dataframe.methods.strings import StringMethods
from fabric.clients.dataframe.methods.values import ValueMethods
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.expr import Case

Text = str  # inside the class `str` is the namespace


def call(function: str, *args: IntoExpr) -> Expr:
    """Registry function `function` of `args`, each an expression or a constant."""
    return Expr(plan.Call(function, tuple(to_node(arg) for arg in args)))


def as_column(value: IntoExpr) -> Expr:
    """An expression as it is, a string as the column of that name, all else as a constant."""
    if isinstance(value, Expression):
        return value if isinstance(value, Expr) else Expr(value.node)
    return Expr(plan.Column(value) if isinstance(value, Text) else to_node(value))


class Expr(Operators, AggregateMethods, WindowMethods, NumberMethods, ValueMethods):
    """A column to be: read it from the input, compute it, name it.

    Examples
    --------
    >>> from fabric import col
    >>> (col("distance") / col("air_time") * 60).alias("mph")
    (col("distance") / col("air_time") * 60).alias("mph")
    """

    __slots__ = ()

    # ---- namespaces
    @property
    def str(self) -> StringMethods[Expr]:
        """Functions of strings: the methods of `StringMethods`.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["ab", None]}).select(col("x").str.to_uppercase()).to_dicts()
        [{'x': 'AB'}, {'x': None}]
        """
        return StringMethods(self)

    @property
    def dt(self) -> DateTimeMethods[Expr]:
        """Functions of dates, timestamps and durations: the methods of `DateTimeMethods`.

        >>> from datetime import date
        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [date(2024, 2, 29), None]}).select(col("x").dt.year()).to_dicts()
        [{'x': 2024}, {'x': None}]
        """
        return DateTimeMethods(self)

    @property
    def list(self) -> ListMethods[Expr]:
        """Functions of lists: the methods of `ListMethods`.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[3, 4], None]}).select(col("x").list.sum()).to_dicts()
        [{'x': 7}, {'x': None}]
        """
        return ListMethods(self)

    @property
    def struct(self) -> StructMethods[Expr]:
        """The fields of structs, by ``.struct.field("a")`` or ``.struct["a"]``.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [{"a": 1}, None]}).select(col("x").struct["a"]).to_dicts()
        [{'a': 1}, {'a': None}]
        """
        return StructMethods(self)

    @property
    def name(self) -> ExprName:
        """The name of the output column: ``.name.suffix("_x")``; ``.name("x")`` is `alias`.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1], "y": [2]}).select(col("x", "y").name.suffix("_old")).to_dicts()
        [{'x_old': 1, 'y_old': 2}]
        """
        return ExprName(self)


class ExprName:
    """``.name``: what an expression is called, from the name it would have."""

    __slots__ = ("_expr",)

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def __call__(self, name: Text) -> Expr:
        """The same as `Expr.alias`, as in PySpark."""
        return self._expr.alias(name)

    def suffix(self, text: Text) -> Expr:
        """The name with `text` after it.

        >>> from fabric import col
        >>> col("a").sum().name.suffix("_sum")
        col("a").sum().alias("a_sum")
        """
        return self.map(lambda name: name + _text("suffix", text))

    def prefix(self, text: Text) -> Expr:
        """The name with `text` before it.

        >>> from fabric import col
        >>> col("a").sum().name.prefix("sum_")
        col("a").sum().alias("sum_a")
        """
        return self.map(lambda name: _text("prefix", text) + name)

    def to_lowercase(self) -> Expr:
        """The name in lower case.

        >>> from fabric import col
        >>> col("CARRIER").name.to_lowercase()
        col("CARRIER").alias("carrier")
        """
        return self.map(Text.lower)

    def to_uppercase(self) -> Expr:
        """The name in upper case.

        >>> from fabric import col
        >>> col("carrier").name.to_uppercase()
        col("carrier").alias("CARRIER")
        """
        return self.map(Text.upper)

    def keep(self) -> Expr:
        """The name of the first column that the expression reads; an earlier alias is ignored.

        >>> from fabric import col
        >>> (col("a") + 1).alias("b").name.keep()
        (col("a") + 1).alias("a")
        """
        return self._expr.alias(plan.output_name(to_node(self._expr)))

    def map(self, function: Callable[[Text], Text]) -> Expr:
        """The name that `function` returns for the current name; PlanError if it returns no string.

        >>> from fabric import col
        >>> col("dep delay").name.map(lambda name: name.replace(" ", "_"))
        col("dep delay").alias("dep_delay")
        """
        old = plan.output_name(self._expr.node)
        new = function(old)
        if not isinstance(new, Text):
            raise PlanError(f"name.map takes a function from text to text, got {new!r} of {old!r}")
        return self._expr.alias(new)


def _text(method: Text, value: Any) -> Text:
    if not isinstance(value, Text):
        raise PlanError(f"name.{method} takes a text, got {value!r}")
    return value


@cache
def _elsewhere() -> dict[str, str]:
    """Names of the namespaces, and of other libraries, as they are written here."""
    found = {
        "apply": 'udf(function, returns="int64")(col("x"))',
        "map_elements": 'udf(function, returns="int64")(col("x"))',
        "map_batches": 'arrow_udf(function, returns="int64")(col("x"))',
        "astype": '.cast("int64")',
        "implode": ".collect_list()",
        "isna": ".is_null()",
        "mode": 'df.group_by("x").len().top_k(1, "len")',
        "product": 'col("x").ln().sum().exp(), of numbers above 0',
        "notna": ".is_not_null()",
    }
    for space, kind in (("list", ListMethods), ("dt", DateTimeMethods), ("str", StringMethods)):
        names = (name for name in dir(kind) if not name.startswith("_"))
        found |= {name: f".{space}.{name}" for name in names}
    return found | {
        "unique": "df.select(...).distinct(), or .list.unique() of a list",
        "sort": "df.sort(...), or .list.sort() of a list",
        "reverse": "df.sort(..., descending=True), .list.reverse() or .str.reverse()",
        "head": "df.head(5), .list.head(5) or .str.head(5)",
        "len": ".count(), .list.len() of a list or .str.len_chars() of a text",
        "filter": "when(condition).then(col(...)), or df.filter(condition)",
        "fillna": ".fill_null(0)",
    }


helpful(Expr, AggregateMethods, WindowMethods, NumberMethods, ValueMethods, space="")
suggesting(Expr, "an expression", _elsewhere)


_MISSING: Any = object()  # None is a value: null
_Branch = tuple[plan.Expr, plan.Expr]


class When:
    """Conditions that wait for their value: ``.then(value)``."""

    __slots__ = ("_branches", "_condition")

    def __init__(self, branches: tuple[_Branch, ...], conditions: tuple[IntoExpr, ...]) -> None:
        self._branches = branches
        self._condition = to_node(reduce(lambda a, b: a & b, map(as_column, conditions)))

    def then(self, value: IntoExpr) -> Then:
        """The value where the condition is true; a string is a column, ``lit("x")`` is a string.

        >>> from fabric import DataFrame, col, lit, when
        >>> late = when(col("x") > 15).then(lit("late"))
        >>> DataFrame({"x": [20, 5, None]}).select(state=late).collect().to_pydict()
        {'state': ['late', None, None]}
        """
        return Then((*self._branches, (self._condition, to_node(as_column(value)))))

    def __repr__(self) -> str:
        return f"when({Expr(self._condition)!r}) without .then(value)"


class Then(Expr):
    """A case that is complete (null where no condition is true) and may go on."""

    __slots__ = ("_branches",)

    def __init__(self, branches: tuple[_Branch, ...]) -> None:
        super().__init__(Case(branches, to_node(None)))
        self._branches = branches

    def _of(self, node: plan.Expr) -> Self:
        """An `Expr`, which takes no more branches."""
        return Expr(node)  # type: ignore[return-value]

    @overload
    def when(self, condition: IntoExpr) -> When: ...
    @overload
    def when(self, condition: IntoExpr, value: IntoExpr) -> WhenOrThen: ...
    @overload
    def when(self, condition: IntoExpr, value: IntoExpr, *conditions: IntoExpr) -> When: ...
    def when(
        self, condition: IntoExpr, value: IntoExpr = _MISSING, *conditions: IntoExpr
    ) -> When | Then:
        """One more condition, tested where no condition before it is true; written as in `when`.

        >>> from fabric import DataFrame, col, when
        >>> size = when(col("x") > 9).then(2).when(col("x") > 3).then(1).otherwise(0)
        >>> DataFrame({"x": [20, 5, None]}).select(size=size).collect().to_pydict()
        {'size': [2, 1, 0]}
        """
        return _when(self._branches, condition, value, conditions)

    def otherwise(self, value: IntoExpr) -> Expr:
        """The value where no condition is true; a string is a column, ``lit("x")`` is a string.

        >>> from fabric import DataFrame, col, when
        >>> positive = when(col("x") > 0).then("x").otherwise(0)
        >>> DataFrame({"x": [2, -1, None]}).select(x=positive).collect().to_pydict()
        {'x': [2, 0, 0]}
        """
        return Expr(Case(self._branches, to_node(as_column(value))))


class WhenOrThen(Then):
    """``when(a, b)``: a condition and its value, as in PySpark, until ``.then(value)`` follows:
    then both are conditions, as in Polars."""

    __slots__ = ("_both",)

    def __init__(self, branches: tuple[_Branch, ...], condition: IntoExpr, value: IntoExpr) -> None:
        super().__init__(When(branches, (condition,)).then(value)._branches)
        self._both = (branches, (condition, value))

    def then(self, value: IntoExpr) -> Then:
        """The value where both conditions are true.

        >>> from fabric import col, when
        >>> when(col("x") > 0, col("y") > 0).then(1)
        when((col("x") > 0) & (col("y") > 0)).then(1)
        """
        return When(*self._both).then(value)


suggesting(When, "when(...)")


@overload
def when(condition: IntoExpr) -> When: ...
@overload
def when(condition: IntoExpr, value: IntoExpr) -> WhenOrThen: ...
@overload
def when(condition: IntoExpr, value: IntoExpr, *conditions: IntoExpr) -> When: ...
def when(condition: IntoExpr, value: IntoExpr = _MISSING, *conditions: IntoExpr) -> When | Then:
    """Begin a case: the first condition that is true gives the value; null is not true.

    With ``.then(value)`` all that stands in `when` are conditions, as in Polars, and all must be
    true. Without, the second is the value, as in PySpark. A bare text is a column, as everywhere
    that columns are meant; ``lit("late")`` is text.

    Examples
    --------
    >>> from fabric import col, lit, when
    >>> when(col("delay") > 15).then(lit("late")).otherwise("state")
    when(col("delay") > 15).then(lit("late")).otherwise(col("state"))
    >>> when(col("delay") > 15, col("dest") == "JFK").then(1).otherwise(0)
    when((col("delay") > 15) & (col("dest") == "JFK")).then(1).otherwise(0)
    >>> when(col("delay") > 15, 1).otherwise(0)
    when(col("delay") > 15).then(1).otherwise(0)
    """
    return _when((), condition, value, conditions)


def _when(
    branches: tuple[_Branch, ...],
    condition: IntoExpr,
    value: IntoExpr,
    conditions: tuple[IntoExpr, ...],
) -> When | Then:
    if value is _MISSING:
        return When(branches, (condition,))
    if not conditions:
        return WhenOrThen(branches, condition, value)
    return When(branches, (condition, value, *conditions))
