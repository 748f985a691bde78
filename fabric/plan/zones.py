"""Zones of time: which there are, and when their clocks change.

Zones are those of the IANA database in the package `tzdata` (``America/New_York``), and offsets
such as ``+05:30``. The package, not the machine's own database: so all machines have the same
rules, and before 1970 those of Java.

`zone_rules` is the table of changes of a zone. `zoneinfo` tells one offset at a time, so the table
is found by asking it once a day and closing in on each change; that takes about 0.1 s, once a zone
and process. Rules of today go on for ever: years from 2100 are looked up four centuries earlier or
later, which have the same calendar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.plan.faults import nearest

UTC_NAMES = frozenset(
    ("UTC", "Etc/UTC", "Etc/UCT", "Etc/Zulu", "UCT", "Zulu", "Z", "+00:00", "-00:00")
)
"""Zones whose clocks show UTC."""
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
_YEARS = range(1970, 2038)
_OFFSET_MINUTES_MAX = 18 * 60
_LEGACY = frozenset((
    "Factory", "EST", "MST", "HST", "ROC", "GMT+0", "GMT-0", "EST5EDT", "CST6CDT", "MST7MDT",
    "PST8PDT",
))  # fmt: skip
"""Names that Java reads another way or not at all."""


def offset_minutes(zone: str) -> int | None:
    """Minutes east of UTC of an offset such as ``-05:00``, or None when it is none."""
    match = _OFFSET.fullmatch(zone)
    if match is None or int(match[3]) > 59:
        return None
    minutes = int(match[2]) * 60 + int(match[3])
    if minutes > _OFFSET_MINUTES_MAX:
        return None
    return -minutes if match[1] == "-" else minutes


@lru_cache(maxsize=1024)
def is_zone(zone: str) -> bool:
    """Whether Fabric and Spark know the zone by this name."""
    if offset_minutes(zone) is not None:
        return True
    return zone not in _LEGACY and zone in _names()


def zone_info(zone: str) -> ZoneInfo:
    """The zone of a name that `is_zone`."""
    with files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=zone)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    """All names in the database."""
    return frozenset(files("tzdata").joinpath("zones").read_text("ascii").split())


def local_zone(dtype: pa.DataType) -> str | None:
    """The zone of a timestamp whose clocks do not show UTC, or None.

    >>> local_zone(pa.timestamp("us", "Asia/Tokyo")), local_zone(pa.timestamp("us", "UTC"))
    ('Asia/Tokyo', None)
    """
    if not t.is_timestamp(dtype) or dtype.tz is None or dtype.tz in UTC_NAMES:
        return None
    zone: str = dtype.tz
    return zone


@lru_cache(maxsize=256)
def divides_offsets(zone: str, step_us: int) -> bool:
    """Whether clocks in `zone` were always a multiple of `step_us` ahead of UTC since 1970.

    >>> divides_offsets("Europe/Berlin", 3_600_000_000), divides_offsets("+05:30", 3_600_000_000)
    (True, False)
    """
    minutes = offset_minutes(zone)
    if minutes is not None:
        return minutes * 60_000_000 % step_us == 0
    clock = zone_info(zone)
    days = (datetime(year, month, 15, tzinfo=clock) for year in _YEARS for month in range(1, 13))
    ahead = {day.utcoffset() or timedelta() for day in days}
    return all(offset // timedelta(microseconds=1) % step_us == 0 for offset in ahead)


def check_zones(schema: pa.Schema) -> None:
    """Raise `PlanError` for a column with a zone that there is not, however deep in its type."""
    for field in schema:
        if (fault := _fault_in(field.type)) is not None:
            raise PlanError(f"column {field.name!r} is {field.type}: {fault}")


def _fault_in(dtype: pa.DataType) -> str | None:
    if t.is_timestamp(dtype):
        known = dtype.tz is None or dtype.tz in _LEGACY
        fault = None if known else no_zone(dtype.tz)
        return None if fault is None else fault[0]
    inner = dtype.value_type if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype) else None
    parts = [inner] if inner else [dtype.field(i).type for i in range(dtype.num_fields)]
    return next((found for part in parts if (found := _fault_in(part)) is not None), None)


def no_zone(zone: object) -> tuple[str, str | None] | None:
    """What is wrong with the name of a zone and the nearest good one; None when it is good."""
    if isinstance(zone, str) and (zone in UTC_NAMES or is_zone(zone)):
        return None
    near = nearest(str(zone), sorted(filter(is_zone, _names())))
    hint = f", did you mean {near!r}?" if near else ""
    return (
        f"there is no zone {zone!r}{hint}; use a name such as 'Europe/Berlin' or an offset such as "
        "'+05:30'",
        near,
    )


Values = NDArray[np.int64]
DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_US = 146_097 * DAY_US
_FIRST, _DAILY, _LAST = -50_000, 30_000, 200_000
"""Days from 1833 to 2052 are asked for one by one, then every week to 2517."""
_FOLDED = 50_000 * DAY_US
"""From 2106 on a time stands for the one in the same year of the cycle that ends in 2506."""
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class ZoneRules:
    """Microseconds clocks are ahead of UTC: ``offsets[i]`` before ``changes[i]``, in order.

    In `shown` each change is in local time: what clocks show when the later offset is sure. Before,
    the earlier one holds: in an overlap that is the first of the two times, and a time in a gap,
    which no clock shows, is read as if clocks had not changed. Java has the same rule.
    """

    changes: Values
    shown: Values
    offsets: Values

    def from_utc(self, micros: Values) -> Values:
        """What clocks show."""
        local: Values = micros + self._offset(micros, self.changes)
        return local

    def to_utc(self, micros: Values) -> Values:
        """When clocks show it."""
        instant: Values = micros - self._offset(micros, self.shown)
        return instant

    def later(self, micros: Values) -> Values:
        """When clocks show it for the last time: after the next change if they show it then."""
        first = self.to_utc(micros)
        second = micros - self._offset(first + DAY_US, self.changes)
        return np.where(self.from_utc(second) == micros, np.maximum(first, second), first)

    def beside(self, micros: Values, before: Values) -> Values:
        """When clocks show it, with the offset they had at the instant `before` where they do."""
        kept = micros - (self.from_utc(before) - before)
        return np.where(self.from_utc(kept) == micros, kept, self.to_utc(micros))

    def forward(self, micros: Values) -> Values:
        """What clocks show, were they never set back: what they show twice is the beginning of it
        until they show it for the second time.

        >>> at = np.array([0, 30, 60, 90]) * 60_000_000 + 1_729_987_200_000_000  # 02:00 in Berlin
        >>> shown = zone_rules("Europe/Berlin").forward(at) // 60_000_000 % 1440
        >>> [f"{int(m) // 60}:{int(m) % 60:02}" for m in shown]
        ['2:00', '2:00', '2:00', '2:30']
        """
        folded = _folded(micros)
        change = np.searchsorted(self.changes, folded, side="right")
        local = folded + self.offsets[change]
        again = np.append(self.changes + self.offsets[1:], np.iinfo(np.int64).max)
        shown: Values = np.minimum(local, again[change]) + (micros - folded)
        return shown

    def begun(self, local: Values) -> Values:
        """The first instant at which `forward` is `local` or later."""
        folded = _folded(local)
        change = np.searchsorted(self.shown, folded, side="right")
        skipped = np.append(self.changes, np.iinfo(np.int64).max)
        first: Values = np.minimum(folded - self.offsets[change], skipped[change])
        return first + (local - folded)

    def shown_twice(self) -> tuple[Values, Values]:
        """From when to when clocks show times that they show again, in local time, since 1970."""
        back = (np.diff(self.offsets) < 0) & (self.changes >= 0)
        return (self.changes + self.offsets[1:])[back], (self.changes + self.offsets[:-1])[back]

    def _offset(self, micros: Values, changes: Values) -> Values:
        found: Values = self.offsets[np.searchsorted(changes, _folded(micros), side="right")]
        return found


def _folded(micros: Values) -> Values:
    """Times that are very late four centuries earlier, or some more."""
    late = micros >= _FOLDED + _CYCLE_US
    if np.any(late):
        return np.where(late, (micros - _FOLDED) % _CYCLE_US + _FOLDED, micros)
    return micros


@lru_cache(maxsize=64)
def zone_rules(zone: str) -> ZoneRules:
    """The rules of a zone by its name or offset.

    >>> int(zone_rules("+01:30").from_utc(np.array([0]))[0]) // 60_000_000
    90
    """
    minutes = offset_minutes(zone)
    if minutes is not None:
        nothing = np.zeros(0, np.int64)
        return ZoneRules(nothing, nothing, np.array([minutes * 60 * _SECOND]))
    clock = _Clock(zone_info(zone))
    days = [*range(_FIRST, _DAILY), *range(_DAILY, _LAST, 7)]
    seconds = [day * 86_400 for day in days]
    offsets = [clock.offset(second) for second in seconds]
    changes, after = [], [offsets[0]]
    for index in range(1, len(seconds)):
        if offsets[index] != offsets[index - 1]:
            changes.append(clock.change(seconds[index - 1], seconds[index]))
            after.append(offsets[index])
    at = np.array(changes, np.int64) * _SECOND
    ahead = np.array(after, np.int64) * _SECOND
    return ZoneRules(at, at + np.maximum(ahead[:-1], ahead[1:]), ahead)


class _Clock:
    """One zone, asked by seconds since 1970."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone

    def offset(self, second: int) -> int:
        """Seconds ahead of UTC."""
        local = (_EPOCH + timedelta(seconds=second)).astimezone(self._zone)
        ahead = local.utcoffset()
        assert ahead is not None
        return ahead.days * 86_400 + ahead.seconds

    def change(self, before: int, after: int) -> int:
        """The first second of the offset at `after`."""
        wanted = self.offset(after)
        while after - before > 1:
            middle = (before + after) // 2
            if self.offset(middle) == wanted:
                after = middle
            else:
                before = middle
        return after
