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

MANY = 1 << 30


def registry_function(name: str, n_columns: int = 1) -> Callable[..., Expr]:
    """Registry function `name`; its first `n_columns` arguments are columns, others constants."""

    def function(*args: Any) -> Expr:
        columns = map(as_column, args[:n_columns])
        return call(name, *columns, *args[n_columns:])

    function.__name__, function.__qualname__ = name, name
    function.__doc__ = FUNCTIONS[name].doc
    return function


sqrt = registry_function("sqrt")
cbrt = registry_function("cbrt")
exp = registry_function("exp")
expm1 = registry_function("expm1")
ln = registry_function("ln")
log10 = registry_function("log10")
log2 = registry_function("log2")
log1p = registry_function("log1p")
sign = signum = registry_function("sign")
sin = registry_function("sin")
cos = registry_function("cos")
tan = registry_function("tan")
cot = registry_function("cot")
asin = registry_function("asin")
acos = registry_function("acos")
atan = registry_function("atan")
sinh = registry_function("sinh")
cosh = registry_function("cosh")
tanh = registry_function("tanh")
asinh = registry_function("asinh")
acosh = registry_function("acosh")
atanh = registry_function("atanh")
degrees = registry_function("degrees")
radians = registry_function("radians")
power = pow = registry_function("power", 2)
atan2 = registry_function("atan2", 2)
hypot = registry_function("hypot", 2)
pmod = registry_function("pmod", 2)
div = registry_function("floor_divide", 2)
mod = registry_function("modulo", 2)
factorial = registry_function("factorial")
bround = registry_function("bround")
width_bucket = registry_function("width_bucket")
greatest = max_horizontal = registry_function("greatest", MANY)
least = min_horizontal = registry_function("least", MANY)
hash = registry_function("hash", MANY)
bitwise_not = registry_function("bitwise_not")
bit_count = registry_function("bit_count")
shiftleft = registry_function("shift_left")
shiftright = registry_function("shift_right")
shiftrightunsigned = registry_function("shift_right_unsigned")

upper = registry_function("upper")
lower = registry_function("lower")
trim = registry_function("trim")
ltrim = registry_function("ltrim")
rtrim = registry_function("rtrim")
length = registry_function("length")
initcap = registry_function("initcap")
reverse = registry_function("reverse")
lpad = registry_function("lpad")
rpad = registry_function("rpad")
repeat = registry_function("repeat")
translate = registry_function("translate")
instr = registry_function("instr")
split_part = registry_function("split_part")
levenshtein = registry_function("levenshtein", 2)
soundex = registry_function("soundex")
ascii = registry_function("ascii")
chr = registry_function("chr")
rlike = registry_function("regexp_contains")
like = registry_function("like")
ilike = registry_function("ilike")
regexp_extract = registry_function("regexp_extract")
regexp_extract_all = registry_function("regexp_extract_all")
regexp_replace = registry_function("regexp_replace")
regexp_count = registry_function("regexp_count")

base64 = registry_function("base64")
unbase64 = registry_function("unbase64")
hex = registry_function("hex")
unhex = registry_function("unhex")
bin = registry_function("bin")
md5 = registry_function("md5")
sha1 = registry_function("sha1")
sha2 = registry_function("sha2")
crc32 = registry_function("crc32")


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
