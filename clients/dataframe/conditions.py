"""``when(condition).then(value).otherwise(value)``: a case, branch by branch."""

from __future__ import annotations

from functools import reduce
from typing import Any, Self, overload

from fabric.clients.dataframe.calls import suggesting
from fabric.clients.dataframe.expr import Expr, as_column
from fabric.clients.dataframe.types import IntoExpr, to_node
from fabric.plan import expr as plan
from fabric.plan.expr import Case

_MISSING: Any = object()  # None is a value: null
_Branch = tuple[plan.Expr, plan.Expr]


class When:
    """Conditions that wait for their value: ``.then(value)``."""

    __slots__ = ("_branches", "_condition")

    def __init__(self, branches: tuple[_Branch, ...], conditions: tuple[IntoExpr, ...]) -> None:
        self._branches = branches
        self._condition = to_node(reduce(lambda a, b: a & b, map(as_column, conditions)))

    def then(self, value: IntoExpr) -> Then:
        """The value where the condition is true; a text is a column, ``lit("x")`` is text."""
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
        """One more condition, looked at where all before are not true; written as in `when`."""
        return _when(self._branches, condition, value, conditions)

    def otherwise(self, value: IntoExpr) -> Expr:
        """The value where no condition is true; a text is a column, ``lit("x")`` is text."""
        return Expr(Case(self._branches, to_node(as_column(value))))


class WhenOrThen(Then):
    """``when(a, b)``: a condition and its value, as in PySpark, until ``.then(value)`` follows:
    then both are conditions, as in Polars."""

    __slots__ = ("_both",)

    def __init__(self, branches: tuple[_Branch, ...], condition: IntoExpr, value: IntoExpr) -> None:
        super().__init__(When(branches, (condition,)).then(value)._branches)
        self._both = (branches, (condition, value))

    def then(self, value: IntoExpr) -> Then:
        """The value where both conditions are true."""
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
