"""Which functions random expressions call, and with what: a table by the family they return.

One job: recipes. An argument is the name of a family, or makes a constant. Only what gives the same
bits everywhere is in `EXACT`: its values may be compared and grouped by. `CLOSE` are functions
whose last digit is open; nothing may look at their values but the final comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa

from fabric.plan.expr import Expr, Literal

Argument = str | Callable[[Random], Expr]
Recipe = tuple[str, tuple[Argument, ...]]


def one_of(*values: Any, dtype: pa.DataType | None = None) -> Callable[[Random], Expr]:
    """A constant, one of `values`."""
    usual = {int: pa.int32(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    kind = usual[type(values[0])] if dtype is None else dtype
    return lambda rng: Literal(rng.choice(values), kind)


def recipe(function: str, *args: Argument) -> Recipe:
    """A call of `function`."""
    return function, args


_PATTERN = one_of("a", "[aA]", "^.", "b|c", "(J)(F)", "\\s", "x*", "[^a]$", "é")
_LIKE = one_of("%a%", "_", "a%", "%", "", "J_K", "%\\%b%")
_SEPARATOR = one_of("a", " ", ",", "FK", "é")
_FLAG = one_of(True, False)
_ZONE = one_of("UTC", "America/New_York", "Asia/Kolkata", "+02:00")
_UNIT = one_of("week", "month", "quarter", "year")
_MASK = one_of("yyyy-MM-dd", "HH:mm:ss", "dd.MM.yy", "yyyy-MM-dd'T'HH:mm:ss.SSS")
_PLACE = one_of(-3, -1, 1, 2)

EXACT: dict[str, tuple[Recipe, ...]] = {
    "boolean": (
        recipe("like", "string", _LIKE),
        recipe("ilike", "string", _LIKE),
        recipe("regexp_contains", "string", _PATTERN),
        recipe("pattern_contains", "string", one_of("[aA]", "^.", "b|c", "\\s", "x*", "[^a]$")),
        recipe("list_contains", "integers", "integer"),
        recipe("list_contains", "strings", "string"),
    ),
    "integer": (
        recipe("instr", "string", "string"),
        recipe("ascii", "string"),
        recipe("levenshtein", "string", "string"),
        recipe("regexp_count", "string", one_of("a", "[aA]", "b|c|é")),
        recipe("pattern_count", "string", one_of("a", "[aA]", "b|c|é")),
        recipe("bit_count", "integer"),
        recipe("bitwise_and", "integer", "integer"),
        recipe("bitwise_or", "integer", "integer"),
        recipe("bitwise_xor", "integer", "integer"),
        recipe("bitwise_not", "integer"),
        recipe("shift_left", "small", one_of(0, 1, 5, 11)),
        recipe("shift_right", "integer", one_of(0, 1, 5, 31)),
        recipe("shift_right_unsigned", "small", one_of(0, 1, 5)),
        recipe("pmod", "integer", one_of(-7, 2, 10)),
        recipe("floor_quotient", "integer", one_of(-7, 2, 10)),
        recipe("floor_remainder", "integer", one_of(-7, 2, 10)),
        recipe("exact_power", "small", one_of(0, 1, 2, 3)),
        recipe("greatest", "integer", "integer", "integer"),
        recipe("least", "integer", "integer"),
        recipe("round", "small", one_of(-1, 0, 1)),
        recipe("bround", "small", one_of(-1, 0)),
        recipe("quarter", "date"),
        recipe("week", "date"),
        recipe("weekday", "timestamp"),
        recipe("day_of_year", "date"),
        recipe("unix_date", "date"),
        recipe("date_diff", "date", "date"),
        recipe("unix_seconds", "timestamp"),
        recipe("unix_millis", "timestamp"),
        recipe("unix_micros", "timestamp"),
        recipe("millisecond", "timestamp"),
        recipe("microsecond", "timestamp"),
        recipe("nanosecond", "timestamp"),
        recipe("timestamp_diff", one_of("day", "hour", "second"), "timestamp", "timestamp"),
        recipe("list_len", "integers"),
        recipe("list_len", "strings"),
        recipe("list_get", "integers", one_of(-2, -1, 0, 1, 5)),
        recipe("list_position", "integers", "integer"),
        recipe("list_sum", "integers"),
        recipe("list_min", "integers"),
        recipe("list_max", "integers"),
        recipe("struct_field", "struct", one_of("a")),
        recipe("width_bucket", "float", one_of(-50.0), one_of(70.0), one_of(6, dtype=pa.int64())),
        recipe("factorial", one_of(-1, 0, 3, 9)),
        recipe("crc32", "string"),
        recipe("hash", "string", "integer", "boolean", "date"),
    ),
    "float": (
        recipe("sqrt", "float"),
        recipe("sign", "float"),
        recipe("greatest", "float", "float"),
        recipe("least", "float", "float"),
        recipe("round", "float", one_of(0, 1)),
        recipe("bround", "float", one_of(0, 1)),
        recipe("list_mean", "integers"),
    ),
    "decimal": (recipe("greatest", "decimal", "decimal"), recipe("least", "decimal", "decimal")),
    "string": (
        recipe("initcap", "string"),
        recipe("reverse", "string"),
        recipe("translate", "string", one_of("aAb", "é"), one_of("xy", "")),
        recipe("lpad", "string", one_of(0, 3, 5), one_of("*", "ab")),
        recipe("rpad", "string", one_of(0, 3, 5), one_of("*", "ab")),
        recipe("repeat", "string", one_of(-1, 0, 2)),
        recipe("split_part", "string", _SEPARATOR, _PLACE),
        recipe("regexp_extract", "string", one_of("(a)(.)", "([A-Z]+)(x)?"), one_of(0, 1, 2)),
        recipe(
            "regexp_replace", "string", one_of("a", "[aA]", "b|c", "é|\\s"), one_of("", "-", "<>")
        ),
        recipe("pattern_extract", "string", one_of("(a)(.)", "([A-Z]+)(x)?"), one_of(0)),
        recipe("pattern_replace", "string", one_of("a", "[aA]", "b|c", "é|\\s"), one_of("", "-")),
        recipe("pattern_replace_all", "string", one_of("[aA]", "b|c"), one_of("", "-", "<>")),
        recipe("concat_ws", one_of("-", ""), "string", "string"),
        recipe("greatest", "string", "string"),
        recipe("hex", "string"),
        recipe("hex", "integer"),
        recipe("bin", "small"),
        recipe("md5", "string"),
        recipe("sha1", "string"),
        recipe("sha2", "string", one_of(256, 512)),
        recipe("base64", "string"),
        recipe("soundex", "string"),
        recipe("chr", one_of(-1, 65, 97, 233)),
        recipe("date_format", "timestamp", _MASK),
        recipe("trim", "string", one_of("a", "aJ ", "")),
        recipe("ltrim", "string", one_of("a", "aJ ")),
        recipe("rtrim", "string", one_of("a", "aK ")),
        recipe("list_get", "strings", one_of(-2, -1, 0, 1, 5)),
        recipe("list_join", "strings", one_of("+", "")),
        recipe("list_max", "strings"),
        recipe("struct_field", "struct", one_of("b")),
    ),
    "date": (
        recipe("last_day", "date"),
        recipe("trunc", "date", _UNIT),
        recipe("next_day", "date", one_of("monday", "friday")),
        recipe("date_add", "date", "small"),
        recipe("add_months", "date", one_of(-13, -1, 0, 1, 12)),
        recipe("date_from_unix_date", "small"),
        recipe("greatest", "date", "date"),
        recipe("make_date", one_of(1999, 2012), one_of(2, 12), one_of(1, 28)),
    ),
    "timestamp": (
        recipe("timestamp_seconds", "small"),
        recipe("timestamp_millis", "small"),
        recipe("timestamp_micros", "small"),
        recipe("from_utc_timestamp", "timestamp", _ZONE),
        recipe("to_utc_timestamp", "timestamp", _ZONE),
        recipe("least", "timestamp", "timestamp"),
    ),
    "integers": (
        recipe("array", "integer", "integer"),
        recipe("array", "integer", "small", "integer"),
        recipe("sequence", one_of(-2, 0, 1), one_of(-1, 1, 3)),
        recipe("list_repeat", "integer", one_of(-1, 0, 2)),
        recipe("list_sort", "integers", _FLAG, _FLAG),
        recipe("list_unique", "integers"),
        recipe("list_reverse", "integers"),
        recipe("list_drop_nulls", "integers"),
        recipe("list_slice", "integers", _PLACE, one_of(0, 1, 2)),
        recipe("list_append", "integers", "integer"),
        recipe("list_prepend", "integers", "integer"),
        recipe("list_concat", "integers", "integers"),
        recipe("concat_list", "integers", "integer", "integers"),
        recipe("list_union", "integers", "integers"),
        recipe("list_intersect", "integers", "integers"),
        recipe("list_except", "integers", "integers"),
    ),
    "strings": (
        recipe("array", "string", "string"),
        recipe("split", "string", _SEPARATOR),
        recipe("split", "string", _SEPARATOR, one_of(2)),
        recipe("regexp_extract_all", "string", one_of("(a)|(b)", "[A-Z]"), one_of(0)),
        recipe("pattern_extract_all", "string", one_of("(a)|(b)", "[A-Z]")),
        recipe("list_sort", "strings", _FLAG, _FLAG),
        recipe("list_unique", "strings"),
        recipe("list_reverse", "strings"),
        recipe("list_slice", "strings", _PLACE, one_of(0, 1, 2)),
    ),
    "struct": (recipe("struct", one_of("a"), "integer", one_of("b"), "string"),),
}
"""By the family a call returns."""

_ANGLES = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
           "atanh", "cot", "degrees", "radians")  # fmt: skip
_POWERS = ("cbrt", "exp", "expm1", "ln", "log10", "log2", "log1p")
CLOSE: tuple[Recipe, ...] = (
    *(recipe(name, "float") for name in (*_ANGLES, *_POWERS)),
    recipe("power", "float", one_of(-1.5, 0.5, 3.0)),
    recipe("log", one_of(2.0, 10.0), "float"),
    recipe("atan2", "integer", one_of(1.5, -2.0)),
    recipe("hypot", "float", "float"),
    recipe("months_between", "timestamp", "date", _FLAG),
)

SELDOM = frozenset((
    "bround", "from_utc_timestamp", "to_utc_timestamp", "crc32", "soundex", "levenshtein", "hypot",
    "base64", "log1p", "expm1", "hash", "shift_left", "shift_right_unsigned", "initcap",
    "date_format", "width_bucket",
))  # fmt: skip
"""Functions without a translation for DuckDB: most plans go without them, so that it can judge."""
