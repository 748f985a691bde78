"""PySpark's functions whose work is a method here: ``F.year("day")`` is ``col("day").dt.year()``.

One job: the names of `pyspark.sql.functions` in `fabric.functions`, with Spark's arguments and its
meaning. As in PySpark a text is a column wherever a column is meant, ``lit("x")`` is text; of
`concat`, `startswith` and their like too. They are not in `fabric` itself, where `round` or `abs`
would hide Python's own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from fabric.clients.dataframe.aggregate_functions import collect_list, count_distinct
from fabric.clients.dataframe.calls import helpful_functions
from fabric.clients.dataframe.conditions import when
from fabric.clients.dataframe.expr import Expr, as_column, call
from fabric.clients.dataframe.order import Order
from fabric.clients.dataframe.scalar_functions import MANY, registry_function
from fabric.errors import PlanError
from fabric.plan.expr import Literal

__all__ = [
    "abs", "add_months", "array_agg", "array_append", "array_compact", "array_distinct",
    "array_except", "array_intersect", "array_join", "array_max", "array_min", "array_position",
    "array_prepend", "array_size", "array_union", "asc", "asc_nulls_first", "asc_nulls_last",
    "btrim", "cardinality", "ceil", "ceiling", "char", "char_length", "character_length",
    "collect_set", "concat", "contains", "countDistinct", "csc", "date_add", "date_part",
    "date_sub", "date_trunc", "dateadd", "datepart", "day", "dayname", "dayofmonth",
    "dayofweek", "dayofyear", "desc", "desc_nulls_first", "desc_nulls_last", "e", "element_at",
    "endswith", "equal_null", "extract", "flatten", "floor", "from_utc_timestamp", "get",
    "hour", "ifnull", "isnan", "isnotnull", "isnull", "last_day", "lcase", "minute", "month",
    "monthname", "months_between", "named_struct", "negate", "negative", "next_day", "nullif",
    "nullifzero", "nvl", "nvl2", "pi", "position", "positive", "quarter", "regexp",
    "regexp_like", "replace", "rint", "round", "sec", "second", "sha", "size", "slice",
    "sort_array", "split", "startswith", "substr", "substring", "to_utc_timestamp", "trunc",
    "ucase", "unix_date", "unix_micros", "unix_millis", "unix_seconds", "weekday", "weekofyear",
    "year", "zeroifnull",
]  # fmt: skip

_PARTS = {
    "year": "year", "yr": "year", "month": "month", "mon": "month", "day": "day", "d": "day",
    "quarter": "quarter", "qtr": "quarter", "week": "week", "w": "week", "hour": "hour",
    "minute": "minute", "min": "minute", "dow": "day_of_week", "dayofweek": "day_of_week",
    "doy": "day_of_year",
}  # fmt: skip
"""What `date_part` takes, beside the seconds, which have a fraction there."""
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ONE_TEXT = re.compile(r"(?:[^\\\[\](){}.*+?^$|]|\\\W|\[[^\w\s^\\\[\]]\])+")
"""A Java pattern that matches itself only: plain characters, and special ones behind a backslash or
in brackets."""
_TO_THE_END = (1 << 31) - 1
INSTEAD = {
    "broadcast": "df.join(other, on=...), which sends the smaller side to all by itself",
    "call_function": 'fabric.functions.upper("x"), a function by its name',
    "column": 'col("x")',
    "current_date": "lit(datetime.date.today())",
    "current_timestamp": "lit(datetime.datetime.now(datetime.UTC))",
    "explode": 'df.explode("x")',
    "expr": 'col("a") + col("b"), an expression in Python',
    "implode": 'collect_list("x")',
    "inline": 'df.explode("x").unnest("x")',
    "monotonically_increasing_id": 'df.with_row_index("id", order_by="x")',
    "now": "lit(datetime.datetime.now(datetime.UTC))",
    "pandas_udf": "@fabric.arrow_udf",
    "posexplode": 'df.explode("x"), after a column of positions',
    "rand": "df.sample(fraction=0.1)",
    "session_window": '.group_by("k").window(fabric.session("10 minutes"))',
    "typeof": "df.schema",
    "window": '.group_by_dynamic("t", every="10 minutes"), or on a stream .window("10 minutes")',
}
"""What PySpark has as a function and Fabric in another place."""


def _of_columns(name: str) -> Callable[..., Expr]:
    """Registry function `name`, all of whose arguments are columns."""
    return registry_function(name, MANY)


# ---- numbers
abs = _of_columns("abs")
ceil = ceiling = _of_columns("ceil")
floor = _of_columns("floor")
negative = negate = _of_columns("negate")
isnan = _of_columns("is_nan")


def round(column: Any, scale: int = 0) -> Expr:
    """Rounded to `scale` digits, half away from zero.

    >>> round("price", 2)
    col("price").round(2)
    """
    return as_column(column).round(scale)


def rint(column: Any) -> Expr:
    """The nearest whole number as a float64, half to even."""
    value = as_column(column).cast("float64")
    nearest = value.bround()
    return when(nearest == 0).then(value * 0.0).otherwise(nearest)  # keeps the sign of -0.4


def positive(column: Any) -> Expr:
    """The column itself."""
    return as_column(column)


def sec(column: Any) -> Expr:
    """1 / cosine."""
    return 1.0 / as_column(column).cos()


def csc(column: Any) -> Expr:
    """1 / sine."""
    return 1.0 / as_column(column).sin()


def e() -> Expr:
    """Euler's number."""
    return as_column(math.e)


