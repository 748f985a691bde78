"""PySpark's functions whose work is a method here: ``F.year("day")`` is ``col("day").dt.year()``.

One job: the names of `pyspark.sql.functions` in `fabric.functions`, with Spark's arguments and its
meaning. As in PySpark a text is a column wherever a column is meant, ``lit("x")`` is text; of
`concat`, `startswith` and their like too. They are not in `fabric` itself, where `round` or `abs`
would hide Python's own.
"""

from __future__ import annotations

import math
import re

from fabric.clients.dataframe.calls import helpful_functions
from fabric.clients.dataframe.expressions.expr import Expr, as_column, call, when
from fabric.clients.dataframe.expressions.types import ColumnName, IntoExpr, Order
from fabric.clients.dataframe.functions.aggregates import collect_list, count_distinct
from fabric.clients.dataframe.functions.scalars import (
    MANY,
    Strings,
    chr,
    function_of,
    itself,
    length,
    lower,
    of_column,
    sha1,
    upper,
)
from fabric.errors import PlanError

__all__ = [
    "abs", "array_agg", "asc", "asc_nulls_first", "asc_nulls_last", "btrim", "ceil", "ceiling",
    "char", "char_length", "character_length", "collect_set", "concat", "contains", "countDistinct",
    "csc", "desc", "desc_nulls_first", "desc_nulls_last", "e", "endswith", "equal_null", "floor",
    "ifnull", "isnan", "isnotnull", "isnull", "lcase", "negate", "negative", "nullif", "nullifzero",
    "nvl", "nvl2", "pi", "position", "positive", "regexp", "regexp_like", "replace", "rint",
    "round", "sec", "sha", "split", "startswith", "substr", "substring", "ucase", "zeroifnull",
]  # fmt: skip

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


# ---- numbers
abs = function_of(Expr.abs, itself)
ceil = ceiling = function_of(Expr.ceil, itself)
floor = function_of(Expr.floor, itself)
negative = negate = of_column("negate")
isnan = function_of(Expr.is_nan, itself, "isnan")


def round(column: IntoExpr, scale: int = 0) -> Expr:
    """Rounded to `scale` digits, half away from zero.

    >>> round("price", 2)
    col("price").round(2)
    """
    return as_column(column).round(scale)


def rint(column: IntoExpr) -> Expr:
    """The nearest whole number as a float64, half to even.

    >>> from fabric import DataFrame
    >>> DataFrame({"x": [0.5, 1.5, None]}).select(rint("x").alias("x")).to_dicts()
    [{'x': 0.0}, {'x': 2.0}, {'x': None}]
    """
    value = as_column(column).cast("float64")
    nearest = value.bround()
    return when(nearest == 0).then(value * 0.0).otherwise(nearest)  # keeps the sign of -0.4


def positive(column: IntoExpr) -> Expr:
    """The column itself."""
    return as_column(column)


def sec(column: IntoExpr) -> Expr:
    """1 / cosine of an angle in radians, a float64.

    >>> from fabric import DataFrame
    >>> DataFrame({"x": [0.0]}).select(sec("x").alias("sec")).to_dicts()
    [{'sec': 1.0}]
    """
    return 1.0 / as_column(column).cos()


def csc(column: IntoExpr) -> Expr:
    """1 / sine of an angle in radians, a float64; of 0 an `ExpressionError`.

    >>> import math
    >>> from fabric import DataFrame
    >>> DataFrame({"x": [math.pi / 2]}).select(csc("x").alias("csc")).to_dicts()
    [{'csc': 1.0}]
    """
    return 1.0 / as_column(column).sin()


def e() -> Expr:
    """Euler's number, a float64 in every row.

    >>> from fabric import DataFrame
    >>> DataFrame({"x": [2]}).select(y=e() ** 0).to_dicts()
    [{'y': 1.0}]
    """
    return as_column(math.e)


def pi() -> Expr:
    """The number pi, a float64 in every row.

    >>> from fabric import DataFrame
    >>> DataFrame({"r": [2]}).select((pi() * 2).floor().alias("turn")).to_dicts()
    [{'turn': 6}]
    """
    return as_column(math.pi)


# ---- null
isnull = function_of(Expr.is_null, itself, "isnull")
isnotnull = function_of(Expr.is_not_null, itself, "isnotnull")
equal_null = function_of(Expr.eq_null_safe, itself, "equal_null", n_columns=2)


def nvl(column: IntoExpr, other: IntoExpr) -> Expr:
    """The first column, or the second where the first is null.

    >>> nvl("a", "b")
    coalesce(col("a"), col("b"))
    """
    return call("coalesce", as_column(column), as_column(other))


ifnull = nvl


