"""Functions of lists and structs: ``F.array("a", "b")``, ``F.array_max("values")``.

One job: the functions that have no list to be a method of, and Spark's function names of those that
have. A string argument means a column.
"""

from __future__ import annotations

from fabric.clients.dataframe import arguments
from fabric.clients.dataframe.expressions.expr import Expr, as_column, call, when
from fabric.clients.dataframe.expressions.types import IntoExpr, ManyColumns
from fabric.clients.dataframe.functions.scalars import function_of
from fabric.clients.dataframe.methods.lists import ListMethods
from fabric.errors import PlanError
from fabric.plan.expr import output_name

__all__ = [
    "array", "array_append", "array_compact", "array_contains", "array_distinct", "array_except",
    "array_intersect", "array_join", "array_max", "array_min", "array_position", "array_prepend",
    "array_repeat", "array_size", "array_union", "arrays_zip", "cardinality", "concat_list",
    "element_at", "flatten", "get", "list_repeat", "list_zip", "named_struct", "sequence", "size",
    "slice", "sort_array", "struct",
]  # fmt: skip

Lists = ListMethods[Expr]
_TO_THE_END = (1 << 31) - 1


def array(*columns: IntoExpr) -> Expr:
    """A list of all arguments in every row; never null. Lists are joined by `.list.concat`.

    >>> array("dep_delay", "arr_delay")
    array(col("dep_delay"), col("arr_delay"))
    """
    return call("array", *map(as_column, columns))


def concat_list(*columns: ManyColumns) -> Expr:
    """Lists and single values joined to one list, as in Polars; `array` makes a list of lists.

    Null where one of the lists is null; a single value that is null stays a value of the list.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"seen": [[1, 2], []], "last": [3, None]})
    >>> df.select(all=concat_list("seen", "last")).to_dicts()
    [{'all': [1, 2, 3]}, {'all': [None]}]
    """
    return call("concat_list", *map(as_column, arguments.flatten(columns)))


def struct(*columns: IntoExpr, **named: IntoExpr) -> Expr:
    """A struct of columns under their own names, and of named values; never null.

    >>> struct("origin", to="dest")
    struct(origin=col("origin"), to=col("dest"))
    """
    return call("struct", *_named("struct", columns, named))


def sequence(start: IntoExpr, stop: IntoExpr, step: IntoExpr = None) -> Expr:
    """The whole numbers from `start` to `stop`, both included, as a list.

    >>> sequence(1, "n")
    sequence(lit(1), col("n"))
    """
    steps = [] if step is None else [as_column(step)]
    return call("sequence", as_column(start), as_column(stop), *steps)


def list_repeat(value: IntoExpr, n: IntoExpr) -> Expr:
    """A list of `n` times `value`; empty where `n` is below 1, null where it is null.

    >>> from fabric import DataFrame, lit
    >>> DataFrame({"n": [2, 0, None]}).select(list_repeat(lit("x"), "n").alias("l")).to_dicts()
    [{'l': ['x', 'x']}, {'l': []}, {'l': None}]
    """
    return call("list_repeat", as_column(value), as_column(n))


def list_zip(*columns: IntoExpr, **named: IntoExpr) -> Expr:
    """Lists side by side: one list of structs; shorter lists go on with null.

    >>> list_zip("a", b="other")
    list_zip(a=col("a"), b=col("other"))
    """
    return call("list_zip", *_named("list_zip", columns, named))


def _named(
    function: str, columns: tuple[IntoExpr, ...], named: dict[str, IntoExpr]
) -> list[str | Expr]:
    """Names and values in turn."""
    values = [as_column(column) for column in columns]
    pairs = [(output_name(value.node), value) for value in values]
    pairs += [(name, as_column(value)) for name, value in named.items()]
    if not pairs:
        raise PlanError(f'{function} needs a column, for example {function}("a", b=col("x") + 1)')
    return [part for name, value in pairs for part in (name, value)]


def array_contains(column: IntoExpr, value: IntoExpr) -> Expr:
    """Whether `value` is in a list; null where it is not and a null is, as in Spark.

    >>> array_contains("tags", "new")
    array_contains(col("tags"), lit("new"))
    """
    return call("list_contains", as_column(column), value)


size = array_size = cardinality = function_of(Lists.len, Lists, "size")
array_min = function_of(Lists.min, Lists, "array_min")
array_max = function_of(Lists.max, Lists, "array_max")
array_distinct = function_of(Lists.unique, Lists, "array_distinct")
array_compact = function_of(Lists.drop_nulls, Lists, "array_compact")
array_union = function_of(Lists.set_union, Lists, "array_union", n_columns=2)
array_intersect = function_of(Lists.set_intersection, Lists, "array_intersect", n_columns=2)
array_except = function_of(Lists.set_difference, Lists, "array_except", n_columns=2)
flatten = function_of(Lists.flatten, Lists)


def get(column: IntoExpr, index: IntoExpr) -> Expr:
    """The value at `index`, counted from 0; null where there is none, and below 0.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"l": [[1, 2], []]})
    >>> df.select(get("l", 1).alias("at"), get("l", -1).alias("below")).to_dicts()
    [{'at': 2, 'below': None}, {'at': None, 'below': None}]
    """
    at = as_column(index)
    return call("list_get", as_column(column), when(at >= 0).then(at))


def element_at(column: IntoExpr, index: IntoExpr) -> Expr:
    """The value at `index`, counted from 1, below 0 from the end; an error where there is none.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"l": [[1, 2, 3]]})
    >>> df.select(element_at("l", 1).alias("first"), element_at("l", -1).alias("last")).to_dicts()
    [{'first': 1, 'last': 3}]
    """
    at = as_column(index)
    there = when(at > 0).then(at - 1).when(at < 0).then(at).otherwise(_TO_THE_END)
    return call("list_item", as_column(column), when(at.is_not_null()).then(there))


def slice(x: IntoExpr, start: IntoExpr, length: IntoExpr) -> Expr:
    """`length` values of a list from `start`, counted from 1; below 0 from the end."""
    return call("list_slice", *map(as_column, (x, start, length)))


def array_join(column: IntoExpr, delimiter: str, null_replacement: str | None = None) -> Expr:
    """The values as one text; nulls are left out, or `null_replacement`."""
    rest = [] if null_replacement is None else [null_replacement]
    return call("list_join", as_column(column), delimiter, *rest)


def array_position(column: IntoExpr, value: IntoExpr) -> Expr:
    """Where `value`, a constant or a column, is first, counted from 1; 0 where it is not."""
    return call("list_position", as_column(column), value)


def array_append(column: IntoExpr, value: IntoExpr) -> Expr:
    """The list with `value`, a constant or a column, behind it."""
    return call("list_append", as_column(column), value)


def array_prepend(column: IntoExpr, value: IntoExpr) -> Expr:
    """The list with `value`, a constant or a column, before it."""
    return call("list_prepend", as_column(column), value)


def sort_array(column: IntoExpr, asc: bool = True) -> Expr:
    """The list sorted: ascending with nulls first, or descending with nulls last."""
    return call("list_sort", as_column(column), not asc, not asc)


def named_struct(*names_and_values: IntoExpr) -> Expr:
    """A struct of names, which are constants, and values in turn.

    >>> from fabric import lit
    >>> named_struct(lit("from"), "origin")
    struct(**{"from": col("origin")})
    """
    if not names_and_values or len(names_and_values) % 2:
        raise PlanError('named_struct takes names and values in turn: named_struct(lit("a"), "b")')
    return call("struct", *map(as_column, names_and_values))


array_repeat = list_repeat
arrays_zip = list_zip