def pi() -> Expr:
    """The number pi."""
    return as_column(math.pi)


# ---- null
isnull = _of_columns("is_null")
isnotnull = _of_columns("is_not_null")
equal_null = _of_columns("eq_null_safe")


def nvl(column: Any, other: Any) -> Expr:
    """The first column, or the second where the first is null."""
    return call("coalesce", as_column(column), as_column(other))


ifnull = nvl


def nvl2(column: Any, there: Any, missing: Any) -> Expr:
    """`there` where the column is not null, else `missing`."""
    there, missing = as_column(there), as_column(missing)
    return when(as_column(column).is_not_null()).then(there).otherwise(missing)


def nullif(column: Any, other: Any) -> Expr:
    """Null where both columns are equal, else the first.

    >>> nullif("a", "b")
    when(col("a") == col("b")).then(lit(None)).otherwise(col("a"))
    """
    value = as_column(column)
    return when(value == as_column(other)).then(None).otherwise(value)


def nullifzero(column: Any) -> Expr:
    """Null where the number is 0."""
    value = as_column(column)
    return when(value == 0).then(None).otherwise(value)


def zeroifnull(column: Any) -> Expr:
    """0 where the number is null."""
    return as_column(column).fill_null(0)


# ---- orders
def asc(column: Any) -> Order:
    """Ascending, nulls first; `desc` has nulls last."""
    return as_column(column).asc()


def desc(column: Any) -> Order:
    """Descending, nulls last."""
    return as_column(column).desc()


def asc_nulls_first(column: Any) -> Order:
    """Ascending, nulls first."""
    return as_column(column).asc()


def asc_nulls_last(column: Any) -> Order:
    """Ascending, nulls last."""
    return as_column(column).asc().nulls_last()


def desc_nulls_first(column: Any) -> Order:
    """Descending, nulls first."""
    return as_column(column).desc().nulls_first()


def desc_nulls_last(column: Any) -> Order:
    """Descending, nulls last."""
    return as_column(column).desc()


# ---- texts
ucase = _of_columns("upper")
lcase = _of_columns("lower")
char = _of_columns("chr")
char_length = character_length = _of_columns("length")
concat = _of_columns("concat")
contains = _of_columns("contains")
startswith = _of_columns("starts_with")
endswith = _of_columns("ends_with")
btrim = _of_columns("trim")
regexp = regexp_like = _of_columns("regexp_contains")
sha = _of_columns("sha1")


