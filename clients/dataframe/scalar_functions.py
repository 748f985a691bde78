"""Functions of numbers, strings and bytes by PySpark's names: ``F.sqrt("x")``, ``F.md5("name")``.

One job: the registry's functions over columns. The arguments that are columns may be their names;
patterns, units, numbers of digits and the like are constants.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from fabric.clients.dataframe.arguments import flatten
from fabric.clients.dataframe.conditions import when
from fabric.clients.dataframe.expr import Expr, as_column, call
from fabric.plan.functions import FUNCTIONS

_MANY = 1 << 30


def _function(name: str, n_columns: int = 1) -> Callable[..., Expr]:
    """Registry function `name`; its first `n_columns` arguments are columns, others constants."""

    def function(*args: Any) -> Expr:
        columns = map(as_column, args[:n_columns])
        return call(name, *columns, *args[n_columns:])

    function.__name__, function.__qualname__ = name, name
    function.__doc__ = FUNCTIONS[name].doc
    return function


sqrt = _function("sqrt")
cbrt = _function("cbrt")
exp = _function("exp")
expm1 = _function("expm1")
ln = _function("ln")
log10 = _function("log10")
log2 = _function("log2")
log1p = _function("log1p")
sign = signum = _function("sign")
sin = _function("sin")
cos = _function("cos")
tan = _function("tan")
cot = _function("cot")
asin = _function("asin")
acos = _function("acos")
atan = _function("atan")
sinh = _function("sinh")
cosh = _function("cosh")
tanh = _function("tanh")
asinh = _function("asinh")
acosh = _function("acosh")
atanh = _function("atanh")
degrees = _function("degrees")
radians = _function("radians")
power = pow = _function("power", 2)
atan2 = _function("atan2", 2)
hypot = _function("hypot", 2)
pmod = _function("pmod", 2)
div = _function("floor_divide", 2)
mod = _function("modulo", 2)
factorial = _function("factorial")
bround = _function("bround")
width_bucket = _function("width_bucket")
greatest = max_horizontal = _function("greatest", _MANY)
least = min_horizontal = _function("least", _MANY)
hash = _function("hash", _MANY)
bitwise_not = _function("bitwise_not")
bit_count = _function("bit_count")
shiftleft = _function("shift_left")
shiftright = _function("shift_right")
shiftrightunsigned = _function("shift_right_unsigned")

upper = _function("upper")
lower = _function("lower")
trim = _function("trim")
ltrim = _function("ltrim")
rtrim = _function("rtrim")
length = _function("length")
initcap = _function("initcap")
reverse = _function("reverse")
lpad = _function("lpad")
rpad = _function("rpad")
repeat = _function("repeat")
translate = _function("translate")
instr = _function("instr")
split_part = _function("split_part")
levenshtein = _function("levenshtein", 2)
soundex = _function("soundex")
ascii = _function("ascii")
chr = _function("chr")
rlike = _function("regexp_contains")
like = _function("like")
ilike = _function("ilike")
regexp_extract = _function("regexp_extract")
regexp_extract_all = _function("regexp_extract_all")
regexp_replace = _function("regexp_replace")
regexp_count = _function("regexp_count")

base64 = _function("base64")
unbase64 = _function("unbase64")
hex = _function("hex")
unhex = _function("unhex")
bin = _function("bin")
md5 = _function("md5")
sha1 = _function("sha1")
sha2 = _function("sha2")
crc32 = _function("crc32")


def log(base: Any, column: Any = None) -> Expr:
    """The logarithm of `column` to `base`, or the natural one of the only argument.

    >>> log("x"), log(2, "x")
    (col("x").ln(), col("x").log(2))
    """
    return as_column(base).ln() if column is None else call("log", base, as_column(column))


def nanvl(column: Any, other: Any) -> Expr:
    """The first column, or the second where the first is NaN.

    >>> nanvl("x", 0.0)
    when(~col("x").is_nan()).then(col("x")).otherwise(0.0)
    """
    return as_column(column).fill_nan(as_column(other))


def concat_ws(separator: str, *columns: Any) -> Expr:
    """The columns that are not null with `separator` between them; never null.

    >>> concat_ws("-", "a", "b")
    concat_ws(lit("-"), col("a"), col("b"))
    """
    return call("concat_ws", separator, *map(as_column, columns))


def concat_str(*columns: Any, separator: str = "", ignore_nulls: bool = False) -> Expr:
    """Strings with `separator` between them; null when one is null, unless `ignore_nulls`.

    >>> concat_str("a", "b", separator="-")
    col("a").str.concat("-", col("b"))
    """
    parts = [as_column(column) for column in flatten(columns)]
    if ignore_nulls:
        return call("concat_ws", separator, *parts)
    if not separator:
        return call("concat", *parts)
    joined = [part for column in parts for part in (separator, column)]
    return call("concat", *joined[1:])


def all_horizontal(*columns: Any) -> Expr:
    """Whether all columns are true, as ``&`` has it.

    >>> all_horizontal("a", "b")
    col("a") & col("b")
    """
    return reduce(lambda a, b: a & b, map(as_column, flatten(columns)))


def any_horizontal(*columns: Any) -> Expr:
    """Whether one of the columns is true, as ``|`` has it."""
    return reduce(lambda a, b: a | b, map(as_column, flatten(columns)))


def sum_horizontal(*columns: Any) -> Expr:
    """The sum of all columns, nulls left out; 0 when all are null."""
    known = (as_column(column).fill_null(0) for column in flatten(columns))
    return reduce(lambda a, b: a + b, known)


def left(column: Any, n: Any) -> Expr:
    """The first `n` characters; none below 1."""
    return call("substring", as_column(column), 1, n)


def right(column: Any, n: Any) -> Expr:
    """The last `n` characters; none below 1."""
    if isinstance(n, int):
        return as_column(column).str.right(n)
    last = call("substring", as_column(column), -as_column(n), as_column(n))
    return when(as_column(n) > 0).then(last).otherwise(call("substring", as_column(column), 1, 0))


def locate(text: str, column: Any) -> Expr:
    """Where `text` begins in a column, counted from 1; 0 when it does not occur."""
    return call("instr", as_column(column), text)
