"""Joins of a stream with a table, and of two streams.

What bounds a join of two is read out of the arguments of the verbs:

join_interval(other, "ts", (col("at"), col("at") + timedelta(minutes=5)), by="k")
=>  StreamJoin(by k, -5 minutes <= at - ts <= 0)

join(other, on=["k", "window_end"])    =>  StreamJoin(by k, window_end, 0 <= end - end <= 0)

join(other, on="k", ttl="1 day")       =>  UpdatingJoin(by k, ttl 1 day)

join_temporal(other, on="k")           =>  AsofJoin(by k, the last at - ts <= 0)
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pyarrow as pa

from fabric.clients.dataframe.durations import Length, maybe_us, parse_duration
from fabric.clients.dataframe.expressions.types import PointOrRange, Tolerance
from fabric.clients.dataframe.lowering.asof import Asof, asof
from fabric.clients.dataframe.lowering.joins import sides_of
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.durations import UNITS_US
from fabric.plan.faults import listed, quoted
from fabric.plan.mend import free_name
from fabric.plan.python import expr_text
from fabric.plan.schema import schema_of
from fabric.plan.stream import Stream, two_streams
from fabric.plan.stream_facts import stream_of

_LOOKUPS: dict[str, nodes.LookupHow] = {
    "inner": "inner", "left": "left", "semi": "semi", "anti": "anti"
}  # fmt: skip
_STEADY = ("microsecond", "millisecond", "second", "minute", "hour")
"""Units that are as long in every zone."""
_MICROSECOND = timedelta(microseconds=1)


def of_streams(
    join: nodes.Join, late: nodes.Late, ttl: Length | None, salt: int | None
) -> nodes.LookupJoin | nodes.TwoStreams | None:
    """What `join` is where its left side is a stream; None where it is refused, or no stream's."""
    ttl_us, parts = maybe_us(ttl, "ttl", least=1), check_salt(salt, "join")
    if are_streams(join, late, parts):
        made = _by_windows(join, late) if ttl_us is None else _updating(join, late, ttl_us)
        return replace(made, salt=parts)
    if ttl_us is not None:
        raise PlanError("only a join of two streams has a ttl; leave ttl out")
    how = _LOOKUPS.get(join.how)
    if how is None or join.condition is not None or not join.left_keys:
        return None
    if stream_of(join.left) is None or stream_of(join.right) is not None:
        return None
    return nodes.LookupJoin(
        join.left, join.right, join.left_keys, join.right_keys, how, join.suffix
    )  # fmt: skip


def are_streams(join: nodes.Join, late: nodes.Late, salt: int) -> bool:
    """Whether both sides are endless; refuses for others what only they have."""
    found = stream_of(join.left) is not None and stream_of(join.right) is not None
    if not found:
        check_tables(late, salt)
    return found


def check_tables(late: nodes.Late, salt: int | None) -> None:
    """Refuse for other joins what only joins of two streams have."""
    if late != "drop":
        raise PlanError("only a join of two streams has late rows; leave late out")
    if salt:
        raise PlanError("only a join of two streams has a salt; leave salt out")


def check_salt(salt: Any, verb: str) -> int:
    """The number of parts that a key's rows are spread over; 0 for None."""
    if salt is None:
        return 0
    if not isinstance(salt, int) or isinstance(salt, bool) or not 2 <= salt <= nodes.SALT_MAX:
        raise PlanError(
            f"{verb}: salt is the number of parts that the rows of a key are spread over, from 2 "
            f"to {nodes.SALT_MAX}, got {salt!r}; write: salt=8"
        )
    return salt


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


def _updating(join: nodes.Join, late: nodes.Late, ttl_us: int) -> nodes.UpdatingJoin:
    """The join of all rows that have come, whose results change."""
    how = _how(join)
    if late != "drop":
        raise PlanError(
            "a join with a ttl goes by no event time, so no row is late; leave late out"
        )
    return nodes.UpdatingJoin(
        join.left, join.right, join.left_keys, join.right_keys, "", "", how, ttl_us,
        join.condition, suffix=join.suffix,
    )  # fmt: skip


