"""Windows of event time as users make them.

One job: `tumbling`, `sliding`, `cumulative`, `session`, `count_window` and `global_window`, and
what ``.window("1 hour", slide="5 minutes")`` means.
"""

from __future__ import annotations

from fabric.clients.dataframe.durations import Length, us
from fabric.errors import PlanError
from fabric.plan.durations import DURATION_US_MAX
from fabric.plan.event_windows import (
    Count,
    Cumulative,
    Global,
    Session,
    Sliding,
    Tumbling,
    Window,
)


def tumbling(size: Length, *, offset: Length = "0 seconds") -> Tumbling:
    """Windows side by side, from multiples of `size` since 1970, moved by `offset`.

    They go by the clocks of the time's zone (UTC for a time without): a day begins at midnight
    there, and has 23 or 25 hours when clocks change.

    >>> print(tumbling("1 hour"))
    tumbling(1 hour)
    """
    return Tumbling(us(size, "size", least=1), _offset_us(offset))


def sliding(size: Length, slide: Length, *, offset: Length = "0 seconds") -> Sliding:
    """Windows of `size`, one beginning every `slide`: each row is in several.

    >>> print(sliding("1 hour", "5 minutes"))
    sliding(1 hour, slide=5 minutes)
    """
    return Sliding(us(size, "size", least=1), us(slide, "slide", least=1), _offset_us(offset))


def cumulative(size: Length, step: Length, *, offset: Length = "0 seconds") -> Cumulative:
    """Windows that begin together every `size` and grow by `step`: "today so far" each hour.

    >>> print(cumulative("1 day", "1 hour"))
    cumulative(1 day, step=1 hour)
    """
    return Cumulative(us(size, "size", least=1), us(step, "step", least=1), _offset_us(offset))


def session(gap: Length) -> Session:
    """The rows of a key that follow each other within `gap`.

    Rows exactly `gap` apart are one session, as in Flink: a row alone is a window of that length,
    and windows that touch are one. A session ends `gap` after its last row.

    >>> from datetime import datetime
    >>> from fabric import from_dict, streams
    >>> seen = [datetime(2026, 1, 1, 9), datetime(2026, 1, 1, 9, 30), datetime(2026, 1, 1, 10, 1)]
    >>> rows = streams.replay(from_dict({"ts": seen, "user": ["ann"] * 3}), "ts")
    >>> visits = rows.with_watermark("ts").group_by("user").window(session("30 minutes")).count()
    >>> [(row["window_end"].isoformat(" ", "minutes"), row["count"]) for row in visits.to_dicts()]
    [('2026-01-01 10:00', 2), ('2026-01-01 10:31', 1)]
    """
    return Session(us(gap, "gap", least=1))


def count_window(n_rows: int) -> Count:
    """Each `n_rows` rows of a key, as they come.

    >>> print(count_window(100))
    count(100)
    """
    return Count(n_rows)


def global_window() -> Global:
    """One window for all time, which gives a result when the stream ends, and by ``early``.

    >>> from fabric import streams
    >>> rows = streams.generator(n_rows=9, n_keys=1).with_watermark("ts")
    >>> rows.group_by("key").window(global_window()).count().to_dicts()[0]["count"]
    9
    """
    return Global()


def _offset_us(offset: Length) -> int:
    """Either way: a timedelta may be negative."""
    return us(offset, "offset", least=-DURATION_US_MAX)


def window_of(
    given: Length | Window, slide: Length | None, step: Length | None, offset: Length | None
) -> Window:
    """The window that ``.window(given, slide=…, step=…, offset=…)`` means."""
    if isinstance(given, Window):
        for name, value in (("slide", slide), ("step", step), ("offset", offset)):
            if value is not None:
                raise PlanError(f"the window says all of itself; leave {name}= out, or put it in")
        return given
    if slide is not None and step is not None:
        raise PlanError("a window has a slide (sliding) or a step (cumulative), not both")
    us(given, "window", least=1)  # named as it was given, not by what it becomes
    moved: Length = "0 seconds" if offset is None else offset
    if slide is not None:
        return sliding(given, slide, offset=moved)
    if step is not None:
        return cumulative(given, step, offset=moved)
    return tumbling(given, offset=moved)
