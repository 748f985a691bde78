"""The registry's functions in DuckDB SQL with Spark's meaning.

One job: one template a function, over arguments that are already cast to the signature's types.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyarrow import types as t

from tests.support.duckdb import mathematics, nested, texts, times
from tests.support.duckdb.call import Args, Builders, Literals, Signature
from tests.support.duckdb.numbers import half_up, quotient, rescaled, scaled, unscaled

_TEMPLATES: dict[str, str] = {
    "eq": "({0} = {1})", "ne": "({0} <> {1})", "lt": "({0} < {1})", "le": "({0} <= {1})",
    "gt": "({0} > {1})", "ge": "({0} >= {1})", "eq_null_safe": "({0} IS NOT DISTINCT FROM {1})",
    "and": "({0} AND {1})", "or": "({0} OR {1})", "not": "(NOT {0})",
    "is_null": "({0} IS NULL)", "is_not_null": "({0} IS NOT NULL)",
    "is_nan": "coalesce(isnan({0}), FALSE)",
    "negate": "(-{0})", "abs": "abs({0})",
    "upper": "upper({0})", "lower": "lower({0})",
    "contains": "contains({0}, {1})", "starts_with": "starts_with({0}, {1})",
    "ends_with": "ends_with({0}, {1})", "replace": "replace({0}, {1}, {2})",
    "year": "year({0})", "month": "month({0})", "day": "day({0})", "hour": "hour({0})",
    "minute": "minute({0})", "second": "second({0})", "day_of_week": "(dayofweek({0}) + 1)",
    "date_trunc": "date_trunc({0}, {1})", **times.TEMPLATES, **nested.TEMPLATES,
    **texts.TEMPLATES, **mathematics.TEMPLATES,
}  # fmt: skip
_INTERVALS = {
    "microsecond": "to_microseconds({0})", "millisecond": "to_milliseconds({0})",
    "second": "to_seconds({0})", "minute": "to_minutes({0})", "hour": "to_hours({0})",
    "day": "to_days(CAST({0} AS INTEGER))", "week": "to_days(CAST({0} * 7 AS INTEGER))",
    "month": "to_months(CAST({0} AS INTEGER))", "quarter": "to_months(CAST({0} * 3 AS INTEGER))",
    "year": "to_months(CAST({0} * 12 AS INTEGER))",
}  # fmt: skip
_PATTERN = (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))


def call_sql(name: str, args: Args, types: Signature, literals: Literals) -> str:
    """One call; raises `ValueError` for a function that has no translation."""
    if name in _TEMPLATES:
        return _TEMPLATES[name].format(*args)
    if name not in _BUILT:
        raise ValueError(f"no SQL for the function {name}")
    return _BUILT[name](args, types, literals)


def _checked(divisor: str, dividend: str, result: str) -> str:
    """`result`, or Spark's error when the divisor is zero and the dividend is not null."""
    zero = f"{divisor} = 0 AND {dividend} IS NOT NULL"
    return f"CASE WHEN {zero} THEN error('division by zero') ELSE {result} END"


def _wholes(args: Args, types: Signature) -> tuple[str, str, int]:
    """Two decimals as whole numbers of one scale."""
    scale = max(dtype.scale for dtype in types.args)
    a, b = (
        f"({unscaled(arg, dtype.scale)} * {10 ** (scale - dtype.scale)}::HUGEINT)"
        for arg, dtype in zip(args, types.args, strict=True)
    )
    return a, b, scale


def _sum(sign: str) -> Callable[[Args, Signature, Literals], str]:
    def build(args: Args, types: Signature, _: Literals) -> str:
        if not t.is_decimal(types.result):
            return f"({args[0]} {sign} {args[1]})"
        a, b, scale = _wholes(args, types)
        return rescaled(f"({a} {sign} {b})", scale, types.result)

    return build