def substring(column: Any, pos: Any, len: Any) -> Expr:
    """`len` characters from `pos`, counted from 1; below 0 from the end.

    >>> substring("name", 1, 3)
    col("name").str.substring(1, 3)
    """
    return call("substring", *map(as_column, (column, pos, len)))


def substr(column: Any, pos: Any, len: Any = None) -> Expr:
    """As `substring`; without `len` to the end."""
    return substring(column, pos, _TO_THE_END if len is None else len)


def replace(column: Any, search: Any, replace: Any = None) -> Expr:
    """Every `search` in the text becomes `replace`, or is taken out."""
    return call(
        "replace",
        as_column(column),
        as_column(search),
        "" if replace is None else as_column(replace),
    )


def position(substr: Any, column: Any) -> Expr:
    """Where the text `substr` begins in the column, counted from 1; 0 where it does not occur."""
    return call("instr", as_column(column), as_column(substr))


def split(column: Any, pattern: str, limit: int = -1) -> Expr:
    """The parts of a text between matches of `pattern`, at most `limit` where above 0.

    The pattern matches one text only, such as ``", "`` or ``r"\\|"``; others are refused.

    >>> split("path", r"\\.")
    col("path").str.split(".", -1)
    """
    if not _ONE_TEXT.fullmatch(pattern):
        raise PlanError(
            f"split: the pattern {pattern!r} matches more than one text; write: "
            f'regexp_replace(x, {pattern!r}, "\\n").str.split("\\n"), with a text that is nowhere '
            "in the values"
        )
    separator = re.sub(r"\\(\W)|\[(\W)\]", lambda found: found[1] or found[2], pattern)
    return call("split", as_column(column), separator, limit)


# ---- times
year = _of_columns("year")
quarter = _of_columns("quarter")
month = _of_columns("month")
day = dayofmonth = _of_columns("day")
dayofweek = _of_columns("day_of_week")
dayofyear = _of_columns("day_of_year")
weekofyear = _of_columns("week")
hour = _of_columns("hour")
minute = _of_columns("minute")
second = _of_columns("second")
last_day = _of_columns("last_day")
date_add = dateadd = _of_columns("date_add")
add_months = _of_columns("add_months")
unix_date = _of_columns("unix_date")
unix_seconds = _of_columns("unix_seconds")
unix_millis = _of_columns("unix_millis")
unix_micros = _of_columns("unix_micros")


def weekday(column: Any) -> Expr:
    """The day of the week, Monday is 0; with ``.dt.weekday()``, as in Polars, Monday is 1."""
    return call("weekday", as_column(column)) - 1


def date_sub(start: Any, days: Any) -> Expr:
    """The date `days` before."""
    return call("date_add", as_column(start), -as_column(days))


def date_trunc(format: str, timestamp: Any) -> Expr:
    """The beginning of the year, quarter, month, week, day, hour, minute or second.

    >>> date_trunc("hour", "departure")
    col("departure").dt.date_trunc("hour")
    """
    return call("date_trunc", format, as_column(timestamp))


def trunc(date: Any, format: str) -> Expr:
    """The date at the beginning of the year, quarter, month or week."""
    return call("trunc", as_column(date), format)


def next_day(date: Any, dayOfWeek: str) -> Expr:
    """The next such day, for example ``"Mon"``, after the date.

    >>> next_day("day", "Fri")
    col("day").dt.next_day("friday")
    """
    given = str(dayOfWeek).lower()
    named = [day for day in _DAYS if given in (day, day[:2], day[:3])]
    return call("next_day", as_column(date), named[0] if named else dayOfWeek)


def months_between(date1: Any, date2: Any, roundOff: bool = True) -> Expr:
    """Months from `date2` to `date1` with a fraction, rounded to 8 digits if `roundOff`."""
    return call("months_between", as_column(date1), as_column(date2), roundOff)


def from_utc_timestamp(timestamp: Any, tz: str) -> Expr:
    """What clocks in `tz` show at the time."""
    return call("from_utc_timestamp", as_column(timestamp), tz)


