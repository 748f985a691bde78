"""The expression users write with: operators, methods and the namespaces: str dt list struct.

One job: the class that has them all. Operators are in `operators.py`, each family of methods has
a file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from fabric.clients.dataframe.aggregate_methods import AggregateMethods
from fabric.clients.dataframe.calls import helpful, suggesting
from fabric.clients.dataframe.dates import DateTimeMethods
from fabric.clients.dataframe.lists import ListMethods
from fabric.clients.dataframe.number_methods import NumberMethods
from fabric.clients.dataframe.operators import Operators
from fabric.clients.dataframe.strings import StringMethods
from fabric.clients.dataframe.structs import StructMethods
from fabric.clients.dataframe.types import Expression, IntoExpr, to_node
from fabric.clients.dataframe.value_methods import ValueMethods
from fabric.clients.dataframe.window_methods import WindowMethods
from fabric.errors import PlanError
from fabric.plan import expr as plan

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
        """Functions of strings."""
        return StringMethods(self)

    @property
    def dt(self) -> DateTimeMethods[Expr]:
        """Functions of dates and timestamps."""
        return DateTimeMethods(self)

    @property
    def list(self) -> ListMethods[Expr]:
        """Functions of lists."""
        return ListMethods(self)

    @property
    def struct(self) -> StructMethods[Expr]:
        """The fields of structs."""
        return StructMethods(self)

    @property
    def name(self) -> ExprName:
        """What they are called: ``.name.suffix("_x")``, or ``.name("x")``, which is `alias`."""
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
        """The name with `text` behind it.

        >>> from fabric import col
        >>> col("a").sum().name.suffix("_sum")
        col("a").sum().alias("a_sum")
        """
        return self.map(lambda name: name + _text("suffix", text))

    def prefix(self, text: Text) -> Expr:
        """The name with `text` before it."""
        return self.map(lambda name: _text("prefix", text) + name)

    def to_lowercase(self) -> Expr:
        """The name in small letters."""
        return self.map(Text.lower)

    def to_uppercase(self) -> Expr:
        """The name in capital letters."""
        return self.map(Text.upper)

    def keep(self) -> Expr:
        """The name of the first column that is read, whatever the alias."""
        return self._expr.alias(plan.output_name(to_node(self._expr)))

    def map(self, function: Callable[[Text], Text]) -> Expr:
        """The name as `function` makes it."""
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