def _multiply(args: Args, types: Signature, _: Literals) -> str:
    if not t.is_decimal(types.result):
        return f"({args[0]} * {args[1]})"
    scales = [dtype.scale for dtype in types.args]
    a, b = (unscaled(arg, scale) for arg, scale in zip(args, scales, strict=True))
    return rescaled(f"({a} * {b})", sum(scales), types.result)


def _divide(args: Args, types: Signature, _: Literals) -> str:
    a, b = args
    if not t.is_decimal(types.result):
        return _checked(b, a, f"({a} / {b})")
    left, right = types.args
    shift = types.result.scale - left.scale + right.scale
    numerator, denominator = unscaled(a, left.scale), unscaled(b, right.scale)
    if shift >= 0:
        numerator = f"({numerator} * {10**shift}::HUGEINT)"
    else:
        denominator = f"({denominator} * {10**-shift}::HUGEINT)"
    return _checked(b, a, quotient(numerator, denominator, types.result))


def _floor_divide(args: Args, types: Signature, _: Literals) -> str:
    a, b = args
    if not t.is_decimal(types.args[0]):
        return _checked(b, a, f"({a} // {b})")
    left, right, _scale = _wholes(args, types)
    return _checked(b, a, f"CAST({left} // {right} AS BIGINT)")


def _modulo(args: Args, types: Signature, _: Literals) -> str:
    a, b = args
    if not t.is_decimal(types.result):
        return _checked(b, a, f"({a} % {b})")
    left, right, scale = _wholes(args, types)
    return _checked(b, a, rescaled(f"({left} % {right})", scale, types.result))


def _floored(args: Args, types: Signature, _: Literals) -> str:
    """The integers' floored quotient: one less than the truncated where the signs differ."""
    a, b = args
    if not t.is_integer(types.args[0]):
        raise ValueError("no SQL for a floor_quotient of other than integers")
    return _checked(b, a, f"(({a} // {b}) - CAST(sign({a} % {b}) * sign({b}) < 0 AS TINYINT))")


def _floor_remainder(args: Args, types: Signature, _: Literals) -> str:
    a, b = args
    if not t.is_integer(types.args[0]):
        raise ValueError("no SQL for a floor_remainder of other than integers")
    moved = f"CASE WHEN sign({a} % {b}) * sign({b}) < 0 THEN {b} ELSE 0 END"
    return _checked(b, a, f"(({a} % {b}) + {moved})")


def _exact_power(args: Args, types: Signature, _: Literals) -> str:
    """The product of so many factors; a power of DuckDB's is a float."""
    a, b = args
    if not t.is_integer(types.result):
        raise ValueError("no SQL for an exact_power of other than integers")
    factors = f"list_concat([1::HUGEINT], list_transform(range({b}), lambda x: {a}::HUGEINT))"
    product = f"list_reduce({factors}, lambda x, y: x * y)"
    return f"CASE WHEN {a} IS NOT NULL AND {b} IS NOT NULL THEN CAST({product} AS BIGINT) END"


def _round(args: Args, types: Signature, literals: Literals) -> str:
    digits = 0
    if len(args) == 2:
        literal = literals[1]
        if literal is None or literal.value is None:
            raise ValueError("no SQL for a round without its digits")
        digits = int(literal.value)
    value, dtype = args[0], types.args[0]
    if t.is_integer(dtype):
        if digits >= 0:
            return value
        unit = f"{10**-digits}::HUGEINT"
        return f"CAST({half_up(f'CAST({value} AS HUGEINT)', unit)} * {unit} AS {_name(dtype)})"
    if t.is_floating(dtype):
        exact = f"CAST(CAST(CAST({value} AS DOUBLE) AS VARCHAR) AS DECIMAL(38,18))"
        rounded = _round_whole(unscaled(exact, 18), 18, digits, pa.decimal128(38, max(0, digits)))
        return f"CASE WHEN isfinite({value}) THEN CAST({rounded} AS DOUBLE) ELSE {value} END"
    return _round_whole(unscaled(value, dtype.scale), dtype.scale, digits, types.result)