def by_interval(
    join: nodes.Join,
    left: PointOrRange,
    right: PointOrRange,
    closed: str,
    late: nodes.Late,
    *,
    salt: int,
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
    return replace(_made(join, (times[0], times[1]), bounds, late), salt=salt)


def as_of(
    left: nodes.Node, right: nodes.Node, join: Asof, late: nodes.Late, salt: int | None
) -> nodes.AsofJoin:
    """``join_asof`` of two streams: by event time, and with a bound on what is kept."""
    line = f'.join_asof(other, …, strategy="{join.strategy}", tolerance="10 minutes")'
    tolerance = _tolerance_us(join.tolerance, line)
    if tolerance is None and join.strategy != "backward":
        raise PlanError(
            f'join_asof of two streams by strategy="{join.strategy}" would keep rows for ever, as '
            f"one that they find may come at any time; write: {line}"
        )
    if not join.left_by:
        raise PlanError(
            "join_asof of two streams needs a key that is equal on both sides, by which rows go to "
            'tasks; write: .join_asof(…, by="id")'
        )
    times = []
    for node, given in ((left, join.left_on), (right, join.right_on)):
        stream = stream_of(node)
        assert stream is not None
        _check_side(stream, node is left)
        name = given.name if isinstance(given, plan.Column) else ""
        if name not in _times_of(stream):
            known = " or ".join(quoted(time) for time in _times_of(stream))
            raise PlanError(
                f"join_asof of two streams goes by event time, and {expr_text(given)} is not that "
                f"of its side, which is {known or 'left out or changed by an earlier step'}"
            )
        times.append(name)
    return nodes.AsofJoin(
        left, right, join.left_by, join.right_by, times[0], times[1], "left", join.strategy,
        tolerance, join.exact, suffix=join.suffix, late=late, salt=check_salt(salt, "join_asof"),
    )  # fmt: skip


def temporal(
    join: nodes.Join, times: tuple[str | None, str | None], deleted: plan.Expr | None,
    late: nodes.Late, salt: int,
) -> nodes.Node:  # fmt: skip
    """Each row of one side with the version of the other as of its time; of streams or of tables.

    Rows of tables with the columns of the version and, as the last, whether it is one:

        Filter(there)                                inner
          Select(…, version columns if there)        left
            asof(left, WithColumns(right, there))
    """
    if join.how not in get_args(nodes.AsofHow):
        raise PlanError(
            f"join_temporal takes how inner or left, got how={join.how!r}: it finds versions for "
            "the rows of this side"
        )
    how: nodes.AsofHow = "inner" if join.how == "inner" else "left"
    streams = are_streams(join, late, salt)
    sides = stream_of(join.left), stream_of(join.right)
    if not streams and any(side is not None for side in sides):
        raise PlanError(
            "join_temporal is of two streams, or of two tables; a stream finds rows of a table by "
            'equal keys: stream.join(table, on="id")'
        )
    for side, given in zip(sides, times, strict=True):
        if side is not None:
            _check_side(side, side is sides[0])
        elif given is None:
            raise PlanError(
                "join_temporal of tables needs the column of time of both sides; write: "
                '.join_temporal(other, on="id", left_time="ts", right_time="at")'
            )
    named = [_time_of(*each) for each in zip((join.left, join.right), sides, times, strict=True)]
    if streams:
        return nodes.AsofJoin(
            join.left, join.right, join.left_keys, join.right_keys, named[0], named[1], how,
            deleted=deleted, suffix=join.suffix, late=late, salt=salt,
        )  # fmt: skip
    return _temporal_of_tables(join, (named[0], named[1]), deleted)


def _temporal_of_tables(
    join: nodes.Join, times: tuple[str, str], deleted: plan.Expr | None
) -> nodes.Node:
    left, right = schema_of(join.left), schema_of(join.right)
    there = free_name("__there", [*left.names, *right.names])
    is_there: plan.Expr = plan.Literal(True, pa.bool_())
    if deleted is not None:
        is_there = plan.Call(
            "not", (plan.Call("coalesce", (deleted, plan.Literal(False, pa.bool_()))),)
        )
    versions = nodes.WithColumns(
        join.right, (plan.Alias(is_there, there),), path="join_temporal_*/versions"
    )
    found = asof(
        join.left, versions,
        Asof(
            plan.Column(times[0]), plan.Column(times[1]), join.left_keys, join.right_keys,
            "backward", None, exact=True, suffix=join.suffix,
        ),
    )  # fmt: skip
    if join.how == "inner":
        found = nodes.Filter(found, plan.Column(there), path="join_temporal_*/found")
    exprs: list[plan.Expr] = []
    for name in schema_of(found).names:
        column = plan.Column(name)
        if name in left.names or join.how == "inner" or deleted is None:
            exprs.append(column)
        elif name != there:
            value = plan.Case(((plan.Column(there), column),), plan.Literal(None, pa.null()))
            exprs.append(plan.Alias(value, name))
    kept = (expr for expr in exprs if expr != plan.Column(there))
    return nodes.Select(found, tuple(kept), path="join_temporal_*")


def _time_of(node: nodes.Node, stream: Stream | None, given: str | None) -> str:
    """The column of time of a side: event time, unless a column is `given`."""
    if stream is None:
        assert given is not None
        if given not in schema_of(node).names:
            raise PlanError(
                f"join_temporal: there is no column {quoted(given)}; the columns are "
                f"{listed(schema_of(node).names)}"
            )
        return given
    times = _times_of(stream)
    if given is not None and given not in times:
        known = " or ".join(map(quoted, times)) or "left out or changed by an earlier step"
        raise PlanError(
            f"join_temporal of streams goes by event time, which is {known}, not {quoted(given)}"
        )
    if given is None and not times:
        raise PlanError(
            "join_temporal: the column of event time was left out or changed by an earlier step; "
            "keep it as it is"
        )
    return times[0] if given is None else given


def _times_of(stream: Stream) -> list[str]:
    """Event time, if it is there, and ends of windows."""
    return [*([stream.time] if stream.time else []), *sorted(stream.ends)]


def _check_side(stream: Stream, is_left: bool) -> None:
    """Refuse changing results, and rows without event time."""
    stream.check_append_only("a join of two streams")
    stream.check_timed(f"the {'left' if is_left else 'right'} side of a join of two streams")


def _tolerance_us(tolerance: Tolerance | None, line: str) -> int | None:
    """Microseconds that are as many in every zone."""
    if tolerance is None:
        return None
    if not isinstance(tolerance, str | timedelta):
        raise PlanError(
            f"join_asof of two streams needs a length of time as its tolerance, got {tolerance!r}; "
            f"write: {line}"
        )
    number, unit = parse_duration(tolerance)
    if number < 0:
        raise PlanError(f"join_asof needs a tolerance of at least 0, got {tolerance!r}")
    if unit not in _STEADY and not isinstance(tolerance, timedelta):
        raise PlanError(
            f"join_asof of two streams: a {unit} is not always as long; give the tolerance in "
            'hours, for example tolerance="24 hours"'
        )
    return number * UNITS_US[unit]


def _both(join: nodes.Join) -> tuple[Stream, Stream]:
    """What is known of both sides; refuses what no join of two streams can be."""
    left, right = stream_of(join.left), stream_of(join.right)
    assert left is not None
    assert right is not None
    _how(join)
    if left.changes or right.changes:
        raise PlanError(
            "a join of two streams by event time can't take changing results: the rows below "
            'replace earlier ones. Keep all rows for a while: .join(other, on="id", ttl="1 day"), '
            "whose results change as well; or go on with .changes(), which makes each change a row "
            "of its own"
        )
    if not left.timed or not right.timed:
        raise two_streams(left, right)
    return left, right


def _how(join: nodes.Join) -> nodes.StreamJoinHow:
    """What kind of join it is; refuses what no join of two streams can be."""
    if join.how == "cross":
        raise PlanError(
            "two streams can't be joined with how='cross': each row would wait for all rows of the "
            "other for ever; join them by equal keys"
        )
    if join.strategy == "broadcast":
        raise PlanError(
            "a stream can't be broadcast, as nobody ever has all of it; leave strategy out"
        )
    return join.how


def _made(
    join: nodes.Join, times: tuple[str, str], bounds: tuple[int, int], late: nodes.Late
) -> nodes.StreamJoin:
    assert join.how != "cross"
    return nodes.StreamJoin(
        join.left, join.right, join.left_keys, join.right_keys, *times, *bounds, join.how,
        join.condition, suffix=join.suffix, late=late,
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
