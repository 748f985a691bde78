"""Lists and structs made of columns: array concat_list struct sequence list_repeat list_zip.

One job: the functions that have no subject to be a method of. A string argument means a column.
"""

from __future__ import annotations

from typing import Any

from fabric.clients.dataframe.arguments import flatten
from fabric.clients.dataframe.expr import Expr, as_column, call
from fabric.errors import PlanError
from fabric.plan.expr import output_name

ColumnLike = Expr | str


def array(*columns: Any) -> Expr:
    """A list of all arguments in every row; never null. Lists are joined by `.list.concat`.

    >>> array("dep_delay", "arr_delay")
    array(col("dep_delay"), col("arr_delay"))
    """
    return call("array", *map(as_column, columns))


def concat_list(*columns: Any) -> Expr:
    """Lists and single values joined to one list, as in Polars; `array` makes a list of lists.

    Null where one of the lists is null; a single value that is null stays a value of the list.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"seen": [[1, 2], []], "last": [3, None]})
    >>> df.select(all=concat_list("seen", "last")).to_dicts()
    [{'all': [1, 2, 3]}, {'all': [None]}]
    """
    return call("concat_list", *map(as_column, flatten(columns)))


def struct(*columns: Any, **named: Any) -> Expr:
    """A struct of columns under their own names, and of named values; never null.

    >>> struct("origin", to="dest")
    struct(origin=col("origin"), to=col("dest"))
    """
    return call("struct", *_named("struct", columns, named))


def sequence(start: Any, stop: Any, step: Any = None) -> Expr:
    """The whole numbers from `start` to `stop`, both included, as a list.

    >>> sequence(1, "n")
    sequence(lit(1), col("n"))
    """
    steps = [] if step is None else [as_column(step)]
    return call("sequence", as_column(start), as_column(stop), *steps)


def list_repeat(value: Any, n: Any) -> Expr:
    """A list of `n` times `value`; empty where `n` is below 1."""
    return call("list_repeat", as_column(value), as_column(n))


def list_zip(*columns: Any, **named: Any) -> Expr:
    """Lists side by side: one list of structs; shorter lists go on with null.

    >>> list_zip("a", b="other")
    list_zip(a=col("a"), b=col("other"))
    """
    return call("list_zip", *_named("list_zip", columns, named))


def _named(function: str, columns: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """Names and values in turn."""
    values = [as_column(column) for column in columns]
    pairs = [(output_name(value.node), value) for value in values]
    pairs += [(name, as_column(value)) for name, value in named.items()]
    if not pairs:
        raise PlanError(f'{function} needs a column, for example {function}("a", b=col("x") + 1)')
    return [part for name, value in pairs for part in (name, value)]


def array_contains(column: Any, value: Any) -> Expr:
    """Whether `value` is in a list; null where it is not and a null is, as in Spark.

    >>> array_contains("tags", "new")
    array_contains(col("tags"), lit("new"))
    """
    return call("list_contains", as_column(column), value)


array_repeat = list_repeat
arrays_zip = list_zip
