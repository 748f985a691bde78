"""The nearest row of another frame, by a union and two windows; the same on every place.

    Select(left columns, found right columns)
      Filter(__side == 1)                              left rows only
        Window(first right row over keys, __group)     each group has one right row, its first
          Window(right rows so far over keys, by time as __group)
            Union(left rows, right rows without null keys)

Forward counts from the other end; nearest does both and takes the smaller distance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fabric.clients.dataframe.lowering.checks import checked_types, exprs_text
from fabric.clients.dataframe.lowering.distances import distance, is_within
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.join import output_columns
from fabric.plan.printer import expr_text
from fabric.plan.schema import schema_of
from fabric.plan.types import common_type, is_comparable

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
    strategy: str
    tolerance: Any
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
    union = nodes.Union(
        (_left_rows(left, sides, join), _right_rows(right, sides, join)), path="join_asof_*/union"
    )
    ways = ("backward", "forward") if join.strategy == "nearest" else (join.strategy,)
    counts = tuple(plan.Alias(_count(sides, way, join.exact), f"{way}_group") for way in ways)
    node: nodes.Node = nodes.Window(union, counts, path="join_asof_*/order")
    for way in ways:
        node = nodes.Window(node, tuple(_found(sides, way)), path=f"join_asof_*/{way}")
    rows = nodes.Filter(node, plan.Call("eq", (_SIDE, _LEFT)), path="join_asof_*/rows")
    return nodes.Select(rows, tuple(_output(sides, ways, join)))


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


def _left_rows(node: nodes.Node, sides: _Sides, join: Asof) -> nodes.Node:
    own = [plan.Alias(plan.Column(f.name), f"left_{i}") for i, f in enumerate(sides.left)]
    nulls = [
        plan.Alias(plan.Literal(None, f.type), f"right_{i}") for i, f in enumerate(sides.right)
    ]
    keys = _keys(sides, join.left_by, join.left_on)
    exprs = (*own, *nulls, *keys, plan.Alias(_LEFT, "side"))
    return nodes.Select(node, exprs, path="join_asof_*/left")


def _right_rows(node: nodes.Node, sides: _Sides, join: Asof) -> nodes.Node:
    test: plan.Expr = plan.Call("is_not_null", (join.right_on,))
    for key in join.right_by:
        test = plan.Call("and", (test, plan.Call("is_not_null", (key,))))
    there = nodes.Filter(node, test, path="join_asof_*/keys")
    nulls = [plan.Alias(plan.Literal(None, f.type), f"left_{i}") for i, f in enumerate(sides.left)]
    own = [plan.Alias(plan.Column(f.name), f"right_{i}") for i, f in enumerate(sides.right)]
    keys = _keys(sides, join.right_by, join.right_on)
    exprs = (*nulls, *own, *keys, plan.Alias(_RIGHT, "side"))
    return nodes.Select(there, exprs, path="join_asof_*/right")


def _keys(sides: _Sides, by: tuple[plan.Expr, ...], on: plan.Expr) -> tuple[plan.Expr, ...]:
    pairs = zip(by, sides.by, strict=True)
    keys = (plan.Alias(plan.Cast(key, dtype), f"key_{i}") for i, (key, dtype) in enumerate(pairs))
    return (*keys, plan.Alias(plan.Cast(on, sides.on), "time"))


# ---- windows
def _count(sides: _Sides, way: str, exact: bool) -> plan.Over:
    """How many right rows come before; left rows of equal time come after them, or not."""
    order = (
        plan.SortKey(_TIME, descending=way == "forward", nulls_last=False),
        plan.SortKey(_SIDE, descending=not exact),
    )
    right = plan.Agg("count_if", plan.Call("eq", (_SIDE, _RIGHT)))
    return plan.Over(right, sides.keys, order, _SO_FAR)


def _found(sides: _Sides, way: str) -> Iterator[plan.Expr]:
    """The columns of the one right row of the group."""
    keys = (*sides.keys, plan.Column(f"{way}_group"))
    order = (plan.SortKey(_SIDE),)
    time = plan.Case(((plan.Call("eq", (_SIDE, _RIGHT)), _TIME),), _NULL)
    columns: list[tuple[str, plan.Expr]] = [
        *((f"{way}_{i}", plan.Column(f"right_{i}")) for i in range(len(sides.right))),
        (f"{way}_time", time),
    ]
    for name, source in columns:
        yield plan.Alias(plan.Over(plan.Agg("first_value", source), keys, order), name)


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
    return is_within(*pair, join.tolerance, sides.on)


def _guarded(test: plan.Expr | None, value: plan.Expr) -> plan.Expr:
    return value if test is None else plan.Case(((test, value),), _NULL)


def _nearer(sides: _Sides, tests: list[tuple[str, plan.Expr | None]], index: int) -> plan.Expr:
    """The value of whichever row is nearer, the later of two alike."""
    before, after = plan.Column("backward_time"), plan.Column("forward_time")
    closer = plan.Call("lt", (distance(before, _TIME, sides.on), distance(_TIME, after, sides.on)))
    first = plan.Call("or", (plan.Call("is_null", (after,)), closer))
    values = {way: _guarded(test, plan.Column(f"{way}_{index}")) for way, test in tests}
    return plan.Case(((first, values["backward"]),), values["forward"])
