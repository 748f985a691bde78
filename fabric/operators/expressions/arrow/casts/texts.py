"""Days and microseconds from a string, by the forms Spark's casts take.

One job: the two grammars, both after the blanks around are gone.

    date       [+-]y{4,7}[-m[-d[( |T)anything]]]
    timestamp  [+-]y{4,6}[-m[-d[( |T)h[:m[:s[.f*][zone]]]]]]

Months to seconds have one or two digits; a fraction's digits after the sixth are dropped. A zone is
Z, an offset, a region, or UTC or GMT with an offset; without one the string is what clocks of the
type's zone show. A time alone, which Spark takes for today's, is refused: the answer would depend
on the day.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from fabric.operators.expressions.arrow.civil import DAY_US, days_from_civil, month_length
from fabric.plan.zones import zone_rules

_DATE = re.compile(
    r"""(?P<sign>[+-]?)(?P<year>[0-9]{4,7})
        (-(?P<month>[0-9]{1,2}) (-(?P<day>[0-9]{1,2}) ([ T].*)? )? )?""",
    re.S | re.X,
)
_STAMP = re.compile(
    r"""(?P<sign>[+-]?)(?P<year>[0-9]{4,6})
        (-(?P<month>[0-9]{1,2}) (-(?P<day>[0-9]{1,2})
        ([ T](?P<hour>[0-9]{1,2}) (:(?P<minute>[0-9]{1,2}) (:(?P<second>[0-9]{1,2})
        (\.(?P<fraction>[0-9]*))? (?P<zone>[^0-9.:].*)? )?)?)?)?)?""",
    re.S | re.X,
)
_OFFSET = re.compile(
    r"(?:UTC?|GMT)?(?P<sign>[+-])(?P<h>[0-9]{1,2}):?(?P<m>[0-9]{1,2})?(:?(?P<s>[0-9]{2}))?"
)
_SHORT_ZONES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's short zone names."""
_FIXED = {"EST": -5, "MST": -7, "HST": -10, "Z": 0, "UTC": 0, "GMT": 0, "UT": 0}
_OFFSET_MAX_S = 18 * 3600
_LONG_DAYS = 106_751_991
"""Days that fit an int64 of microseconds."""


def day_of_text(text: str) -> int:
    """Days since 1970-01-01; raises ValueError.

    >>> day_of_text("1970-1-2"), day_of_text("1970")
    (1, 0)
    """
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    days = _day(found)
    if not -(2**31) <= days < 2**31:
        raise ValueError(text)
    return days


def micros_of_text(text: str, *, naive: bool = False, zone: str | None = None) -> int:
    """Microseconds since 1970; a naive timestamp drops its zone. Raises ValueError.

    `zone` is the one of texts without a zone, None for UTC.

    >>> micros_of_text("1970-01-01 00:00:01.5"), micros_of_text("1970-01-01 01:00:00+01:00")
    (1500000, 0)
    """
    found = _STAMP.fullmatch(text)
    if found is None:
        raise ValueError(text)
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    fraction = int(f"{(found['fraction'] or '')[:6]:0<6}")
    time = ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction
    micros = _day(found) * DAY_US + time
    ahead = _offset_s(found["zone"].strip(), micros) if found["zone"] else 0
    if zone is not None and not found["zone"]:
        micros = int(zone_rules(zone).to_utc(np.array([micros]))[0])
    micros -= 0 if naive else ahead * 1_000_000
    if not -(2**63) <= micros < 2**63:
        raise ValueError(text)
    return micros


def _day(found: re.Match[str]) -> int:
    year, month, day = (int(found[part] or 1) for part in ("year", "month", "day"))
    year = -year if found["sign"] == "-" else year
    if not 1 <= month <= 12:
        raise ValueError(found[0])
    parts = np.array([year]), np.array([month]), np.array([day])
    if not 1 <= day <= int(month_length(*parts[:2])[0]):
        raise ValueError(found[0])
    return int(days_from_civil(*parts)[0])


def _offset_s(zone: str, local_micros: int) -> int:
    """Seconds by which a zone is ahead of UTC at a local time."""
    if zone in _FIXED:
        return _FIXED[zone] * 3600
    if (offset := _OFFSET.fullmatch(zone)) is not None:
        parts = [int(offset[part] or 0) for part in "hms"]
        seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
        if seconds > _OFFSET_MAX_S or parts[1] > 59 or parts[2] > 59:
            raise ValueError(zone)
        return -seconds if offset["sign"] == "-" else seconds
    return _region_offset_s(_SHORT_ZONES.get(zone, zone), local_micros)


def _region_offset_s(region: str, local_micros: int) -> int:
    """Of a repeated local time the first, of a skipped one the offset before the gap."""
    try:
        info = ZoneInfo(region)
        local = datetime(1970, 1, 1) + timedelta(microseconds=local_micros)
    except (ZoneInfoNotFoundError, OverflowError, OSError) as error:
        raise ValueError(region) from error
    offset = local.replace(tzinfo=info).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
