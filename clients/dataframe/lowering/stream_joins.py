"""Joins of a stream with a table, and of two streams.

What bounds a join of two is read out of the arguments of the verbs:

join_interval(other, "ts", (col("at"), col("at") + timedelta(minutes=5)), by="k")
=>  StreamJoin(by k, -5 minutes <= at - ts <= 0)

join(other, on=["k", "window_end"])    =>  StreamJoin(by k, window_end, 0 <= end - end <= 0)
"""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

from fabric.clients.dataframe.expressions.types import PointOrRange
from fabric.clients.dataframe.lowering.joins import sides_of
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.durations import UNITS_US
from fabric.plan.faults import quoted
from fabric.plan.python import expr_text
from fabric.plan.stream import Stream, two_streams
from fabric.plan.stream_facts import stream_of

_LOOKUPS: dict[str, nodes.LookupHow] = {
    "inner": "inner", "left": "left", "semi": "semi", "anti": "anti"
}  # fmt: skip
_STEADY = ("microsecond", "millisecond", "second", "minute", "hour")
"""Units that are as long in every zone."""
_MICROSECOND = timedelta(microseconds=1)


def of_streams(join: nodes.Join, late: nodes.Late) -> nodes.LookupJoin | nodes.StreamJoin | None:
    """What `join` is where its left side is a stream; None where it is refused, or no stream's."""
    if are_streams(join, late):
        return _by_windows(join, late)
    how = _LOOKUPS.get(join.how)
    if how is None or join.condition is not None or not join.left_keys:
        return None
    if stream_of(join.left) is None or stream_of(join.right) is not None:
        return None
    return nodes.LookupJoin(
        join.left, join.right, join.left_keys, join.right_keys, how, join.suffix
    )  # fmt: skip


def are_streams(join: nodes.Join, late: nodes.Late) -> bool:
    """Whether both sides are endless; no other join has late rows."""
    found = stream_of(join.left) is not None and stream_of(join.right) is not None
    if not found and late != "drop":
        raise PlanError("only a join of two streams has late rows; leave late out")
    return found


def _by_windows(join: nodes.Join, late: nodes.Late) -> nodes.StreamJoin:
    """The join of two streams of which a pair of keys is the end of a window on both sides."""
    left, right = _both(join)
    for mine, theirs in zip(join.left_keys, join.right_keys, strict=True):
        if (
            isinstance(mine, plan.Column) and mine.name in left.ends
            and isinstance(theirs, plan.Column) and theirs.name in right.ends
        ):  # fmt: skip
            return _made(join, (mine.name, theirs.name), (0, 0), late)
    raise two_streams(left, right)


def by_interval(
    join: nodes.Join, left: PointOrRange, right: PointOrRange, closed: str, late: nodes.Late
) -> nodes.StreamJoin:
    """The join of two streams by a point and a range around it, both of event time."""
    streams = _both(join)
    sides = sides_of(join, left, right)
    if not join.left_keys:
        raise PlanError(
            "a join of two streams needs a key that is equal on both sides, by which rows go to "
            'tasks; write: .join_interval(…, by="id")'
        )
    if len(sides[0]) == len(sides[1]):
        raise _no_bound(streams, "two ranges overlap")
    times, moves = list[str](), list[tuple[int, ...]]()
    for side, stream in zip(sides, streams, strict=True):
        found = [_read(expr, stream, streams) for expr in side]
        if len({time for time, _ in found}) > 1:
            raise _no_bound(streams, "a range begins and ends at different columns")
        times.append(found[0][0])
        moves.append(tuple(us for _, us in found))
    (point,), (start, end) = sorted(moves, key=len)
    start += closed in ("right", "none")
    end -= closed in ("left", "none")
    if start > end:
        raise PlanError("join_interval: the range ends before it begins, so no row is in it")
    # start <= point - time <= end, where the time is that of the side with the range
    of_left = len(sides[0]) == 2
    bounds = (start - point, end - point) if of_left else (point - end, point - start)
    return _made(join, (times[0], times[1]), bounds, late)


def _both(join: nodes.Join) -> tuple[Stream, Stream]:
    """What is known of both sides; refuses what no join of two streams can be."""
    left, right = stream_of(join.left), stream_of(join.right)
    assert left is not None
    assert right is not None
    if join.how not in get_args(nodes.StreamJoinHow):
        raise PlanError(
            f"two streams can't be joined with how={join.how!r}: each row would wait for all rows "
            "of the other for ever; join them by equal keys"
        )
    if join.strategy == "broadcast":
        raise PlanError(
            "a stream can't be broadcast, as nobody ever has all of it; leave strategy out"
        )
    for side in (left, right):
        side.check_append_only("a join of two streams")
    if not left.timed or not right.timed:
        raise two_streams(left, right)
    return left, right


def _made(
    join: nodes.Join, times: tuple[str, str], bounds: tuple[int, int], late: nodes.Late
) -> nodes.StreamJoin:
    assert join.how != "cross"
    return nodes.StreamJoin(
        join.left, join.right, join.left_keys, join.right_keys, *times, *bounds, join.how,
        join.suffix, late, join.condition,
    )  # fmt: skip


def _read(expr: plan.Expr, stream: Stream, both: tuple[Stream, Stream]) -> tuple[str, int]:
    """The column of event time that `expr` moves, and by how many microseconds."""
    moved = 0
    while not isinstance(expr, plan.Column):
        match expr:
            case plan.Call("add", (source, plan.Literal(timedelta() as by))):
                moved += by // _MICROSECOND
            case plan.Call("add", (plan.Literal(timedelta() as by), source)):
                moved += by // _MICROSECOND
            case plan.Call("subtract", (source, plan.Literal(timedelta() as by))):
                moved -= by // _MICROSECOND
            case plan.Call(
                "as_time_of",
                (
                    plan.Call(
                        "add_interval", (source, plan.Literal(int() as n), plan.Literal(unit))
                    ),
                    _,
                ),
            ) if unit in _STEADY:
                moved += n * UNITS_US[unit]
            case _:
                raise _no_bound(both, f"{expr_text(expr)} is not event time, earlier or later")
        expr = source
    if expr.name != stream.time and expr.name not in stream.ends:
        raise _no_bound(both, f"{quoted(expr.name)} is not event time of its side")
    return expr.name, moved


def _no_bound(both: tuple[Stream, Stream], why: str) -> PlanError:
    """The refusal of an interval that does not say how far apart partners are."""
    return PlanError(f"join_interval of two streams: {why}; {two_streams(*both).message}")