def to_utc_timestamp(timestamp: Any, tz: str) -> Expr:
    """The time at which clocks in `tz` show this."""
    return call("to_utc_timestamp", as_column(timestamp), tz)


def monthname(column: Any) -> Expr:
    """``Jan`` to ``Dec``."""
    return call("date_format", as_column(column), "MMM")


def dayname(column: Any) -> Expr:
    """``Mon`` to ``Sun``."""
    return call("date_format", as_column(column), "EEE")


def date_part(field: Any, source: Any) -> Expr:
    """The part of a date or time that the constant `field` names: ``lit("year")``, ``lit("dow")``.

    >>> date_part("week", "day")
    col("day").dt.week()
    """
    constant = isinstance(field, Expr) and isinstance(field.node, Literal)
    name = field.node.value if constant else field
    part = _PARTS.get(str(name).lower())
    if part is None:
        known = ", ".join(sorted(_PARTS))
        raise PlanError(f"date_part: {name!r} is not a part of a time; use one of {known}")
    return call(part, as_column(source))


extract = datepart = date_part


# ---- lists and structs
size = array_size = cardinality = _of_columns("list_len")
array_min = _of_columns("list_min")
array_max = _of_columns("list_max")
array_distinct = _of_columns("list_unique")
array_compact = _of_columns("list_drop_nulls")
array_union = _of_columns("list_union")
array_intersect = _of_columns("list_intersect")
array_except = _of_columns("list_except")
flatten = _of_columns("list_flatten")


def get(column: Any, index: Any) -> Expr:
    """The value at `index`, counted from 0; null where there is none, and below 0."""
    at = as_column(index)
    return call("list_get", as_column(column), when(at >= 0).then(at))


def element_at(column: Any, index: Any) -> Expr:
    """The value at `index`, counted from 1, below 0 from the end; an error where there is none."""
    at = as_column(index)
    there = when(at > 0).then(at - 1).when(at < 0).then(at).otherwise(_TO_THE_END)
    return call("list_item", as_column(column), when(at.is_not_null()).then(there))


def slice(x: Any, start: Any, length: Any) -> Expr:
    """`length` values of a list from `start`, counted from 1; below 0 from the end."""
    return call("list_slice", *map(as_column, (x, start, length)))


def array_join(column: Any, delimiter: str, null_replacement: str | None = None) -> Expr:
    """The values as one text; nulls are left out, or `null_replacement`."""
    rest = [] if null_replacement is None else [null_replacement]
    return call("list_join", as_column(column), delimiter, *rest)


def array_position(column: Any, value: Any) -> Expr:
    """Where `value`, a constant or a column, is first, counted from 1; 0 where it is not."""
    return call("list_position", as_column(column), value)


def array_append(column: Any, value: Any) -> Expr:
    """The list with `value`, a constant or a column, behind it."""
    return call("list_append", as_column(column), value)


def array_prepend(column: Any, value: Any) -> Expr:
    """The list with `value`, a constant or a column, before it."""
    return call("list_prepend", as_column(column), value)


def sort_array(column: Any, asc: bool = True) -> Expr:
    """The list sorted: ascending with nulls first, or descending with nulls last."""
    return call("list_sort", as_column(column), not asc, not asc)


def named_struct(*names_and_values: Any) -> Expr:
    """A struct of names, which are constants, and values in turn.

    >>> from fabric import lit
    >>> named_struct(lit("from"), "origin")
    struct(**{"from": col("origin")})
    """
    if not names_and_values or len(names_and_values) % 2:
        raise PlanError('named_struct takes names and values in turn: named_struct(lit("a"), "b")')
    return call("struct", *map(as_column, names_and_values))


# ---- aggregates
countDistinct = count_distinct
array_agg = collect_list


def collect_set(column: Any) -> Expr:
    """In ``agg``: the values of a group, each once, in no order; nulls are left out."""
    return collect_list(column).list.unique()


_public = {name: globals()[name] for name in __all__}  # not what is imported
helpful_functions(_public)
globals().update(_public)
