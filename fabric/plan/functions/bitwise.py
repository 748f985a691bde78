"""Bits of integers: bitwise_and … bit_count, shifts.

One job: their types. Both sides widen to the wider; shifts are of int32 or int64, by as many bits
as their lower 5 or 6 bits of b say, as in Java.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.functions.registry import Arguments, Function, I, L, Rule, Signature, wrong_type
from fabric.plan.types import common_number, numeric, plain


def _integers(name: str, args: Arguments) -> list[pa.DataType]:
    """The arguments as signed integers; null takes the type of the other, int32 when alone."""
    known = [None if t.is_null(plain(dtype)) else numeric(dtype) for dtype in args.types]
    for index, (number, dtype) in enumerate(zip(known, args.types, strict=True)):
        if not t.is_null(plain(dtype)) and (number is None or not t.is_integer(number)):
            raise wrong_type(name, index, dtype, "whole numbers of at most 63 bits", L)
    fallback = next((n for n in known if n is not None), I)
    return [fallback if number is None else number for number in known]


def _binary(name: str) -> Rule:
    def rule(args: Arguments) -> Signature:
        common = common_number(*_integers(name, args))
        return Signature((common, common), common)

    return rule


def _not(args: Arguments) -> Signature:
    (number,) = _integers("bitwise_not", args)
    return Signature((number,), number)


def _shift(name: str) -> Rule:
    def rule(args: Arguments) -> Signature:
        number, _ = _integers(name, args)
        number = L if number.equals(L) else I
        return Signature((number, I), number)

    return rule


def _count(args: Arguments) -> Signature:
    _integers("bit_count", args)
    return Signature((L,), I)


FUNCTIONS = (
    Function("bitwise_and", (2, 2), _binary("bitwise_and"), "bits that both have", total=True,
             text=".bitwise_and", arrow="bit_wise_and"),
    Function("bitwise_or", (2, 2), _binary("bitwise_or"), "bits that one has", total=True,
             text=".bitwise_or", arrow="bit_wise_or"),
    Function("bitwise_xor", (2, 2), _binary("bitwise_xor"), "bits that just one has", total=True,
             text=".bitwise_xor", arrow="bit_wise_xor"),
    Function("bitwise_not", (1, 1), _not, "the other bits", total=True, text=".bitwise_not",
             arrow="bit_wise_not"),
    Function("shift_left", (2, 2), _shift("shift_left"), "b bits to the left", total=True,
             text=".shift_left", spark="shiftleft"),
    Function("shift_right", (2, 2), _shift("shift_right"), "b bits to the right, sign kept",
             total=True, text=".shift_right", spark="shiftright"),
    Function("shift_right_unsigned", (2, 2), _shift("shift_right_unsigned"),
             "b bits to the right, filled up with zeros", total=True,
             text=".shift_right_unsigned", spark="shiftrightunsigned"),
    Function("bit_count", (1, 1), _count, "how many bits are set, of 64", total=True,
             text=".bit_count", spark="bit_count"),
)  # fmt: skip
