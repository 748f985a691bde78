"""Arithmetic and rounding: add … abs, pmod, exact_power, round, bround, floor, ceil.

One job: their types, which are Spark's in ANSI mode. Integers widen to the wider; an integer with a
float32 is float64; decimals follow Spark's precision rules; ``/`` of integers is float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Literal
from fabric.plan.functions.epochs import with_times
from fabric.plan.functions.registry import Arguments, Function, Rule, Signature, wrong_type
from fabric.plan.types import (
    MAX_PRECISION,
    adjusted,
    as_decimal,
    bounded,
    common_number,
    is_string,
    numeric,
    plain,
    product_digits,
    sum_digits,
)

SIGNED_DIGITS_MAX = 34
"""Spark keeps so many digits of a decimal when it changes its sign."""

DecimalRule = Callable[[pa.DataType, pa.DataType], pa.DataType]


def _numbers(args: Arguments) -> list[pa.DataType]:
    """The arguments as number types; null takes the type of the other, float64 when alone."""
    known = [None if t.is_null(plain(dtype)) else numeric(dtype) for dtype in args.types]
    other = next((n for n in known if n is not None), pa.float64())
    for index, (number, dtype) in enumerate(zip(known, args.types, strict=True)):
        if number is None and not t.is_null(plain(dtype)):
            raise wrong_type(args.name, index, dtype, "numbers", other)
    return [other if number is None else number for number in known]


def _as_operand(dtype: pa.DataType, literal: Literal | None) -> pa.DataType:
    """An integer beside a decimal; a constant counts with the digits it has, as in Spark."""
    if t.is_integer(dtype) and literal is not None and isinstance(literal.value, int):
        return pa.decimal128(len(str(abs(literal.value))), 0)
    return as_decimal(dtype)


def _decimals(left: pa.DataType, right: pa.DataType, args: Arguments) -> list[pa.DataType] | None:
    """Both operands as decimals when one is and none is a float, else None."""
    pair = (left, right)
    if any(map(t.is_floating, pair)) or not any(map(t.is_decimal, pair)):
        return None
    return [_as_operand(d, lit) for d, lit in zip(pair, args.literals, strict=True)]


def _add(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(a.scale, b.scale)
    return adjusted(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def _multiply(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    return adjusted(a.precision + b.precision + 1, a.scale + b.scale)


def _divide(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(6, a.scale + b.precision + 1)
    return adjusted(a.precision - a.scale + b.scale + scale, scale)


def _modulo(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(a.scale, b.scale)
    return adjusted(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def _binary(decimal: DecimalRule) -> Rule:
    """``+ - * %``: the wider of both; ``+`` of two texts is one after the other."""

    def rule(args: Arguments) -> Signature:
        if (of_times := with_times(args)) is not None:
            return of_times
        if args.name == "add" and any(is_string(plain(dtype)) for dtype in args.types):
            return _joined(args)
        left, right = _numbers(args)
        if pair := _decimals(left, right, args):
            return Signature(tuple(pair), decimal(*pair))
        common = common_number(left, right)
        return Signature((common, common), common)

    return rule


def _joined(args: Arguments) -> Signature:
    """A text beside a text or null."""
    for index, dtype in enumerate(args.types):
        if not (is_string(dtype) or t.is_null(plain(dtype))):
            raise wrong_type("add", index, dtype, "two numbers or two texts", pa.string())
    return Signature((pa.string(), pa.string()), pa.string())


def _fraction(args: Arguments) -> Signature:
    left, right = _numbers(args)
    if pair := _decimals(left, right, args):
        return Signature(tuple(pair), _divide(*pair))
    return Signature((pa.float64(), pa.float64()), pa.float64())


def _whole(args: Arguments) -> Signature:
    left, right = _numbers(args)
    for index, dtype in enumerate((left, right)):
        if t.is_floating(dtype) and not t.is_null(args.types[index]):
            raise wrong_type("floor_divide", index, dtype, "integers or decimals", pa.int64())
    if pair := _decimals(left, right, args):
        return Signature(tuple(pair), pa.int64())
    return Signature((pa.int64(), pa.int64()), pa.int64())


def _floored(args: Arguments) -> Signature:
    """``//`` and ``%`` of Python: float64 as soon as one side is a float."""
    left, right = _numbers(args)
    if pair := _decimals(left, right, args):
        result = pa.int64() if args.name == "floor_quotient" else _floor_remainder(*pair)
        return Signature(tuple(pair), result)
    common = common_number(left, right)
    common = pa.float64() if t.is_floating(common) else common
    return Signature((common, common), common)


