"""The nearest row of another frame: count, number, and an equi-join; the same on every place.

    Select(left columns, found right columns)
      Join(left, on keys, backward == number)
        Filter(side == 1)                                 left rows, and how many right rows
          Window(right rows so far over keys, by time       of their keys are not above them
                 as backward)
            Union(left rows, keys of right rows)
        Window(row_number() over keys, by time            right rows without null keys
               as number)
          right rows

So the last right row that is not above a left row has the number that is counted there, and the
first above it the next one. Nearest finds both and takes the smaller distance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.clients.dataframe.durations import parse_duration
from fabric.clients.dataframe.expressions.literal import to_literal
from fabric.clients.dataframe.expressions.types import Tolerance, all_of
from fabric.clients.dataframe.lowering.checks import checked_types, exprs_text
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.nodes.join import output_columns
from fabric.plan.printer import expr_text
from fabric.plan.schema import schema_of
from fabric.plan.types import common_type, is_comparable, is_date, is_timestamp, numeric

_LEFT, _RIGHT = plan.Literal(1, pa.int32()), plan.Literal(0, pa.int32())
_NULL = plan.Literal(None, pa.null())
_SIDE, _TIME = plan.Column("side"), plan.Column("time")
_SO_FAR = plan.Frame("rows", None, 0)


@dataclass(frozen=True, slots=True)
class Asof:
    """What ``join_asof`` was asked for."""

    left_on: plan.Expr
    right_on: plan.Expr
    left_by: tuple[plan.Expr, ...]
    right_by: tuple[plan.Expr, ...]
    strategy: nodes.AsofStrategy
    tolerance: Tolerance | None
    exact: bool
    suffix: str


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both inputs with the types of their keys; columns inside are called by number."""

    left: pa.Schema
    right: pa.Schema
    by: tuple[pa.DataType, ...]
    on: pa.DataType

    @property
    def keys(self) -> tuple[plan.Expr, ...]:
        return tuple(plan.Column(f"key_{i}") for i in range(len(self.by)))


def asof(left: nodes.Node, right: nodes.Node, join: Asof) -> nodes.Node:
    """`left` with the columns of the row of `right` that `join` finds."""
    sides = _checked(schema_of(left), schema_of(right), join)
    numbered = _numbered(right, sides, join)
    ways = ("backward", "forward") if join.strategy == "nearest" else (join.strategy,)
    node = _counted(left, right, sides, join, ways)
    for way in ways:
        node = _joined(node, numbered, sides, way)
    return nodes.Select(node, tuple(_output(sides, ways, join)), path="join_asof_*")


