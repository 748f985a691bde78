"""Windows of event time and the triggers that fire them, as frozen descriptions.

One job: what a window is, checked at birth. All lengths are whole microseconds. A window is
``[start, end)``; starts are multiples of the size (or slide) from `offset_us`, so 0 means 1970
by the clocks of the time's zone (`clock_zone`). Which windows a time belongs to is
`fabric.event_time.windows`' to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.durations import DURATION_US_MAX, duration_text, lengths_text
from fabric.plan.faults import with_article
from fabric.plan.zones import divides_offsets, local_zone, zone_rules

LateResults = Literal["close", "each"]

WINDOW_START = "window_start"
WINDOW_END = "window_end"
WINDOWS_PER_ROW_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of `size_us` side by side: each row is in exactly one.

    >>> print(Tumbling(3_600_000_000))
    tumbling(1 hour)
    >>> Tumbling(0)
    Traceback (most recent call last):
    fabric.errors.PlanError: the size of a tumbling window must be at least 1 microsecond, got 0
    """

    size_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        _length("tumbling", "size", self.size_us)
        _offset("tumbling", self.offset_us)

    def __str__(self) -> str:
        return f"tumbling({duration_text(self.size_us)}{_offset_text(self.offset_us)})"


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of `size_us`, one beginning every `slide_us`: a row is in several.

    >>> print(Sliding(3_600_000_000, 900_000_000))
    sliding(1 hour, slide=15 minutes)
    >>> Sliding(1_000_000, 2_000_000)
    Traceback (most recent call last):
    fabric.errors.PlanError: a window that slides by 2 seconds but is 1 second long leaves rows \
out; use a slide of at most its size
    """

    size_us: int
    slide_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        _length("sliding", "size", self.size_us)
        _length("sliding", "slide", self.slide_us)
        _offset("sliding", self.offset_us)
        if self.slide_us > self.size_us:
            raise PlanError(
                f"a window that slides by {duration_text(self.slide_us)} but is "
                f"{duration_text(self.size_us)} long leaves rows out; "
                "use a slide of at most its size"
            )
        _few("sliding", -(-self.size_us // self.slide_us), "slide")

    def __str__(self) -> str:
        slide = duration_text(self.slide_us)
        offset = _offset_text(self.offset_us)
        return f"sliding({duration_text(self.size_us)}, slide={slide}{offset})"


@dataclass(frozen=True, slots=True)
class Session:
    """Rows of one key at most `gap_us` apart: a window ends that long after its last row.

    A row alone is the window ``[time, time + gap_us)``; windows that overlap or touch are one.

    >>> print(Session(1_800_000_000))
    session(30 minutes)
    """

    gap_us: int

    def __post_init__(self) -> None:
        _length("session", "gap", self.gap_us)

    def __str__(self) -> str:
        return f"session({duration_text(self.gap_us)})"


@dataclass(frozen=True, slots=True)
class Cumulative:
    """Windows that begin together every `size_us` and end every `step_us` until then.

    >>> print(Cumulative(86_400_000_000, 3_600_000_000))
    cumulative(1 day, step=1 hour)
    >>> Cumulative(3_600_000_000, 7_000_000)
    Traceback (most recent call last):
    fabric.errors.PlanError: the size of a cumulative window must be a multiple of its step, got \
