"""Columns, constants and aggregates as functions: ``from fabric import functions as F`` works too.

One job: the function face of what `Expr` has as methods. A string argument means a column.
Aggregates are in `aggregates.py`, window functions in `over.py`, lists and structs in `lists.py`,
times in `times.py`, numbers and strings in `scalars.py`; PySpark's names of what is a method here
in `spark.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from fabric.clients.dataframe.arguments import flatten as _flatten
from fabric.clients.dataframe.calls import helpful_functions
from fabric.clients.dataframe.expressions import selectors as _selectors
from fabric.clients.dataframe.expressions.expr import Expr, when
from fabric.clients.dataframe.expressions.expr import as_column as _as_column
from fabric.clients.dataframe.expressions.expr import call as _call
from fabric.clients.dataframe.expressions.literal import DTypeLike, PythonValue
from fabric.clients.dataframe.expressions.literal import to_dtype as _to_dtype
from fabric.clients.dataframe.expressions.literal import to_literal as _to_literal
from fabric.clients.dataframe.expressions.selection import by_names as _by_names
from fabric.clients.dataframe.expressions.types import Columns, IntoExpr, ManyColumns
from fabric.clients.dataframe.functions import aggregates, lists, over, scalars, times
from fabric.clients.dataframe.functions.aggregates import *  # noqa: F403
from fabric.clients.dataframe.functions.lists import *  # noqa: F403
from fabric.clients.dataframe.functions.over import *  # noqa: F403
from fabric.clients.dataframe.functions.scalars import *  # noqa: F403
from fabric.clients.dataframe.functions.times import *  # noqa: F403
from fabric.clients.dataframe.names import no_function
from fabric.errors import PlanError
from fabric.plan import expr as plan

__all__ = ["all", "coalesce", "col", "exclude", "grouping", "grouping_id", "lit", "when"]
__all__ += aggregates.__all__
__all__ += lists.__all__
__all__ += scalars.__all__
__all__ += times.__all__
__all__ += over.__all__


@overload
def col(name: str, /) -> Expr: ...
@overload
def col(name: str | list[str] | tuple[str, ...], /, *more: str) -> Any: ...
def col(name: str | list[str] | tuple[str, ...], /, *more: str) -> Any:
    """The column `name` of the input; of several, whatever is done to it is done to each.

    ``"address.city"`` is the field ``city`` of the struct ``address``, where no column is called
    so.

    >>> col("dep_delay") > 15
    col("dep_delay") > 15
    >>> from fabric import DataFrame
    >>> DataFrame({"a": [1, 2], "b": [3, 4]}).select(col("a", "b").sum()).to_dicts()
    [{'a': 3, 'b': 7}]
    """
    names = [*name, *more] if isinstance(name, list | tuple) else [name, *more]
    for one in names:
        if not isinstance(one, str):
            raise PlanError(
                f"col takes the name of a column, got {one!r}; for a constant use lit(...)"
            )
    if isinstance(name, str) and not more:
        return Expr(plan.Column(name))
    return _by_names(names)


def all() -> Any:
    """Every column, for what is done to each of them: ``all().sum()``.

    >>> from fabric import DataFrame, all
    >>> DataFrame({"a": [1, 2], "b": [3, 4]}).select(all().exclude("a").max()).to_dicts()
    [{'b': 4}]
    """
    return _selectors.all()


def exclude(*names: str | Sequence[str] | Columns) -> Any:
    """Every column but `names`: texts, lists of them, selectors.

    A name that is no column leaves nothing out; `PlanError` where no column is left.

    >>> from fabric import DataFrame
    >>> DataFrame({"a": [1], "b": [2]}).select(exclude("a")).columns
    ['b']
    """
    return _selectors.exclude(*names)


def lit(value: PythonValue | Sequence[PythonValue], dtype: DTypeLike | None = None) -> Expr:
    """The constant `value`, of type `dtype` when given.

    >>> lit("JFK"), lit(1, "int64")
    (lit("JFK"), lit(1, "int64"))
    """
    if isinstance(value, list | tuple):
        return _call("array", *map(lit, value)) if dtype is None else lit(value).cast(dtype)
    literal = _to_literal(value)
    if dtype is None:
        return Expr(literal)
    wanted = _to_dtype(dtype)
    try:
        return Expr(plan.Literal(pa.scalar(literal.value, wanted).as_py(), wanted))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # "2013-01-01" as a date, say
        return Expr(literal).cast(wanted)


def coalesce(*columns: ManyColumns) -> Expr:
    """The first of `columns` that is not null; a text is a column, ``lit("x")`` is text.

    Null where all are. `PlanError` where their types have none in common.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"a": [1, None, None], "b": [7, 8, None]})
    >>> df.select(coalesce("a", "b").alias("c"), coalesce("a", 0).alias("d")).to_dicts()
    [{'c': 1, 'd': 1}, {'c': 8, 'd': 0}, {'c': None, 'd': 0}]
    """
    return _call("coalesce", *map(_as_column, _flatten(columns)))


def grouping_id() -> Expr:
    """In ``agg`` of a rollup, a cube or grouping sets: a bit a key, set where it is left out.

    The first key has the highest bit, as in Spark; an int64. Elsewhere a `PlanError`.

    >>> from fabric import DataFrame
    >>> groups = DataFrame({"a": [1], "b": [2]}).group_by("a", "b").cube()
    >>> groups.agg(grouping_id().alias("id")).sort("id").to_dicts()[1:3]
    [{'a': 1, 'b': None, 'id': 1}, {'a': None, 'b': 2, 'id': 2}]
    """
    return Expr(plan.Agg("grouping_id", None))


def grouping(column: IntoExpr) -> Expr:
    """In ``agg`` of a rollup, a cube or grouping sets: 1 where the key `column` is left out.

    An int8, else 0; it tells such a null from one of the data. `PlanError` where `column` is
    not a key.

    >>> from fabric import DataFrame
    >>> groups = DataFrame({"a": [None]}).group_by("a").rollup()
    >>> groups.agg(grouping("a").alias("total")).sort("total").to_dicts()
    [{'a': None, 'total': 0}, {'a': None, 'total': 1}]
    """
    return Expr(plan.Agg("grouping", _as_column(column).node))


helpful_functions(globals())

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise no_function("fabric.functions", name, __all__)
