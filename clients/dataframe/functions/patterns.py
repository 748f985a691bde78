"""What conditions and measures of ``df.match(…)`` ask of the rows of a match.

One job: `first`, `last`, `prev`, `next`, `classifier`, `match_number`, `final` and `running`, as
``from fabric.patterns import last, prev``. A string is a column: ``"price"``, or ``"A.price"`` of
the rows of variable A. All aggregates of `fabric` work there, too: ``count("B")`` is how many rows
B has. `docs/patterns.md` has examples.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.clients.dataframe.calls import helpful_functions
from fabric.clients.dataframe.expressions.expr import Expr, as_column
from fabric.clients.dataframe.expressions.types import ColumnName
from fabric.clients.dataframe.names import text, whole
from fabric.plan import expr as plan

__all__ = [
    "classifier", "final", "first", "last", "match_number", "next", "prev", "running",
]  # fmt: skip


def first(column: ColumnName, n: int = 0) -> Expr:
    """The value of the first row of a variable, or of the row `n` rows of it after that.

    ``first("ts")`` is that of the first row of the match. Null where there is no such row.

    >>> first("A.price"), first("A.price", 2)
    (col("A.price").first(), first("A.price", 2))
    """
    return _placed("first", column, n)


def last(column: ColumnName, n: int = 0) -> Expr:
    """The value of the last row of a variable so far, or of the row `n` rows of it before that.

    ``col("A.price")`` is the same as ``last("A.price")``. In a condition, the row that is looked at
    is the last one of its own variable. Null where there is no such row.

    >>> last("A.price", 1)
    last("A.price", 1)
    """
    return _placed("last", column, n)


def prev(column: ColumnName, n: int = 1) -> Expr:
    """The value of the row `n` rows before, matched or not: before the row that is looked at,
    before the last one of a variable (``prev("A.price")``), or before that of `first` or `last`.

    >>> prev("price"), prev(last("A.price", 1), 2)
    (prev("price", 1), prev(last("A.price", 1), 2))
    """
    return _shifted("prev", column, n)


def next(column: ColumnName, n: int = 1) -> Expr:
    """The value of the row `n` rows after, as `prev`; in tables alone, as a stream has not got it.

    >>> next("price", 2)
    next("price", 2)
    """
    return _shifted("next", column, n)


def classifier(variable: str | None = None) -> Expr:
    """The name of the variable that the last row was matched to, or the last one of a subset.

    With ``rows="all"`` it is that of each row. A string; null where there is no such row.

    >>> classifier(), classifier("UP_OR_DOWN")
    (classifier(), classifier("UP_OR_DOWN"))
    """
    args = () if variable is None else (plan.Literal(_name(variable), pa.string()),)
    return Expr(plan.Agg("classifier", None, args))


def match_number() -> Expr:
    """1, 2, 3 … of the matches of each partition; an int64. In tables alone.

    >>> match_number()
    match_number()
    """
    return Expr(plan.Agg("match_number", None))


def final(value: ColumnName) -> Expr:
    """`value` as of the last row of the match, where ``rows="all"`` puts out each row.

    >>> final(last("A.price"))
    final(col("A.price").last())
    """
    return Expr(plan.Agg("final", as_column(value).node))


def running(value: ColumnName) -> Expr:
    """`value` as of each row, as is usual with ``rows="all"``; to say so.

    >>> running("price")
    running("price")
    """
    return Expr(plan.Agg("running", as_column(value).node))


def _placed(function: str, column: ColumnName, n: int) -> Expr:
    n = whole(n, 0, function, "n")
    args = (plan.Literal(n, pa.int32()),) if n else ()
    return Expr(plan.Agg(function, as_column(column).node, args))


def _shifted(function: str, column: ColumnName, n: int) -> Expr:
    n = whole(n, 0, function, "n")
    return Expr(plan.Agg(function, as_column(column).node, (plan.Literal(n, pa.int32()),)))


def _name(variable: str) -> str:
    return text(variable, "classifier", "variable")


helpful_functions(globals())