1 hour and 7 seconds
    """

    size_us: int
    step_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        _length("cumulative", "size", self.size_us)
        _length("cumulative", "step", self.step_us)
        _offset("cumulative", self.offset_us)
        if self.size_us % self.step_us:
            raise PlanError(
                "the size of a cumulative window must be a multiple of its step, got "
                f"{duration_text(self.size_us)} and {duration_text(self.step_us)}"
            )
        _few("cumulative", self.size_us // self.step_us, "step")

    def __str__(self) -> str:
        step = duration_text(self.step_us)
        offset = _offset_text(self.offset_us)
        return f"cumulative({duration_text(self.size_us)}, step={step}{offset})"


@dataclass(frozen=True, slots=True)
class Count:
    """Each `n_rows` rows of one key, as they arrive; event time plays no part.

    >>> print(Count(100))
    count(100)
    """

    n_rows: int

    def __post_init__(self) -> None:
        _whole("the rows of a count window", self.n_rows)
        if self.n_rows < 1:
            raise PlanError(f"the rows of a count window must be at least 1, got {self.n_rows}")

    def __str__(self) -> str:
        return f"count({self.n_rows})"


@dataclass(frozen=True, slots=True)
class Global:
    """One window for all time; it gives results by its trigger, and when the input ends.

    >>> print(Global())
    global()
    """

    def __str__(self) -> str:
        return "global()"


Window = Tumbling | Sliding | Session | Cumulative | Count | Global


def clock_zone(window: Window | None, dtype: pa.DataType) -> str | None:
    """The zone by whose clocks windows over times of type `dtype` begin and end; None: by UTC's.

    None, too, where that is the same: clocks in Berlin are whole hours ahead of UTC, so hours begin
    together.

    Raises
    ------
    PlanError
        A window would begin amid what clocks show twice: there is no order in which to close it.

    Examples
    --------
    >>> berlin = pa.timestamp("us", "Europe/Berlin")
    >>> clock_zone(Tumbling(86_400_000_000), berlin), clock_zone(Tumbling(3_600_000_000), berlin)
    ('Europe/Berlin', None)
    """
    match window:
        case Tumbling(size_us=step, offset_us=offset):
            size, bounds = step, {(step, offset)}
        case Sliding(size_us=length, slide_us=step, offset_us=offset):
            size, bounds = step, {(step, offset), (step, offset + length)}
        case Cumulative(size_us=size, step_us=step, offset_us=offset):
            bounds = {(step, offset)}
        case _:
            return None
    zone = local_zone(dtype)
    if zone is None or divides_offsets(zone, size):
        return None
    for first, again in zip(*zone_rules(zone).shown_twice(), strict=True):
        for every, start in bounds:
            bound = int(first) + every - (int(first) - start) % every
            if bound < again:
                at = datetime.fromtimestamp(int(bound) // 1_000_000, UTC).replace(tzinfo=None)
                raise PlanError(
                    f"{window}: clocks in {zone} show {at} twice, amid an hour or so that they "
                    "show again, and a window would begin then; take windows of whole hours or "
                    'days, or those of UTC: .dt.convert_time_zone("UTC") before with_watermark'
                )
    return zone


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a window gives its result: the default is once, when no row can change it any more.

    Parameters
    ----------
    early_us
        While the window is open, give what is there this often (processing time); None: never.
    count
        Give what is there after every so many rows; None: never.
    late
        "close": the watermark gives one result, when the window closes for rows that are not
        late. "each": it gives one at the window's end, and one more after each batch that still
        changed it, until it closes.

    Examples
    --------
    >>> print(Trigger(), Trigger(early_us=60_000_000, late="each"), sep="; ")
    on close; every 1 minute, on each update
    >>> Trigger().emits_changes(Tumbling(1_000_000), lateness_us=0)
    False
    """

    early_us: int | None = None
    count: int | None = None
    late: LateResults = "close"

    def __post_init__(self) -> None:
        if self.early_us is not None:
            _length("early", "interval", self.early_us, "result")
        if self.count is not None:
            _whole("the count of a trigger", self.count)
            if self.count < 1:
                raise PlanError(f"the count of a trigger must be at least 1, got {self.count}")
        if self.late not in ("close", "each"):
            raise PlanError(f'late results come on "close" or "each" update, got {self.late!r}')

    def __str__(self) -> str:
        parts = [
            f"every {duration_text(self.early_us)}" if self.early_us else "",
            f"every {self.count} rows" if self.count else "",
            "on close" if self.late == "close" else "on each update",
        ]
        return ", ".join(part for part in parts if part)

    def emits_changes(self, window: Window, lateness_us: int) -> bool:
        """Whether a window may give more than one result, so that later ones replace earlier."""
        if isinstance(window, Count):
            return False
        if self.early_us is not None or self.count is not None:
            return True
        waits = isinstance(window, Session) or lateness_us > 0
        return self.late == "each" and waits


def _offset_text(offset_us: int) -> str:
    return f", offset={duration_text(offset_us)}" if offset_us else ""


def _whole(what: str, value: object) -> None:
    if type(value) is not int:
        raise PlanError(f"{what} must be a whole number, got {value!r}")


def _length(kind: str, what: str, us: int, thing: str = "window") -> None:
    length = f"the {what} of {with_article(kind)} {thing}"
    _whole(f"{length}, in microseconds,", us)
    if us < 1:
        raise PlanError(f"{length} must be at least 1 microsecond, got {us}")
    if us > DURATION_US_MAX:
        raise PlanError(f"{length} is longer than 36,000 years: {us}")


def _offset(kind: str, us: int) -> None:
    _whole(f"the offset of a {kind} window, in microseconds,", us)
    if abs(us) > DURATION_US_MAX:
        raise PlanError(f"the offset of a {kind} window is longer than 36,000 years: {us}")


def _few(kind: str, n: int, what: str) -> None:
    if n > WINDOWS_PER_ROW_MAX:
        raise PlanError(
            f"each row would be in {n} {kind} windows; at most {WINDOWS_PER_ROW_MAX} are allowed: "
            f"use a longer {what}"
        )


def window_text(window: Window) -> str:
    """A window as `fabric.tumbling` and its like make it.

    >>> print(window_text(Sliding(3_600_000_000, 60_000_000)))
    sliding("1 hour", "1 minute")
    """
    match window:
        case Tumbling(size_us=size, offset_us=offset):
            return f"tumbling({lengths_text(size)}{_shift_text(offset)})"
        case Sliding(size_us=size, slide_us=slide, offset_us=offset):
            return f"sliding({lengths_text(size, slide)}{_shift_text(offset)})"
        case Cumulative(size_us=size, step_us=step, offset_us=offset):
            return f"cumulative({lengths_text(size, step)}{_shift_text(offset)})"
        case Session(gap_us=gap):
            return f"session({lengths_text(gap)})"
        case Count(n_rows=n_rows):
            return f"count_window({n_rows})"
        case Global():
            return "global_window()"


def _shift_text(offset_us: int) -> str:
    return f", offset={lengths_text(offset_us)}" if offset_us else ""