def _round_whole(whole: str, scale: int, digits: int, result: pa.DataType) -> str:
    """A whole number of `scale` fraction digits rounded to `digits`, as decimal `result`."""
    if digits >= scale:
        return rescaled(whole, scale, result)
    cut = half_up(whole, f"{10 ** (scale - digits)}::HUGEINT")
    up = f"({cut} * {10**-digits}::HUGEINT)" if digits < 0 else cut
    return scaled(up, pa.decimal128(result.precision, max(0, digits)))


def _name(dtype: pa.DataType) -> str:
    from tests.support.duckdb.types import type_sql

    return type_sql(dtype)


def _whole_number(function: str) -> Callable[[Args, Signature, Literals], str]:
    """floor and ceil."""

    def build(args: Args, types: Signature, _: Literals) -> str:
        return f"CAST({function}({args[0]}) AS {_name(types.result)})"

    return build


def _coalesce(args: Args, _: Signature, __: Literals) -> str:
    return f"coalesce({', '.join(args)})"


def _concat(args: Args, _: Signature, __: Literals) -> str:
    return f"({' || '.join(args)})"


def _length(args: Args, types: Signature, _: Literals) -> str:
    function = "length" if types.args[0].equals(pa.string()) else "octet_length"
    return f"{function}({args[0]})"


def _substring(args: Args, _: Signature, __: Literals) -> str:
    """From `begin` (counted from 0) to `end`, both cut to the string, as Spark does."""
    text, start = args[0], f"CAST({args[1]} AS BIGINT)"
    begin = (
        f"CASE WHEN {start} > 0 THEN {start} - 1 WHEN {start} < 0 THEN length({text}) + {start} "
        f"ELSE 0 * {start} END"
    )
    if len(args) == 2:
        return f"substring({text}, greatest({begin}, 0) + 1)"
    length = f"greatest(({begin}) + CAST({args[2]} AS BIGINT) - greatest({begin}, 0), 0)"
    cut = f"substring({text}, greatest({begin}, 0) + 1, {length})"
    return f"CASE WHEN {start} IS NULL OR {args[2]} IS NULL THEN NULL ELSE {cut} END"


def _to_timestamp(args: Args, _: Signature, literals: Literals) -> str:
    if len(args) == 1:
        return f"CAST({args[0]} AS TIMESTAMP)"
    literal = literals[1]
    if literal is None or literal.value is None:
        raise ValueError("no SQL for a to_timestamp without its pattern")
    pattern = str(literal.value)
    for spark, duck in _PATTERN:
        pattern = pattern.replace(spark, duck)
    return f"strptime({args[0]}, '{pattern}')"


def _to_date(args: Args, types: Signature, literals: Literals) -> str:
    value = args[0] if len(args) == 1 else _to_timestamp(args, types, literals)
    return f"CAST({value} AS DATE)"


def _add_interval(args: Args, _: Signature, literals: Literals) -> str:
    literal = literals[2]
    if literal is None or literal.value is None:
        raise ValueError("no SQL for an add_interval without its unit")
    return f"({args[0]} + {_INTERVALS[literal.value].format(args[1])})"


_BUILT: Builders = {
    "add": _sum("+"), "subtract": _sum("-"), "multiply": _multiply, "divide": _divide,
    "floor_divide": _floor_divide, "modulo": _modulo, "floor_quotient": _floored,
    "floor_remainder": _floor_remainder, "exact_power": _exact_power, "round": _round,
    "floor": _whole_number("floor"), "ceil": _whole_number("ceil"),
    "coalesce": _coalesce, "concat": _concat, "length": _length, "substring": _substring,
    "to_date": _to_date, **times.BUILDERS, **nested.BUILDERS,
    **texts.BUILDERS, **mathematics.BUILDERS,
    "to_timestamp": _to_timestamp, "add_interval": _add_interval,
}  # fmt: skip
