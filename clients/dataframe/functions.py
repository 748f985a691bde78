"""Columns, constants and aggregates as functions: ``from fabric import functions as F`` works too.

One job: the function face of what `Expr` has as methods. A string argument means a column.
Aggregates are in `aggregate_functions.py`, window functions in `window_functions.py`, lists and
structs in `nested_functions.py`, times in `time_functions.py`, numbers and strings in
`scalar_functions.py`; PySpark's names of what is a method here in `spark_functions.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from fabric.clients.dataframe import selectors
from fabric.clients.dataframe.aggregate_functions import (
    any_value,
    approx_count_distinct,
    approx_distinct,
    approx_n_unique,
    approx_quantile,
    avg,
    bool_and,
    bool_or,
    collect_list,
    corr,
    count,
    count_distinct,
    count_if,
    covar_pop,
    covar_samp,
    every,
    first,
    kurtosis,
    last,
    len,
    max,
    max_by,
    mean,
    median,
    min,
    min_by,
    n_unique,
    percentile,
    percentile_approx,
    quantile,
    skewness,
    some,
    std,
    std_pop,
    stddev,
    stddev_pop,
    stddev_samp,
    sum,
    var,
    var_pop,
    var_samp,
    variance,
)
from fabric.clients.dataframe.arguments import flatten as _flatten
from fabric.clients.dataframe.calls import helpful_functions
from fabric.clients.dataframe.conditions import when
from fabric.clients.dataframe.expr import Expr
from fabric.clients.dataframe.expr import as_column as _as_column
from fabric.clients.dataframe.expr import call as _call
from fabric.clients.dataframe.literal import DTypeLike
from fabric.clients.dataframe.literal import to_dtype as _to_dtype
from fabric.clients.dataframe.literal import to_literal as _to_literal
from fabric.clients.dataframe.names import no_function
from fabric.clients.dataframe.nested_functions import (
    array,
    array_contains,
    array_repeat,
    arrays_zip,
    concat_list,
    list_repeat,
    list_zip,
    sequence,
    struct,
)
from fabric.clients.dataframe.scalar_functions import (
    acos,
    acosh,
    all_horizontal,
    any_horizontal,
    ascii,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    base64,
    bin,
    bit_count,
    bitwise_not,
    bround,
    cbrt,
    chr,
    concat_str,
    concat_ws,
    cos,
    cosh,
    cot,
    crc32,
    degrees,
    div,
    exp,
    expm1,
    factorial,
    greatest,
    hash,
    hex,
    hypot,
    ilike,
    initcap,
    instr,
    least,
    left,
    length,
    levenshtein,
    like,
    ln,
    locate,
    log,
    log1p,
    log2,
    log10,
    lower,
    lpad,
    ltrim,
    max_horizontal,
    md5,
    min_horizontal,
    mod,
    nanvl,
    pmod,
    pow,
    power,
    radians,
    regexp_count,
    regexp_extract,
    regexp_extract_all,
    regexp_replace,
    repeat,
    reverse,
    right,
    rlike,
    rpad,
    rtrim,
    sha1,
    sha2,
    shiftleft,
    shiftright,
    shiftrightunsigned,
    sign,
    signum,
    sin,
    sinh,
    soundex,
    split_part,
    sqrt,
    sum_horizontal,
    tan,
    tanh,
    translate,
    trim,
    unbase64,
    unhex,
    upper,
    width_bucket,
)
from fabric.clients.dataframe.selection import by_names
from fabric.clients.dataframe.time_functions import (
    date_diff,
    date_format,
    date_from_unix_date,
    datediff,
    from_epoch,
    make_date,
    make_timestamp,
    timestamp_diff,
    timestamp_micros,
    timestamp_millis,
    timestamp_seconds,
    to_date,
    to_timestamp,
    try_to_timestamp,
)
from fabric.clients.dataframe.window_functions import (
    cume_dist,
    dense_rank,
    first_value,
    lag,
    last_value,
    lead,
    nth_value,
    ntile,
    percent_rank,
    rank,
    row_number,
)
from fabric.errors import PlanError
from fabric.plan import expr as plan

__all__ = [
    "acos",
    "acosh",
    "all",
    "all_horizontal",
    "any_horizontal",
    "any_value",
    "approx_count_distinct",
    "approx_distinct",
    "approx_n_unique",
    "approx_quantile",
    "array",
    "array_contains",
    "array_repeat",
    "arrays_zip",
    "ascii",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "avg",
    "base64",
    "bin",
    "bit_count",
    "bitwise_not",
    "bool_and",
    "bool_or",
    "bround",
    "cbrt",
    "chr",
    "coalesce",
    "col",
    "collect_list",
    "concat_list",
    "concat_str",
    "concat_ws",
    "corr",
    "cos",
    "cosh",
    "cot",
    "count",
    "count_distinct",
    "count_if",
    "covar_pop",
    "covar_samp",
    "crc32",
    "cume_dist",
    "date_diff",
    "date_format",
    "date_from_unix_date",
    "datediff",
    "degrees",
    "dense_rank",
    "div",
    "every",
    "exclude",
    "exp",
    "expm1",
    "factorial",
    "first",
    "first_value",
    "from_epoch",
    "greatest",
    "grouping",
    "grouping_id",
    "hash",
    "hex",
    "hypot",
    "ilike",
    "initcap",
    "instr",
    "kurtosis",
    "lag",
    "last",
    "last_value",
    "lead",
    "least",
    "left",
    "len",
    "length",
    "levenshtein",
    "like",
    "list_repeat",
    "list_zip",
    "lit",
    "ln",
    "locate",
    "log",
    "log1p",
    "log2",
    "log10",
    "lower",
    "lpad",
    "ltrim",
    "make_date",
    "make_timestamp",
    "max",
    "max_by",
    "max_horizontal",
    "md5",
    "mean",
    "median",
    "min",
    "min_by",
    "min_horizontal",
    "mod",
    "n_unique",
    "nanvl",
    "nth_value",
    "ntile",
    "percent_rank",
    "percentile",
    "percentile_approx",
    "pmod",
    "pow",
    "power",
    "quantile",
    "radians",
    "rank",
    "regexp_count",
    "regexp_extract",
    "regexp_extract_all",
    "regexp_replace",
    "repeat",
    "reverse",
    "right",
    "rlike",
    "row_number",
    "rpad",
    "rtrim",
    "sequence",
    "sha1",
    "sha2",
    "shiftleft",
    "shiftright",
    "shiftrightunsigned",
    "sign",
    "signum",
    "sin",
    "sinh",
    "skewness",
    "some",
    "soundex",
    "split_part",
    "sqrt",
    "std",
    "std_pop",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "struct",
    "sum",
    "sum_horizontal",
    "tan",
    "tanh",
    "timestamp_diff",
    "timestamp_micros",
    "timestamp_millis",
    "timestamp_seconds",
    "to_date",
    "to_timestamp",
    "translate",
    "trim",
    "try_to_timestamp",
    "unbase64",
    "unhex",
    "upper",
    "var",
    "var_pop",
    "var_samp",
    "variance",
    "when",
    "width_bucket",
]  # fmt: skip


@overload
def col(name: str, /) -> Expr: ...
@overload
def col(name: str | list[str] | tuple[str, ...], /, *more: str) -> Any: ...
def col(name: Any, /, *more: str) -> Any:
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
    return by_names(names)


def all() -> Any:
    """Every column, for what is done to each of them: ``all().sum()``.

    >>> from fabric import DataFrame, all
    >>> DataFrame({"a": [1, 2], "b": [3, 4]}).select(all().exclude("a").max()).to_dicts()
    [{'b': 4}]
    """
    return selectors.all()


def exclude(*names: Any) -> Any:
    """Every column but `names`: texts, lists of them, selectors."""
    return selectors.exclude(*names)


def lit(value: Any, dtype: DTypeLike | None = None) -> Expr:
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


def coalesce(*columns: Any) -> Expr:
    """The first of `columns` that is not null; a text is a column, ``lit("x")`` is text."""
    return _call("coalesce", *map(_as_column, _flatten(columns)))


def grouping_id() -> Expr:
    """In ``agg`` of a rollup, a cube or grouping sets: a bit a key, set where it is left out.

    The first key has the highest bit, as in Spark.
    """
    return Expr(plan.Agg("grouping_id", None))


def grouping(column: Any) -> Expr:
    """In ``agg`` of a rollup, a cube or grouping sets: 1 where the key `column` is left out."""
    return Expr(plan.Agg("grouping", _as_column(column).node))


helpful_functions(globals())

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise no_function("fabric.functions", name, globals())
