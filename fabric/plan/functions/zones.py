"""Times of other zones: from_utc_timestamp to_utc_timestamp.

One job: their types, and which zones there are: those of the IANA database in the package `tzdata`
(``America/New_York``), and offsets such as ``+05:30``. The package, not the machine's own database:
so all machines have the same rules, and before 1970 those of Java. Spark's timestamps have no zone
of their own: what a clock in a zone shows is a timestamp that reads like it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import pyarrow as pa

from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault, nearest
from fabric.plan.functions.dates import STAMP, time_type
from fabric.plan.functions.registry import Arguments, Function, Rule, Signature, wrong_type
from fabric.plan.types import is_string

_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
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


def _check(name: str, literal: Literal | None) -> None:
    if literal is None or literal.value is None or is_zone(str(literal.value)):
        return
    known = sorted(filter(is_zone, _names()))
    near = nearest(str(literal.value), known)
    raise ArgumentFault(
        f"{name} knows no zone {literal.value!r}; use a name such as 'Europe/Berlin' or an offset "
        "such as '+05:30'",
        1,
        None if near is None else Literal(near, pa.string()),
    )


def _moved(name: str) -> Rule:
    def rule(args: Arguments) -> Signature:
        time_type(name, 0, args.types[0])
        if not is_string(args.types[1]):
            raise wrong_type(name, 1, args.types[1], "a zone such as 'Europe/Berlin'", None)
        _check(name, args.literals[1])
        return Signature((STAMP, pa.string()), STAMP)

    return rule


FUNCTIONS = (
    Function("from_utc_timestamp", (2, 2), _moved("from_utc_timestamp"),
             "what a clock in zone b (constant) shows at the time a in UTC", (1,)),
    Function("to_utc_timestamp", (2, 2), _moved("to_utc_timestamp"),
             "the time in UTC when a clock in zone b (constant) shows a", (1,)),
)  # fmt: skip
