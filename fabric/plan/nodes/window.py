"""Window functions of rows with an end: `Window`, and the type of an `Over`.

Frames are checked here too: a range with a distance needs one number to measure it by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.plan.columns import read_by
from fabric.plan.expr import Agg, Alias, Expr, Frame, Literal, Over, output_name
from fabric.plan.faults import ArgumentFault, ExprFault, nearest, quoted
from fabric.plan.functions import AGGREGATES, WINDOW_FUNCTIONS
from fabric.plan.infer import infer, infer_agg
from fabric.plan.mend import free_name, mended
from fabric.plan.node import Columns, Names, Node, Unary
from fabric.plan.python import columns_text
from fabric.plan.stream import Stream, endless
from fabric.plan.types import is_comparable, is_groupable, numeric


@dataclass(frozen=True, slots=True)
class Window(Unary):
    """Put out the input and one column for each of `exprs` (`Over` or `Alias` of it) after it.

    All of them have the same `partition_by`, so that one exchange serves them.
    """

    exprs: tuple[Expr, ...]

    WIRE: ClassVar[str] = "window"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("exprs",)
    HOLDS_ROWS: ClassVar[bool] = True

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns of the input, then those of the functions."""
        (schema,) = inputs
        if not self.exprs:
            raise PlanError("a window needs a function, for example row_number().over(...)")
        taken = list(schema.names)
        columns = []
        for expr in self.exprs:
            over = unaliased_over(expr)
            if over.partition_by != unaliased_over(self.exprs[0]).partition_by:
                raise PlanError("the functions of one window node have different partitions")
            name = output_name(expr)
            if name in taken:
                renamed = Alias(over, free_name(name, taken))
                exprs = tuple(renamed if e is expr else e for e in self.exprs)
                line = replace(self, exprs=exprs)
                raise mended(f"there is a column {quoted(name)} already", line)
            taken.append(name)
            columns.append((name, infer_over(over, schema)))
        return [*zip(schema.names, schema.types, strict=True), *columns]

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted of the input, and what the wanted functions read."""
        functions = [expr for expr in self.exprs if output_name(expr) in wanted]
        return ((wanted - set(map(output_name, self.exprs))) | read_by(functions),)

    def without_unwanted(self, wanted: Names) -> Node:
        """Only the wanted functions; without any, the input."""
        exprs = tuple(expr for expr in self.exprs if output_name(expr) in wanted)
        if not exprs:
            return self.input
        return self if len(exprs) == len(self.exprs) else replace(self, exprs=exprs)

    def stream(self, *below: Any) -> Stream:
        """Refused."""
        raise endless(
            "window functions never see a whole partition",
            "use .top_n(…) for ranks, or .group_by(…).window(…).agg(…)",
        )

    def text(self) -> str:
        """``.with_columns(row_number().over("a", order_by="b"))``."""
        return f".with_columns({columns_text(self.exprs)})"


def unaliased_over(expr: Expr) -> Over:
    """The window function under an alias; anything else is a fault."""
    inner = expr.input if isinstance(expr, Alias) else expr
    if not isinstance(inner, Over):
        raise ExprFault("a window node takes window functions only", expr)
    return inner


def infer_over(over: Over, schema: pa.Schema) -> pa.DataType:
    """The type of a window function over rows of `schema`."""
    for key in over.partition_by:
        if not is_groupable(dtype := infer(key, schema)):
            raise ExprFault(f"over can't compare {dtype}", key)
    types = [infer(order.input, schema) for order in over.order_by]
    for order, dtype in zip(over.order_by, types, strict=True):
        if not is_comparable(dtype):
            raise ExprFault(f"over can't order by {dtype}", order.input)
    _check_frame(over, types)
    agg = over.input
    if agg.function in WINDOW_FUNCTIONS:
        return _infer_function(over, schema)
    if agg.function not in AGGREGATES:
        known = [*WINDOW_FUNCTIONS, *AGGREGATES]
        near = nearest(agg.function, known)
        new = None if near is None else replace(agg, function=near)
        raise ExprFault(f"there is no window function {agg.function[:80]!r}", agg, new)
    return infer_agg(agg, schema)


def _infer_function(over: Over, schema: pa.Schema) -> pa.DataType:
    agg = over.input
    function = WINDOW_FUNCTIONS[agg.function]
    name = function.name
    if function.has_input != (agg.input is not None):
        raise ExprFault(f"{name} {'needs a' if function.has_input else 'takes no'} column", agg)
    least, most = function.arity
    if not least <= len(agg.args) <= most:
        raise ExprFault(f"{name} takes {least} to {most} arguments, got {len(agg.args)}", agg)
    if function.needs_order and not over.order_by:
        raise ExprFault(f'{name} needs an order: .over(..., order_by="time")', over)
    if over.frame is not None and not function.takes_frame:
        raise ExprFault(f"{name} takes no frame", over, replace(over, frame=None))
    dtype = pa.null() if agg.input is None else infer(agg.input, schema)
    constants = [arg if isinstance(arg, Literal) else None for arg in agg.args]
    for arg in agg.args:
        infer(arg, schema)
    try:
        return function.result(dtype, constants)
    except ArgumentFault as fault:
        raise ExprFault(fault.message, agg) from None


def _check_frame(over: Over, types: list[pa.DataType]) -> None:
    frame = over.frame
    if frame is None:
        return
    if frame.start is not None and frame.end is not None and frame.start > frame.end:
        raise ExprFault(
            f"the frame ends before it starts: {frame.start} to {frame.end}",
            over,
            replace(over, frame=Frame(frame.unit, frame.end, frame.start)),
        )
    if (frame.start or frame.end) and not over.order_by:
        raise ExprFault('a frame needs an order: .over(..., order_by="time")', over)
    if frame.unit == "range" and (frame.start or frame.end):
        number = numeric(types[0]) if len(types) == 1 else None
        if number is None or not (t.is_integer(number) or t.is_floating(number)):
            raise ExprFault("a range of a distance needs exactly one order key, a number", over)


def aggs_of(node: Window) -> list[Agg]:
    """The functions of a window node, in order."""
    return [unaliased_over(expr).input for expr in node.exprs]
