"""Functions that only a window has: row_number … nth_value.

One job: what they take and return. Every aggregate may be used over a window too. Numbers of rows
are int32, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault, with_article
from fabric.plan.types import common_type, plain

Arguments = Sequence[Literal | None]
Result = Callable[[pa.DataType, Arguments], pa.DataType]


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """A window function: what it takes, whether it needs an order, may have a frame; its type.

    `result` gets the input's type (null without an input) and the constants after it, None where an
    argument is no constant; it raises `ArgumentFault`.
    """

    name: str
    has_input: bool
    arity: tuple[int, int]
    needs_order: bool
    takes_frame: bool
    result: Result
    doc: str


def _int32(_: pa.DataType, __: Arguments) -> pa.DataType:
    return pa.int32()


def _fraction(_: pa.DataType, __: Arguments) -> pa.DataType:
    return pa.float64()


def _whole(name: str, literal: Literal | None, least: int) -> None:
    value = None if literal is None else literal.value
    if type(value) is not int or value < least:
        raise ArgumentFault(f"{name} needs a constant whole number of at least {least}")


def _ntile(_: pa.DataType, args: Arguments) -> pa.DataType:
    _whole("ntile", args[0], 1)
    return pa.int32()


def _shifted(name: str) -> Result:
    def result(dtype: pa.DataType, args: Arguments) -> pa.DataType:
        if args:
            offset = args[0]
            if offset is None or type(offset.value) is not int:
                raise ArgumentFault(f"{name} needs a constant whole number of rows")
        if len(args) == 2:
            default = args[1]
            if default is None:
                raise ArgumentFault(f"{name} needs a constant for rows that are not there")
            common = common_type(dtype, default.dtype)
            if common is None or (not common.equals(plain(dtype)) and not t.is_null(dtype)):
                raise ArgumentFault(
                    f"{name} can't put {with_article(str(default.dtype))} among {dtype}"
                )
        return dtype

    return result


def _placed(name: str) -> Result:
    """first_value, last_value: the second argument says whether nulls are passed over."""

    def result(dtype: pa.DataType, args: Arguments) -> pa.DataType:
        rest = args
        if name == "nth_value":
            _whole(name, args[0], 1)
            rest = args[1:]
        if rest and (rest[0] is None or type(rest[0].value) is not bool):
            raise ArgumentFault(f"{name} needs True or False for ignoring nulls")
        return dtype

    return result


WINDOW_FUNCTIONS = {
    function.name: function
    for function in (
        WindowFunction("row_number", False, (0, 0), True, False, _int32,
                       "1, 2, 3 … in order; equal rows in any order"),
        WindowFunction("rank", False, (0, 0), True, False, _int32,
                       "equal rows get one number, the next ones the number of rows before plus 1"),
        WindowFunction("dense_rank", False, (0, 0), True, False, _int32,
                       "equal rows get one number, without gaps"),
        WindowFunction("percent_rank", False, (0, 0), True, False, _fraction,
                       "(rank - 1) / (rows - 1), 0 of one row"),
        WindowFunction("cume_dist", False, (0, 0), True, False, _fraction,
                       "the share of rows up to this one and its equals"),
        WindowFunction("ntile", False, (1, 1), True, False, _ntile,
                       "the rows in a (constant) parts as equal as can be, numbered from 1"),
        WindowFunction("lag", True, (0, 2), True, False, _shifted("lag"),
                       "the value b (1) rows before, c (null) where there is none"),
        WindowFunction("lead", True, (0, 2), True, False, _shifted("lead"),
                       "the value b (1) rows after, c (null) where there is none"),
        WindowFunction("first_value", True, (0, 1), False, True, _placed("first_value"),
                       "the first value of the frame; b (false): passing over nulls"),
        WindowFunction("last_value", True, (0, 1), False, True, _placed("last_value"),
                       "the last value of the frame; b (false): passing over nulls"),
        WindowFunction("nth_value", True, (1, 2), False, True, _placed("nth_value"),
                       "value b of the frame, counted from 1; c (false): passing over nulls"),
    )
}  # fmt: skip
"""All functions that only a window has, by name."""
