"""Functions of numbers: sqrt … atanh, power, log; factorial, width_bucket; samples; bits.

Here are their types. Outside its domain a function of float64 is NaN or null, as in Spark; none
raises. `random` is the one function whose answer differs from call to call (`Function.volatile`);
it only stands in what `sample` is lowered to. Its second argument tells two samples of one plan
apart, so that no rule takes them for the same. For bits both sides widen to the wider; shifts are
of int32 or int64, by as many bits as their lower 5 or 6 bits of b say, as in Java.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.functions.registry import (
    Arguments,
    D,
    Function,
    I,
    L,
    Signature,
    takes,
    wrong_type,
)
from fabric.plan.types import common_number, numeric, plain

_SAME = (
    ("sqrt", "the square root; NaN below 0"),
    ("exp", "e to the power of a"),
    ("expm1", "e to the power of a, less 1"),
    ("sin", "the sine of an angle in radians"),
    ("cos", "the cosine"),
    ("tan", "the tangent"),
    ("asin", "the angle whose sine is a; NaN outside -1 to 1"),
    ("acos", "the angle whose cosine is a; NaN outside -1 to 1"),
    ("atan", "the angle whose tangent is a"),
    ("sinh", "the hyperbolic sine"),
    ("cosh", "the hyperbolic cosine"),
    ("tanh", "the hyperbolic tangent"),
    ("asinh", "the inverse hyperbolic sine"),
    ("acosh", "the inverse hyperbolic cosine; NaN below 1"),
    ("atanh", "the inverse hyperbolic tangent; NaN outside -1 to 1"),
)
"""Those that Arrow and Spark have by the same name."""
_UNARY = (
    ("cbrt", "the cubic root"),
    ("ln", "the natural logarithm; null at 0 and below"),
    ("log10", "the logarithm to base 10; null at 0 and below"),
    ("log2", "the logarithm to base 2; null at 0 and below"),
    ("log1p", "the natural logarithm of a + 1; null at -1 and below"),
    ("sign", "-1.0, 0.0 or 1.0"),
    ("cot", "the cotangent"),
    ("degrees", "an angle in radians as degrees"),
    ("radians", "an angle in degrees as radians"),
)


def _random(args: Arguments) -> Signature:
    return Signature((args.types[0], pa.int64()), pa.float64())


def _integers(args: Arguments) -> list[pa.DataType]:
    """The arguments as signed integers; null takes the type of the other, int32 when alone."""
    known = [None if t.is_null(plain(dtype)) else numeric(dtype) for dtype in args.types]
    for index, (number, dtype) in enumerate(zip(known, args.types, strict=True)):
        if not t.is_null(plain(dtype)) and (number is None or not t.is_integer(number)):
            raise wrong_type(args.name, index, dtype, "whole numbers of at most 63 bits", L)
    fallback = next((n for n in known if n is not None), I)
    return [fallback if number is None else number for number in known]


def _binary(args: Arguments) -> Signature:
    common = common_number(*_integers(args))
    return Signature((common, common), common)


def _not(args: Arguments) -> Signature:
    (number,) = _integers(args)
    return Signature((number,), number)


def _shift(args: Arguments) -> Signature:
    number, _ = _integers(args)
    number = L if number.equals(L) else I
    return Signature((number, I), number)


def _count(args: Arguments) -> Signature:
    _integers(args)
    return Signature((L,), I)


FUNCTIONS = (
    *(Function(name, (1, 1), takes((D,), D), doc, total=True, text=f".{name}", arrow=name,
               spark=name) for name, doc in _SAME),
    *(Function(name, (1, 1), takes((D,), D), doc, total=True, text=f".{name}", spark=name)
      for name, doc in _UNARY),
    Function("power", (2, 2), takes((D, D), D), "a to the power of b", total=True,
             text="pow", spark="power"),
    Function("log", (2, 2), takes((D, D), D),
             "the logarithm of b to base a; null when one is 0 or below", total=True,
             text=".log", subject=1, spark="log"),
    Function("atan2", (2, 2), takes((D, D), D), "the angle of the point (b, a)",
             total=True, text=".atan2", spark="atan2"),
    Function("hypot", (2, 2), takes((D, D), D), "the square root of a² + b²", total=True,
             text=".hypot", spark="hypot"),
    Function("factorial", (1, 1), takes((I,), L),
             "1 * 2 * … * a; null below 0 and above 20", total=True,
             text=".factorial", spark="factorial"),
    Function("width_bucket", (4, 4), takes((D, D, D, L), L),
             "which of d equal parts of b to c holds a: 0 before the first, d + 1 after the last",
             total=True, text=".width_bucket", spark="width_bucket"),
    Function("random", (2, 2), _random,
             "a number from 0 to below 1, another for each row of a and in each run; b names it",
             constants=(1,), volatile=True),
    Function("poisson", (2, 2), takes((D, D), I),
             "the least number of events that is more likely than a not to be exceeded, where b "
             "are expected; null outside 0 <= a < 1, 0 <= b < 2**30", total=True),
    Function("bitwise_and", (2, 2), _binary, "bits that both have", total=True,
             text=".bitwise_and", arrow="bit_wise_and"),
    Function("bitwise_or", (2, 2), _binary, "bits that one has", total=True,
             text=".bitwise_or", arrow="bit_wise_or"),
    Function("bitwise_xor", (2, 2), _binary, "bits that just one has", total=True,
             text=".bitwise_xor", arrow="bit_wise_xor"),
    Function("bitwise_not", (1, 1), _not, "the other bits", total=True, text=".bitwise_not",
             arrow="bit_wise_not"),
    Function("shift_left", (2, 2), _shift, "b bits to the left", total=True,
             text=".shift_left", spark="shiftleft"),
    Function("shift_right", (2, 2), _shift, "b bits to the right, sign kept",
             total=True, text=".shift_right", spark="shiftright"),
    Function("shift_right_unsigned", (2, 2), _shift,
             "b bits to the right, filled up with zeros", total=True,
             text=".shift_right_unsigned", spark="shiftrightunsigned"),
    Function("bit_count", (1, 1), _count, "how many bits are set, of 64", total=True,
             text=".bit_count", spark="bit_count"),
)  # fmt: skip
