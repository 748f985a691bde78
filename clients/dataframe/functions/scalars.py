"""Functions of numbers, strings and bytes by PySpark's names: ``F.sqrt("x")``, ``F.md5("name")``.

One job: methods of expressions as functions over columns (`function_of`), and functions that are no
method. The arguments that are columns may be their names; patterns, units, numbers of digits and
the like are constants.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import reduce
from typing import Any, Concatenate, ParamSpec, TypeVar

from fabric.clients.dataframe.arguments import flatten
from fabric.clients.dataframe.expressions.expr import Expr, as_column, call, when
from fabric.clients.dataframe.expressions.types import IntoExpr, ManyColumns
from fabric.clients.dataframe.methods.strings import StringMethods
from fabric.plan.functions import FUNCTIONS

__all__ = [
    "acos", "acosh", "all_horizontal", "any_horizontal", "ascii", "asin", "asinh", "atan", "atan2",
    "atanh", "base64", "bin", "bit_count", "bitwise_not", "bround", "cbrt", "chr", "concat_str",
    "concat_ws", "cos", "cosh", "cot", "crc32", "degrees", "div", "exp", "expm1", "factorial",
    "greatest", "hash", "hex", "hypot", "ilike", "initcap", "instr", "least", "left", "length",
    "levenshtein", "like", "ln", "locate", "log", "log1p", "log2", "log10", "lower", "lpad",
    "ltrim", "max_horizontal", "md5", "min_horizontal", "mod", "nanvl", "pmod", "pow", "power",
    "radians", "regexp_count", "regexp_extract", "regexp_extract_all", "regexp_replace", "repeat",
    "reverse", "right", "rlike", "rpad", "rtrim", "sha1", "sha2", "shiftleft", "shiftright",
    "shiftrightunsigned", "sign", "signum", "sin", "sinh", "soundex", "split_part", "sqrt",
    "sum_horizontal", "tan", "tanh", "translate", "trim", "unbase64", "unhex", "upper",
    "width_bucket",
]  # fmt: skip

MANY = 1 << 30
Space = TypeVar("Space")
Rest = ParamSpec("Rest")
Strings = StringMethods[Expr]


def function_of(
    method: Callable[Concatenate[Space, Rest], Expr],
    space: Callable[[Expr], Space],
    name: str = "",
    n_columns: int = 1,
) -> Callable[Concatenate[IntoExpr, Rest], Expr]:
    """A method of expressions, or of what `space` makes of one, as a function of a column.

    Of its first `n_columns` arguments a text is the column of that name.

    >>> function_of(StringMethods[Expr].upper, StringMethods[Expr])("name")
    col("name").str.upper()
    """
    inner: Callable[..., Expr] = inspect.unwrap(method)
    known = inspect.signature(inner)
    subject, *others = known.parameters.values()
    subject = subject.replace(name="column", annotation="IntoExpr")
    signature = known.replace(parameters=[subject, *others], return_annotation="Expr")

    def _function(*args: Any, **named: Any) -> Expr:
        try:
            given = signature.bind(*args, **named)
        except TypeError as error:
            raise TypeError(f"{_function.__name__}() {error}") from None
        column, *rest = given.args
        columns = [as_column(arg) for arg in rest[: n_columns - 1]]
        return inner(space(as_column(column)), *columns, *rest[n_columns - 1 :], **given.kwargs)

    _function.__name__ = _function.__qualname__ = name or inner.__name__
    _function.__doc__ = inner.__doc__
    _function.__signature__ = signature  # type: ignore[attr-defined]
    return _function


def itself(column: Expr) -> Expr:
    """The space of methods that expressions have themselves."""
    return column


def of_column(name: str) -> Callable[[IntoExpr], Expr]:
    """Registry function `name` of one column, which is no method.

    >>> of_column("md5")("name")
    md5(col("name"))
    """

    def function(column: IntoExpr) -> Expr:
        return call(name, as_column(column))

    function.__name__, function.__qualname__ = name, name
    function.__doc__ = FUNCTIONS[name].doc
    return function


sqrt = function_of(Expr.sqrt, itself)
cbrt = function_of(Expr.cbrt, itself)
exp = function_of(Expr.exp, itself)
expm1 = function_of(Expr.expm1, itself)
ln = function_of(Expr.ln, itself)
log10 = function_of(Expr.log10, itself)
log2 = function_of(Expr.log2, itself)
log1p = function_of(Expr.log1p, itself)
sign = signum = function_of(Expr.sign, itself)
sin = function_of(Expr.sin, itself)
cos = function_of(Expr.cos, itself)
tan = function_of(Expr.tan, itself)
cot = function_of(Expr.cot, itself)
asin = function_of(Expr.asin, itself)
acos = function_of(Expr.acos, itself)
atan = function_of(Expr.atan, itself)
sinh = function_of(Expr.sinh, itself)
cosh = function_of(Expr.cosh, itself)
tanh = function_of(Expr.tanh, itself)
asinh = function_of(Expr.asinh, itself)
acosh = function_of(Expr.acosh, itself)
atanh = function_of(Expr.atanh, itself)
degrees = function_of(Expr.degrees, itself)
radians = function_of(Expr.radians, itself)
factorial = function_of(Expr.factorial, itself)
bround = function_of(Expr.bround, itself)
width_bucket = function_of(Expr.width_bucket, itself)
bitwise_not = function_of(Expr.bitwise_not, itself)
bit_count = function_of(Expr.bit_count, itself)
atan2 = function_of(Expr.atan2, itself, n_columns=2)
hypot = function_of(Expr.hypot, itself, n_columns=2)
pmod = function_of(Expr.pmod, itself, n_columns=2)
hash = function_of(Expr.hash, itself, n_columns=MANY)
shiftleft = function_of(Expr.shift_left, itself, "shiftleft")
shiftright = function_of(Expr.shift_right, itself, "shiftright")
shiftrightunsigned = function_of(Expr.shift_right_unsigned, itself, "shiftrightunsigned")

upper = function_of(Strings.upper, Strings)
lower = function_of(Strings.lower, Strings)
trim = function_of(Strings.trim, Strings)
ltrim = function_of(Strings.ltrim, Strings)
rtrim = function_of(Strings.rtrim, Strings)
length = function_of(Strings.length, Strings)
initcap = function_of(Strings.initcap, Strings)
reverse = function_of(Strings.reverse, Strings)
lpad = function_of(Strings.lpad, Strings)
rpad = function_of(Strings.rpad, Strings)
repeat = function_of(Strings.repeat, Strings)
translate = function_of(Strings.translate, Strings)
instr = function_of(Strings.instr, Strings)
split_part = function_of(Strings.split_part, Strings)
soundex = function_of(Strings.soundex, Strings)
rlike = function_of(Strings.rlike, Strings)
like = function_of(Strings.like, Strings)
ilike = function_of(Strings.ilike, Strings)
regexp_extract = function_of(Strings.regexp_extract, Strings)
regexp_extract_all = function_of(Strings.regexp_extract_all, Strings)
regexp_replace = function_of(Strings.regexp_replace, Strings)
regexp_count = function_of(Strings.regexp_count, Strings)
levenshtein = function_of(Strings.levenshtein, Strings, n_columns=2)

ascii = of_column("ascii")
chr = of_column("chr")
base64 = of_column("base64")
unbase64 = of_column("unbase64")
hex = of_column("hex")
unhex = of_column("unhex")
bin = of_column("bin")
md5 = of_column("md5")
sha1 = of_column("sha1")
crc32 = of_column("crc32")


def power(column: IntoExpr, exponent: IntoExpr) -> Expr:
    """The column to the power of `exponent`, always a float64; ``**`` keeps integers.

    >>> from fabric import DataFrame
    >>> DataFrame({"x": [3, None]}).select(power("x", 2).alias("x")).to_dicts()
    [{'x': 9.0}, {'x': None}]
    """
    return call("power", as_column(column), as_column(exponent))


def div(column: IntoExpr, divisor: IntoExpr) -> Expr:
    """The quotient, truncated to an int64; a divisor of 0 is an error.

    >>> from fabric import DataFrame
    >>> DataFrame({"x": [7, -7]}).select(div("x", 2).alias("x")).to_dicts()
    [{'x': 3}, {'x': -3}]
    """
    return call("floor_divide", as_column(column), as_column(divisor))


def mod(column: IntoExpr, divisor: IntoExpr) -> Expr:
    """The remainder with the sign of the column; a divisor of 0 is an error.

    >>> from fabric import DataFrame
    >>> DataFrame({"x": [7, -7]}).select(mod("x", 4).alias("x")).to_dicts()
    [{'x': 3}, {'x': -3}]
    """
    return call("modulo", as_column(column), as_column(divisor))


def greatest(*columns: IntoExpr) -> Expr:
    """The largest of two or more columns, nulls left out; NaN is larger than all numbers.

    Null where all are. `PlanError` of one column, or where their types have none in common.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"a": [1, None], "b": [2, 3]})
    >>> df.select(greatest("a", "b").alias("high")).to_dicts()
    [{'high': 2}, {'high': 3}]
    """
    return call("greatest", *map(as_column, columns))


def least(*columns: IntoExpr) -> Expr:
    """The smallest of two or more columns, nulls left out; see `greatest`.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"a": [1, None], "b": [2, 3]})
    >>> df.select(least("a", "b").alias("low")).to_dicts()
    [{'low': 1}, {'low': 3}]
    """
    return call("least", *map(as_column, columns))


def sha2(column: IntoExpr, bits: int) -> Expr:
    """The SHA-2 digest of 224, 256, 384 or 512 `bits` in hexadecimal; 0 means 256.

    Of texts and bytes. `PlanError` of another number of bits.

    >>> from fabric import DataFrame
    >>> DataFrame({"s": ["abc"]}).select(sha2("s", 256).str.left(8).alias("digest")).to_dicts()
    [{'digest': 'ba7816bf'}]
    """
    return call("sha2", as_column(column), bits)


def log(base: IntoExpr, column: IntoExpr = None) -> Expr:
    """The logarithm of `column` to `base`, or the natural one of the only argument.

    >>> log("x"), log(2, "x")
    (col("x").ln(), col("x").log(2))
    """
    return as_column(base).ln() if column is None else call("log", base, as_column(column))


def nanvl(column: IntoExpr, other: IntoExpr) -> Expr:
    """The first column, or the second where the first is NaN.

    >>> nanvl("x", 0.0)
    when(~col("x").is_nan()).then(col("x")).otherwise(0.0)
    """
    return as_column(column).fill_nan(as_column(other))


def concat_ws(separator: str, *columns: IntoExpr) -> Expr:
    """The columns that are not null with `separator` between them; never null.

    >>> concat_ws("-", "a", "b")
    concat_ws(lit("-"), col("a"), col("b"))
    """
    return call("concat_ws", separator, *map(as_column, columns))


def concat_str(*columns: ManyColumns, separator: str = "", ignore_nulls: bool = False) -> Expr:
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


def all_horizontal(*columns: ManyColumns) -> Expr:
    """Whether all columns are true, as ``&`` has it.

    >>> all_horizontal("a", "b")
    col("a") & col("b")
    """
    return reduce(lambda a, b: a & b, map(as_column, flatten(columns)))


def any_horizontal(*columns: ManyColumns) -> Expr:
    """Whether one of the columns is true, as ``|`` has it: null where none is and one is null.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"a": [True, False], "b": [None, None]}).cast({"b": "bool"})
    >>> df.select(any_horizontal("a", "b").alias("any")).to_dicts()
    [{'any': True}, {'any': None}]
    """
    return reduce(lambda a, b: a | b, map(as_column, flatten(columns)))


def sum_horizontal(*columns: ManyColumns) -> Expr:
    """The sum of all columns, nulls left out; 0 when all are null.

    >>> from fabric import DataFrame
    >>> df = DataFrame({"a": [1, None], "b": [2, None]})
    >>> df.select(sum_horizontal("a", "b").alias("sum")).to_dicts()
    [{'sum': 3}, {'sum': 0}]
    """
    known = (as_column(column).fill_null(0) for column in flatten(columns))
    return reduce(lambda a, b: a + b, known)


def left(column: IntoExpr, n: IntoExpr) -> Expr:
    """The first `n` characters; none below 1.

    >>> from fabric import DataFrame
    >>> DataFrame({"s": ["fabric"]}).select(left("s", 3).alias("s")).to_dicts()
    [{'s': 'fab'}]
    """
    return call("substring", as_column(column), 1, n)


def right(column: IntoExpr, n: IntoExpr) -> Expr:
    """The last `n` characters; none below 1.

    >>> from fabric import DataFrame
    >>> DataFrame({"s": ["fabric"]}).select(right("s", 3).alias("s")).to_dicts()
    [{'s': 'ric'}]
    """
    if isinstance(n, int):
        return as_column(column).str.right(n)
    last = call("substring", as_column(column), -as_column(n), as_column(n))
    return when(as_column(n) > 0).then(last).otherwise(call("substring", as_column(column), 1, 0))


def locate(text: str, column: IntoExpr) -> Expr:
    """Where `text` begins in a column, counted from 1; 0 when it does not occur, null of null.

    >>> from fabric import DataFrame
    >>> DataFrame({"s": ["fabric", "x", None]}).select(locate("b", "s").alias("at")).to_dicts()
    [{'at': 3}, {'at': 0}, {'at': None}]
    """
    return call("instr", as_column(column), text)


pow = power
max_horizontal = greatest
min_horizontal = least
