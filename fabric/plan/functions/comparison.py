"""Comparison, boolean logic, null tests and extremes: eq … eq_null_safe, and … coalesce, least.

One job: their types. Both sides of a comparison are cast to one type first; a string is never
compared with a number or a date unless the plan casts it.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.faults import ArgumentFault
from fabric.plan.functions.registry import Arguments, Function, Signature, T, takes, wrong_type
from fabric.plan.types import (
    common_of,
    common_type,
    flat_type,
    is_comparable,
    is_groupable,
    is_nested,
    is_string,
    numeric,
    plain,
)


def no_common(what: str, left: pa.DataType, right: pa.DataType) -> ArgumentFault:
    """The fault of two types that can't be made equal; casts the string, else the right side."""
    index, wanted = (0, right) if is_string(left) else (1, left)
    return ArgumentFault(f"{what} {left} and {right}", index, wanted)


def _compare(args: Arguments) -> Signature:
    left, right = args.types
    for index, dtype in enumerate(args.types):
        if not is_groupable(dtype):
            raise wrong_type(args.name, index, dtype, "values that can be compared", None)
    common = common_type(left, right)
    if common is None:
        raise no_common(f"{args.name} can't compare", left, right)
    return Signature((common, common), pa.bool_())


def _null_test(args: Arguments) -> Signature:
    return Signature(args.types, pa.bool_())


def _is_nan(args: Arguments) -> Signature:
    (dtype,) = args.types
    number = pa.float64() if t.is_null(plain(dtype)) else numeric(dtype)
    if number is None:
        raise wrong_type("is_nan", 0, dtype, "a number", pa.float64())
    return Signature((number if t.is_floating(number) else pa.float64(),), pa.bool_())


def one_type(args: Arguments) -> pa.DataType:
    """The type that all arguments are cast to."""
    common = common_of(args.types)
    if common is None:
        bad = next(i for i in range(len(args.types)) if common_of(args.types[: i + 1]) is None)
        before = common_of(args.types[:bad])
        message = f"{args.name} can't make {before} and {args.types[bad]} one type"
        raise ArgumentFault(message, bad, before)
    return common


def _common(args: Arguments) -> Signature:
    """All arguments are cast to one type, which is the result's."""
    common = one_type(args)
    common = flat_type(common) if is_nested(common) else common
    return Signature((common,) * len(args.types), common)


def _extreme(args: Arguments) -> Signature:
    """One type that has an order."""
    for index, dtype in enumerate(args.types):
        if not is_comparable(dtype):
            raise wrong_type(args.name, index, dtype, "single values", None)
    found = _common(args)
    dtype = plain(found.result)
    return Signature((dtype,) * len(args.types), dtype)


FUNCTIONS = (
    *(Function(name, (2, 2), _compare, doc, total=True, text=text) for name, text, doc in (
        ("eq", "==", "a = b; null when one is null; NaN = NaN"),
        ("ne", "!=", "a <> b; null when one is null"),
        ("lt", "<", "a < b; NaN is the largest"),
        ("le", "<=", "a <= b"),
        ("gt", ">", "a > b"),
        ("ge", ">=", "a >= b"),
        ("eq_null_safe", ".eq_null_safe", "a = b where null equals null; never null"),
    )),
    Function("and", (2, 2), takes((T, T), T), "both true; false wins over null", total=True,
             text="&"),
    Function("or", (2, 2), takes((T, T), T), "one true; true wins over null", total=True, text="|"),
    Function("not", (1, 1), takes((T,), T), "the opposite; null stays null", total=True,
             text="~", arrow="invert"),
    Function("is_null", (1, 1), _null_test, "whether a is null", total=True,
             text=".is_null", arrow="is_null"),
    Function("is_not_null", (1, 1), _null_test, "whether a is not null", total=True,
             text=".is_not_null", arrow="is_valid"),
    Function("is_nan", (1, 1), _is_nan, "whether a is NaN; false for null", total=True,
             text=".is_nan", spark="isnan"),
    Function("coalesce", (1, None), _common, "the first argument that is not null",
             total=True, spark="coalesce"),
    Function("greatest", (2, None), _extreme,
             "the largest argument, nulls left out; NaN is larger than all numbers", total=True,
             spark="greatest"),
    Function("least", (2, None), _extreme, "the smallest argument, nulls left out",
             total=True, spark="least"),
)  # fmt: skip
