"""Zones of time: which there are, and which type's clocks show another time than UTC's.

One job: names. Zones are those of the IANA database in the package `tzdata` (``America/New_York``),
and offsets such as ``+05:30``. The package, not the machine's own database: so all machines have
the same rules, and before 1970 those of Java. When clocks change is in the evaluators.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.plan.faults import nearest

UTC = frozenset(("UTC", "Etc/UTC", "Etc/UCT", "Etc/Zulu", "UCT", "Zulu", "Z", "+00:00", "-00:00"))
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
    if not t.is_timestamp(dtype) or dtype.tz is None or dtype.tz in UTC:
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
    if isinstance(zone, str) and (zone in UTC or is_zone(zone)):
        return None
    near = nearest(str(zone), sorted(filter(is_zone, _names())))
    hint = f", did you mean {near!r}?" if near else ""
    return (
        f"there is no zone {zone!r}{hint}; use a name such as 'Europe/Berlin' or an offset such as "
        "'+05:30'",
        near,
    )
