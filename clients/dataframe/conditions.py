"""``when(condition).then(value).otherwise(value)``: a case, branch by branch."""

from __future__ import annotations

from typing import Any, overload

from fabric.clients.dataframe.calls import suggesting
from fabric.clients.dataframe.expr import Expr, as_column, to_node
from fabric.plan import expr as plan
from fabric.plan.expr import Case

_MISSING: Any = object()  # None is a value: null
_Branch = tuple[plan.Expr, plan.Expr]


class When:
    """A condition that waits for its value: ``.then(value)``."""

    __slots__ = ("_branches", "_condition")

    def __init__(self, branches: tuple[_Branch, ...], condition: Any) -> None:
        self._branches = branches
        self._condition = to_node(condition)

    def then(self, value: Any) -> Then:
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

    @overload
    def when(self, condition: Any) -> When: ...
    @overload
    def when(self, condition: Any, value: Any) -> Then: ...
    def when(self, condition: Any, value: Any = _MISSING) -> When | Then:
        """One more condition, looked at where all before are not true.

        With a `value` it is PySpark's form, ``when(c, v).when(c, v)``, and complete.
        """
        later = When(self._branches, condition)
        return later if value is _MISSING else later.then(value)

    def otherwise(self, value: Any) -> Expr:
        """The value where no condition is true; a text is a column, ``lit("x")`` is text."""
        return Expr(Case(self._branches, to_node(as_column(value))))


suggesting(When, "when(...)")


@overload
def when(condition: Any) -> When: ...
@overload
def when(condition: Any, value: Any) -> Then: ...
def when(condition: Any, value: Any = _MISSING) -> When | Then:
    """Begin a case: the first condition that is true gives the value; null is not true.

    A bare text is a column, as everywhere that columns are meant; ``lit("late")`` is text.

    Examples
    --------
    >>> from fabric import col, lit, when
    >>> when(col("delay") > 15).then(lit("late")).otherwise("state")
    when(col("delay") > 15).then(lit("late")).otherwise(col("state"))
    """
    first = When((), condition)
    return first if value is _MISSING else first.then(value)
