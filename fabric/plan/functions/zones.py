"""Times of other zones: from_utc_timestamp to_utc_timestamp.

One job: their types, and which names of zones there are: those of the machine's IANA database
(``America/New_York``), and offsets such as ``+05:30``. Spark's timestamps have no zone of their
own: what a clock in a zone shows is a timestamp that reads like it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa

from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault, nearest
from fabric.plan.functions.dates import STAMP, time_type
from fabric.plan.functions.registry import Arguments, Function, Rule, Signature, wrong_type
from fabric.plan.types import is_string

_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
_OFFSET_MINUTES_MAX = 18 * 60
_NOT_SPARKS = ("posix/", "right/", "Factory", "localtime", "posixrules", "leapseconds", "EST",
               "MST", "HST", "ROC")  # fmt: skip


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
    if not zone.isascii() or zone in _NOT_SPARKS or zone.startswith(_NOT_SPARKS[:2]):
        return False
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):  # not there, no name, a folder
        return False
    return True


def _check(name: str, literal: Literal | None) -> None:
    if literal is None or literal.value is None or is_zone(str(literal.value)):
        return
    known = sorted(filter(is_zone, available_timezones()))
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