# ---- what goes in
def _checked(left: pa.Schema, right: pa.Schema, join: Asof) -> _Sides:
    def left_line(exprs: tuple[plan.Expr, ...]) -> str:
        return _line(join, exprs, (join.right_on, *join.right_by))

    def right_line(exprs: tuple[plan.Expr, ...]) -> str:
        return _line(join, (join.left_on, *join.left_by), exprs)

    a = checked_types((join.left_on, *join.left_by), left, "join_asof, left side", left_line)
    b = checked_types((join.right_on, *join.right_by), right, "join_asof, right side", right_line)
    common: list[pa.DataType] = []
    exprs = zip((join.left_on, *join.left_by), (join.right_on, *join.right_by), strict=True)
    for (mine, theirs), first, second in zip(exprs, a, b, strict=True):
        found = common_type(first, second)
        if found is None or not is_comparable(found):
            raise PlanError(
                f"join_asof can't compare {expr_text(mine)}, a {first}, and {expr_text(theirs)}, "
                f"a {second}; cast one of them"
            )
        common.append(found)
    names = [column.name for column in _columns(left, right, join)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PlanError(
            f'join_asof would put out two columns called "{twice}"; give another suffix: '
            'suffix="_2"'
        )
    return _Sides(left, right, tuple(common[1:]), common[0])


def _line(join: Asof, left: tuple[plan.Expr, ...], right: tuple[plan.Expr, ...]) -> str:
    parts = ["other", *_pair("on", left[:1], right[:1])]
    if join.left_by:
        parts += _pair("by", left[1:], right[1:])
    if join.strategy != "backward":
        parts.append(f'strategy="{join.strategy}"')
    return f".join_asof({', '.join(parts)})"


def _pair(name: str, left: tuple[plan.Expr, ...], right: tuple[plan.Expr, ...]) -> list[str]:
    if left == right:
        return [f"{name}={exprs_text(left)}"]
    return [f"left_{name}={exprs_text(left)}", f"right_{name}={exprs_text(right)}"]


def _columns(left: pa.Schema, right: pa.Schema, join: Asof) -> list[Any]:
    """The output columns: those of an inner join by all the keys."""
    empty = nodes.StageInput(0, left), nodes.StageInput(0, right)
    keys = (join.left_on, *join.left_by), (join.right_on, *join.right_by)
    return output_columns(nodes.Join(*empty, *keys, "inner", join.suffix), left, right)


def _keys(sides: _Sides, by: tuple[plan.Expr, ...], on: plan.Expr) -> tuple[plan.Expr, ...]:
    pairs = zip(by, sides.by, strict=True)
    keys = (plan.Alias(plan.Cast(key, dtype), f"key_{i}") for i, (key, dtype) in enumerate(pairs))
    return (*keys, plan.Alias(plan.Cast(on, sides.on), "time"))


def _with_keys(node: nodes.Node, join: Asof) -> nodes.Node:
    """The right rows that can match: those without a null among their keys."""
    known = [plan.Call("is_not_null", (key,)) for key in (join.right_on, *join.right_by)]
    return nodes.Filter(node, all_of(known), path="join_asof_*/keys")


# ---- numbers
def _counted(
    left: nodes.Node, right: nodes.Node, sides: _Sides, join: Asof, ways: tuple[str, ...]
) -> nodes.Node:
    """The left rows, each with the number of the right row that is found each way."""
    own = [plan.Alias(plan.Column(f.name), f"left_{i}") for i, f in enumerate(sides.left)]
    nulls = [plan.Alias(plan.Literal(None, f.type), f"left_{i}") for i, f in enumerate(sides.left)]
    mine = (*own, *_keys(sides, join.left_by, join.left_on), plan.Alias(_LEFT, "side"))
    theirs = (*nulls, *_keys(sides, join.right_by, join.right_on), plan.Alias(_RIGHT, "side"))
    inputs = (
        nodes.Select(left, mine, path="join_asof_*/left"),
        nodes.Select(_with_keys(right, join), theirs, path="join_asof_*/right"),
    )
    union = nodes.Union(inputs, path="join_asof_*/union")
    counts = tuple(plan.Alias(_count(sides, way, join.exact), f"{way}_count") for way in ways)
    node: nodes.Node = nodes.Window(union, counts, path="join_asof_*/count")
    node = nodes.Filter(node, plan.Call("eq", (_SIDE, _LEFT)), path="join_asof_*/rows")
    kept = [plan.Column(f"left_{i}") for i in range(len(sides.left))]
    numbers = [plan.Alias(_number(way), way) for way in ways]
    exprs = (*kept, *sides.keys, _TIME, *numbers)
    return nodes.Select(node, exprs, path="join_asof_*/numbers")


def _count(sides: _Sides, way: str, exact: bool) -> plan.Over:
    """How many right rows are before a left row, with or without those of the same time."""
    equal_too = exact == (way == "backward")
    order = (plan.SortKey(_TIME), plan.SortKey(_SIDE, descending=not equal_too))
    right = plan.Agg("count_if", plan.Call("eq", (_SIDE, _RIGHT)))
    return plan.Over(right, sides.keys, order, _SO_FAR)


def _number(way: str) -> plan.Expr:
    """The number of the right row that is found; null, which matches nothing, without a time."""
    count: plan.Expr = plan.Column(f"{way}_count")
    if way == "forward":
        count = plan.Call("add", (count, plan.Literal(1, pa.int64())))
    return plan.Case(((plan.Call("is_not_null", (_TIME,)), count),), _NULL)


def _numbered(right: nodes.Node, sides: _Sides, join: Asof) -> nodes.Node:
    """The right rows, numbered by time among those of equal keys."""
    own = [plan.Alias(plan.Column(f.name), f"right_{i}") for i, f in enumerate(sides.right)]
    exprs = (*own, *_keys(sides, join.right_by, join.right_on))
    rows = nodes.Select(_with_keys(right, join), exprs, path="join_asof_*/others")
    over = plan.Over(plan.Agg("row_number", None), sides.keys, (plan.SortKey(_TIME),))
    return nodes.Window(rows, (plan.Alias(over, "number"),), path="join_asof_*/order")


def _joined(left: nodes.Node, numbered: nodes.Node, sides: _Sides, way: str) -> nodes.Node:
    """The left rows beside the right row whose number was found `way`."""
    columns = [plan.Alias(plan.Column(f"right_{i}"), f"{way}_{i}") for i in range(len(sides.right))]
    time = plan.Alias(_TIME, f"{way}_time")
    exprs = (*columns, time, *sides.keys, plan.Column("number"))
    others = nodes.Select(numbered, exprs, path=f"join_asof_*/{way}")
    left_keys = (*sides.keys, plan.Column(way))
    right_keys = (*sides.keys, plan.Column("number"))
    joined = nodes.Join(left, others, left_keys, right_keys, "left", path=f"join_asof_*/join_{way}")
    names = [name for name in schema_of(joined).names if name != "number"]
    return nodes.Select(
        joined, tuple(plan.Column(name) for name in names), path=f"join_asof_*/with_{way}"
    )


# ---- what comes out
def _output(sides: _Sides, ways: tuple[str, ...], join: Asof) -> Iterator[plan.Expr]:
    tests = [(way, _test(sides, way, join)) for way in ways]
    for column in _columns(sides.left, sides.right, join):
        side = sides.right if column.right else sides.left
        index = side.get_field_index(column.source)
        if not column.right:
            yield plan.Alias(plan.Column(f"left_{index}"), column.name)
        elif len(ways) == 1:
            yield plan.Alias(_guarded(tests[0][1], plan.Column(f"{ways[0]}_{index}")), column.name)
        else:
            yield plan.Alias(_nearer(sides, tests, index), column.name)


def _test(sides: _Sides, way: str, join: Asof) -> plan.Expr | None:
    """Whether the row found is near enough; None when any is."""
    if join.tolerance is None:
        return None
    found = plan.Column(f"{way}_time")
    pair = (found, _TIME) if way == "backward" else (_TIME, found)
    return _is_within(*pair, join.tolerance, sides.on)


def _guarded(test: plan.Expr | None, value: plan.Expr) -> plan.Expr:
    return value if test is None else plan.Case(((test, value),), _NULL)


def _nearer(sides: _Sides, tests: list[tuple[str, plan.Expr | None]], index: int) -> plan.Expr:
    """The value of whichever row is nearer, the later of two alike."""
    before, after = plan.Column("backward_time"), plan.Column("forward_time")
    closer = plan.Call(
        "lt", (_distance(before, _TIME, sides.on), _distance(_TIME, after, sides.on))
    )
    first = plan.Call("or", (plan.Call("is_null", (after,)), closer))
    values = {way: _guarded(test, plan.Column(f"{way}_{index}")) for way, test in tests}
    return plan.Case(((first, values["backward"]),), values["forward"])


def _distance(low: plan.Expr, high: plan.Expr, dtype: pa.DataType) -> plan.Expr:
    """``high - low`` as a number, without overflow; raises for keys that can't be measured."""
    if is_date(dtype) or is_timestamp(dtype):
        low, high, dtype = _micros(low), _micros(high), pa.int64()
    number = numeric(dtype)
    if number is None:
        raise PlanError(
            f'join_asof can\'t say how far values of {dtype} are apart; use strategy="backward" or '
            '"forward" without a tolerance'
        )
    if t.is_integer(number):
        wide = pa.decimal128(20, 0)
        low, high = plan.Cast(low, wide), plan.Cast(high, wide)
    return plan.Call("subtract", (high, low))


def _is_within(
    low: plan.Expr, high: plan.Expr, tolerance: Tolerance, dtype: pa.DataType
) -> plan.Expr:
    """Whether `high` is at most `tolerance` above `low`."""
    if is_date(dtype) or is_timestamp(dtype):
        number, unit = _interval(tolerance)
        args = (low, plan.Literal(number, pa.int64()), plan.Literal(unit, pa.string()))
        later = plan.Call("add_interval", args)
        stamp = plan.Cast(high, pa.timestamp("us", "UTC")) if is_date(dtype) else high
        return plan.Call("le", (stamp, later))
    good = isinstance(tolerance, int | float) and not isinstance(tolerance, bool) and tolerance >= 0
    if not good:
        raise PlanError(
            f"join_asof needs a tolerance of at least 0 for keys of {dtype}, got {tolerance!r}"
        )
    return plan.Call("le", (_distance(low, high, dtype), to_literal(tolerance)))


def _micros(value: plan.Expr) -> plan.Expr:
    return plan.Call("unix_micros", (plan.Cast(value, pa.timestamp("us", "UTC")),))


def _interval(tolerance: Any) -> tuple[int, str]:
    """``"2h"`` or a timedelta as a number and a unit."""
    number, unit = parse_duration(tolerance)
    if number < 0:
        raise PlanError(f"join_asof needs a tolerance of at least 0, got {tolerance!r}")
    return number, unit
