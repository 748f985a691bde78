"""Buckets of time: the beginning of the one a time lies in, side by side or overlapping.

One job: `bucket`, and the windows of ``group_by_dynamic``. Fixed lengths are counted from 1970 by
the clocks of the time's zone, weeks from a Monday; months from January. A day begins when clocks
first show it.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.clients.dataframe.durations import Length, parse_duration
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.durations import UNITS_MONTHS, UNITS_US
from fabric.plan.mend import free_name
from fabric.plan.schema import schema_of, type_of
from fabric.plan.types import is_date, is_timestamp

_DAYS = {"day": 1, "week": 7}
_MONDAY = 4  # 1970-01-05
_WINDOWS_MAX = 10_000


def bucket(value: plan.Expr, every: Length, what: str = "every") -> plan.Expr:
    """The beginning of the bucket of length `every` that the time `value` lies in."""
    number, unit = _positive(every, what)
    if unit in UNITS_MONTHS:
        months = number * UNITS_MONTHS[unit]
        first = plan.Call("date_trunc", (_text("month"), value))
        month = plan.Call("add", (
            plan.Call("multiply", (_long(plan.Call("year", (first,))), _int(12))),
            plan.Call("subtract", (_long(plan.Call("month", (first,))), _int(1))),
        ))  # fmt: skip
        return _later(first, _minus(plan.Call("pmod", (month, _int(months)))), "month")
    if unit in _DAYS:
        date = plan.Cast(value, pa.date32())
        counted = plan.Call("unix_date", (date,))
        if unit == "week":
            counted = plan.Call("subtract", (counted, _int(_MONDAY)))
        over = plan.Call("pmod", (counted, _int(number * _DAYS[unit])))
        day = plan.Call("date_add", (date, plan.Cast(_minus(over), pa.int32())))
        return plan.Call("as_time_of", (day, value))
    shown = _shown(value)
    since = plan.Call("pmod", (shown, _int(number * UNITS_US[unit])))
    start = _later(value, _minus(since), "microsecond")
    # Clocks that were changed since then show an hour more or less: 0 but for that.
    wrong = plan.Call("subtract", (plan.Call("subtract", (shown, since)), _shown(start)))
    return _later(start, wrong, "microsecond")


def _shown(value: plan.Expr) -> plan.Expr:
    """What the clocks of its zone show, as microseconds since 1970."""
    naive = plan.Cast(value, pa.timestamp("us"))
    return plan.Call("unix_micros", (plan.Cast(naive, pa.timestamp("us", "UTC")),))


def dynamic_windows(
    source: nodes.Node,
    index: str,
    *,
    every: Length,
    period: Length | None,
    offset: Length | None,
    closed: str,
    label: str,
) -> tuple[nodes.Node, plan.Expr]:
    """`source` with a row for each window of each row, and what the window is called."""
    dtype = schema_of(source).field(index).type
    if not (is_date(dtype) or is_timestamp(dtype)):
        raise PlanError(f"group_by_dynamic needs a date or a time, and {index!r} is {dtype}")
    time: plan.Expr = plan.Column(index)
    inside = time if closed == "left" else _later(time, _int(-1), "microsecond")
    shift = None if offset is None else parse_duration(offset)
    if shift is not None:
        inside = _later(inside, _int(-shift[0]), shift[1])
    start = bucket(inside, every)
    step = _positive(every, "every")
    length = step if period is None else _positive(period, "period")

    after = _later_day if step[1] in _DAYS or step[1] in UNITS_MONTHS else _later_by

    # Months are counted from their first day: a window is moved by the offset last of all.
    def moved(value: plan.Expr) -> plan.Expr:
        return value if shift is None else _later(value, _int(shift[0]), shift[1])

    def end(start: plan.Expr) -> plan.Expr:
        return moved(after(start, *length))

    called = moved if label == "left" else end
    n_windows = 1 if period is None else _n_windows(every, period)
    if n_windows == 1 and length == step:
        return source, _as(called(start), dtype, source)
    starts = plan.Call(
        "array", tuple(after(start, -step[0] * i, step[1]) for i in range(n_windows))
    )
    name = free_name("__start", schema_of(source).names)
    node: nodes.Node = nodes.WithColumns(
        source, (plan.Alias(starts, name),), path="group_by_dynamic_*/starts"
    )
    node = nodes.Explode(node, name, path="group_by_dynamic_*/explode")
    stamp = plan.Cast(time, pa.timestamp("us", "UTC")) if is_date(dtype) else time
    within = plan.Call("lt" if closed == "left" else "le", (stamp, end(plan.Column(name))))
    node = nodes.Filter(node, within, path="group_by_dynamic_*/filter")
    return node, _as(called(plan.Column(name)), dtype, node)


def _later_by(start: plan.Expr, number: int, unit: str) -> plan.Expr:
    return _later(start, _int(number), unit)


def _later_day(start: plan.Expr, number: int, unit: str) -> plan.Expr:
    """The beginning of a day so much after one that begins at `start`: not at midnight where clocks
    skipped it."""
    if unit not in _DAYS and unit not in UNITS_MONTHS:
        return _later_by(start, number, unit)
    date = plan.Cast(start, pa.date32())
    function, each = ("date_add", _DAYS) if unit in _DAYS else ("add_months", UNITS_MONTHS)
    day = plan.Call(function, (date, plan.Literal(number * each[unit], pa.int32())))
    return plan.Call("as_time_of", (day, start))


def _n_windows(every: Length, period: Length) -> int:
    """How many windows a row can lie in."""
    step, length = _positive(every, "every"), _positive(period, "period")
    if (step[1] in UNITS_MONTHS) != (length[1] in UNITS_MONTHS):
        raise PlanError(
            f"group_by_dynamic: every={every!r} and period={period!r} must both be months or both "
            "be of a fixed length"
        )
    units = UNITS_MONTHS if step[1] in UNITS_MONTHS else UNITS_US
    found = -(-length[0] * units[length[1]] // (step[0] * units[step[1]]))
    if found > _WINDOWS_MAX:
        raise PlanError(f"each row would lie in {found:,} windows; take a longer every=")
    return found


def _positive(length: Length, what: str) -> tuple[int, str]:
    number, unit = parse_duration(length)
    if number <= 0:
        raise PlanError(f"{what} must be above 0, got {length!r}")
    return number, unit


def _as(value: plan.Expr, dtype: pa.DataType, source: nodes.Node) -> plan.Expr:
    same = type_of(value, schema_of(source)).equals(dtype)
    return value if same else plan.Cast(value, dtype)


def _later(value: plan.Expr, number: plan.Expr, unit: str) -> plan.Expr:
    return plan.Call("add_interval", (value, number, _text(unit)))


def _minus(value: plan.Expr) -> plan.Expr:
    return plan.Call("negate", (value,))


def _long(value: plan.Expr) -> plan.Expr:
    return plan.Cast(value, pa.int64())


def _int(value: int) -> plan.Literal:
    return plan.Literal(value, pa.int64())


def _text(value: str) -> plan.Literal:
    return plan.Literal(value, pa.string())