def nvl2(column: IntoExpr, there: IntoExpr, missing: IntoExpr) -> Expr:
    """`there` where the column is not null, else `missing`.

    >>> nvl2("a", 1, 0)
    when(col("a").is_not_null()).then(1).otherwise(0)
    """
    there, missing = as_column(there), as_column(missing)
    return when(as_column(column).is_not_null()).then(there).otherwise(missing)


def nullif(column: IntoExpr, other: IntoExpr) -> Expr:
    """Null where both columns are equal, else the first.

    >>> nullif("a", "b")
    when(col("a") == col("b")).then(lit(None)).otherwise(col("a"))
    """
    value = as_column(column)
    return when(value == as_column(other)).then(None).otherwise(value)


def nullifzero(column: IntoExpr) -> Expr:
    """Null where the number is 0.

    >>> from fabric import DataFrame
    >>> DataFrame({"x": [0, 2]}).select(nullifzero("x").alias("x")).to_dicts()
    [{'x': None}, {'x': 2}]
    """
    value = as_column(column)
    return when(value == 0).then(None).otherwise(value)


def zeroifnull(column: IntoExpr) -> Expr:
    """0 where the number is null.

    >>> from fabric import DataFrame
    >>> DataFrame({"x": [None, 2]}).select(zeroifnull("x").alias("x")).to_dicts()
    [{'x': 0}, {'x': 2}]
    """
    return as_column(column).fill_null(0)


# ---- orders
def asc(column: IntoExpr) -> Order:
    """Ascending, nulls first; `desc` has nulls last."""
    return as_column(column).asc()


def desc(column: IntoExpr) -> Order:
    """Descending, nulls last."""
    return as_column(column).desc()


def asc_nulls_first(column: IntoExpr) -> Order:
    """Ascending, nulls first."""
    return as_column(column).asc()


def asc_nulls_last(column: IntoExpr) -> Order:
    """Ascending, nulls last."""
    return as_column(column).asc().nulls_last()


def desc_nulls_first(column: IntoExpr) -> Order:
    """Descending, nulls first."""
    return as_column(column).desc().nulls_first()


def desc_nulls_last(column: IntoExpr) -> Order:
    """Descending, nulls last."""
    return as_column(column).desc()


# ---- texts
ucase = upper
lcase = lower
char = chr
char_length = character_length = length
concat = function_of(Strings.concat, Strings, n_columns=MANY)
contains = function_of(Expr.contains, itself, n_columns=2)
startswith = function_of(Expr.startswith, itself, n_columns=2)
endswith = function_of(Expr.endswith, itself, n_columns=2)
btrim = function_of(Strings.trim, Strings, "btrim", n_columns=2)
regexp = regexp_like = function_of(Strings.rlike, Strings, "regexp_like", n_columns=2)
sha = sha1


def substring(column: IntoExpr, pos: IntoExpr, len: IntoExpr) -> Expr:
    """`len` characters from `pos`, counted from 1; below 0 from the end.

    >>> substring("name", 1, 3)
    col("name").str.substring(1, 3)
    """
    return call("substring", *map(as_column, (column, pos, len)))


def substr(column: IntoExpr, pos: IntoExpr, len: IntoExpr = None) -> Expr:
    """As `substring`; without `len` to the end.

    >>> from fabric import DataFrame
    >>> DataFrame({"s": ["fabric"]}).select(substr("s", 4).alias("s")).to_dicts()
    [{'s': 'ric'}]
    """
    return substring(column, pos, _TO_THE_END if len is None else len)


def replace(column: IntoExpr, search: IntoExpr, replace: IntoExpr = None) -> Expr:
    """Every `search` in the text becomes `replace`, or is taken out; a text is a column.

    >>> from fabric import DataFrame, lit
    >>> DataFrame({"s": ["a-b-c"]}).select(replace("s", lit("-"), lit("+")).alias("s")).to_dicts()
    [{'s': 'a+b+c'}]
    """
    return call(
        "replace",
        as_column(column),
        as_column(search),
        "" if replace is None else as_column(replace),
    )


def position(substr: IntoExpr, column: IntoExpr) -> Expr:
    """Where the text `substr` begins in the column, counted from 1; 0 where it does not occur.

    >>> from fabric import DataFrame, lit
    >>> DataFrame({"s": ["fabric"]}).select(position(lit("b"), "s").alias("at")).to_dicts()
    [{'at': 3}]
    """
    return call("instr", as_column(column), as_column(substr))


def split(column: IntoExpr, pattern: str, limit: int = -1) -> Expr:
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


# ---- aggregates
countDistinct = count_distinct
array_agg = collect_list


def collect_set(column: ColumnName) -> Expr:
    """In ``agg``: the values of a group, each once, in no order; nulls are left out.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"k": ["a", "a", "a"], "x": [1, 1, None]})
    >>> df.group_by("k").agg(collect_set("x")).to_dicts()
    [{'k': 'a', 'x': [1]}]
    """
    return collect_list(column).list.unique()


helpful_functions(globals())