def _floor_remainder(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """As many digits before the point as the divisor has, which the remainder is below."""
    scale = max(a.scale, b.scale)
    return adjusted(b.precision - b.scale + scale, scale)


def _power(args: Arguments) -> Signature:
    """``**`` of Python: int64 of integers, unless the exponent is a constant below 0."""
    base, exponent = _numbers(args)
    literal = args.literals[1]
    below = literal is not None and literal.value is not None and literal.value < 0
    if t.is_integer(base) and t.is_integer(exponent) and not below:
        return Signature((pa.int64(), pa.int64()), pa.int64())
    return Signature((pa.float64(), pa.float64()), pa.float64())


def _same(args: Arguments) -> Signature:
    if (of_times := with_times(args)) is not None:
        return of_times
    (number,) = _numbers(args)
    return Signature((number,), number)


def _to_whole(args: Arguments) -> Signature:
    """floor and ceil: int64; of a decimal a decimal without fraction."""
    (number,) = _numbers(args)
    if t.is_decimal(number):
        digits = number.precision - number.scale + (number.scale > 0)
        return Signature((number,), bounded(digits, 0))
    return Signature((number,), pa.int64())


def _rounded(args: Arguments) -> Signature:
    number = _numbers(replace(args, types=args.types[:1]))[0]
    if len(args.types) == 2 and not t.is_integer(plain(args.types[1])):
        raise wrong_type(args.name, 1, args.types[1], "a whole number of digits", None)
    rest = (pa.int32(),) * (len(args.types) - 1)
    if not t.is_decimal(number):
        return Signature((number, *rest), number)
    literal = args.literals[1] if len(args.types) == 2 else None
    digits = int(literal.value) if literal is not None and literal.value is not None else 0
    integral = number.precision - number.scale + 1
    if digits < 0:
        return Signature((number, *rest), bounded(max(integral, 1 - digits), 0))
    scale = min(number.scale, digits)
    return Signature((number, *rest), bounded(integral + scale, scale))


def _of_floats(args: Arguments) -> bool:
    return bool(t.is_floating(args.types[0]))


def _has_room(digits: Callable[[pa.DataType, pa.DataType], int]) -> Callable[[Arguments], bool]:
    """Floats and texts, and decimals whose result has room for all digits there can be."""

    def total(args: Arguments) -> bool:
        if is_string(args.types[0]):
            return True
        if all(map(t.is_decimal, args.types)):
            return digits(*args.types) <= MAX_PRECISION
        return _of_floats(args)

    return total


def _of_floats_or_short(args: Arguments) -> bool:
    """Only a decimal of more than 34 digits may lose some of them when its sign changes."""
    dtype = args.types[0]
    return _of_floats(args) or (t.is_decimal(dtype) and dtype.precision <= SIGNED_DIGITS_MAX)


def _not_of_floats(args: Arguments) -> bool:
    return not _of_floats(args)


def _keeps_digits(args: Arguments) -> bool:
    """Whether it is no integer rounded to tens or hundreds, which may then not fit."""
    digits = args.literals[1].value if len(args.types) == 2 and args.literals[1] else 0
    return not t.is_integer(args.types[0]) or digits is None or digits >= 0


FUNCTIONS = (
    Function("add", (2, 2), _binary(_add), "a + b; overflow is an error",
             total=_has_room(sum_digits), text="+"),
    Function("subtract", (2, 2), _binary(_add), "a - b; overflow is an error",
             total=_has_room(sum_digits), text="-"),
    Function("multiply", (2, 2), _binary(_multiply), "a * b; overflow is an error",
             total=_has_room(product_digits), text="*"),
    Function("divide", (2, 2), _fraction, "a / b as a fraction; b = 0 is an error", text="/"),
    Function("floor_divide", (2, 2), _whole, "a / b, truncated to int64; b = 0 is an error",
             text="div", spark="div"),
    Function("modulo", (2, 2), _binary(_modulo),
             "the remainder of a / b with the sign of a; b = 0 is an error", text="mod"),
    Function("floor_quotient", (2, 2), _floored,
             "a // b as in Python, floored; of decimals an int64; b = 0 is an error", text="//"),
    Function("floor_remainder", (2, 2), _floored,
             "a % b as in Python, with the sign of b; b = 0 is an error", text="%"),
    Function("exact_power", (2, 2), _power,
             "a ** b as in Python: of integers an int64, where b < 0 and overflow are errors",
             total=_of_floats, text="**"),
    Function("negate", (1, 1), _same, "-a; overflow is an error",
             total=_of_floats_or_short, text="-"),
    Function("abs", (1, 1), _same, "a without its sign; overflow is an error",
             total=_of_floats_or_short, text=".abs", spark="abs"),
    Function("pmod", (2, 2), _binary(_modulo),
             "the remainder of a / b, not below 0 unless b is; b = 0 is an error",
             text=".pmod", spark="pmod"),
    Function("round", (1, 2), _rounded, "half away from zero, to b (constant) digits", (1,),
             total=_keeps_digits, text=".round"),
    Function("bround", (1, 2), _rounded, "half to even, to b (constant) digits", (1,),
             total=_keeps_digits, text=".bround"),
    Function("floor", (1, 1), _to_whole, "the largest whole number not above a",
             total=_not_of_floats, text=".floor", spark="floor"),
    Function("ceil", (1, 1), _to_whole, "the smallest whole number not below a",
             total=_not_of_floats, text=".ceil", spark="ceil"),
)  # fmt: skip
