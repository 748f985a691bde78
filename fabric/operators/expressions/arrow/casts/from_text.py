"""Casts from strings, read as Spark reads them.

One job: numbers, booleans, dates and timestamps. Blanks and control characters around the value are
dropped. Strings in the usual form go through Arrow's kernels; when one is not, all are read by the
functions here, each different string once. Dates and timestamps are

    date       [+-]y{4,7}[-m[-d[( |T)anything]]]
    timestamp  [+-]y{4,6}[-m[-d[( |T)h[:m[:s[.f*][zone]]]]]]

Months to seconds have one or two digits; digits of a fraction after the sixth are dropped. A zone
is Z, an offset, a region, or UTC or GMT with an offset; a string without a zone is what clocks in
the zone of the type show. A time alone, which Spark takes for today's, is refused: the answer would
depend on the day.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import Kernel, bad_value, by_value
from fabric.operators.expressions.arrow.casts.numbers import Cast, limits
from fabric.operators.expressions.arrow.casts.times import cast_times
from fabric.operators.expressions.arrow.civil import DAY_US, days_from_civil, month_length
from fabric.operators.expressions.arrow.decimals import half_up
from fabric.operators.expressions.arrow.zones import to_instants
from fabric.plan.zones import local_zone, zone_rules

_BLANKS = "".join(map(chr, range(33))) + "\x7f"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_HEX_FLOAT = re.compile(
    r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?"
)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INFINITIES = {"inf": 1, "+inf": 1, "infinity": 1, "+infinity": 1, "-inf": -1, "-infinity": -1}
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
_SPARK_DIGITS_MAX = 38

_USUAL = {
    "integer": r"^-?[0-9]{1,18}$",
    "float": r"^-?[0-9]{1,17}(\.[0-9]{1,17})?$",
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "timestamp": r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$",
}
"""Forms that Arrow's own cast reads as Spark's does; a failing value then takes the slow way."""
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


def from_text(target: pa.DataType, *, try_: bool) -> Cast:
    """The cast of a string to anything but a string, and whether it is total."""
    if t.is_binary(target) or t.is_large_binary(target):
        return (lambda value: value.cast(target)), True
    if t.is_boolean(target):
        return _parsed(_boolean, target, try_=try_), try_
    if t.is_integer(target):
        return _usually("integer", target, _parsed(_integer(target), target, try_=try_)), try_
    if t.is_floating(target):
        wide = _usually("float", pa.float64(), _parsed(_float, pa.float64(), try_=try_))
        return (lambda value: wide(value).cast(target, safe=False)), try_
    if t.is_decimal(target):
        return _parsed(_decimal(target), target, try_=try_), try_
    if t.is_date(target):
        slow = _parsed(day_of_text, pa.int32(), try_=try_, shown=target)
        return _usually("date", target, lambda value: slow(value).view(target)), try_
    return _timestamp(target, try_=try_), try_


def _timestamp(target: pa.DataType, *, try_: bool) -> Kernel:
    micros, zone = pa.timestamp("us"), local_zone(target)
    naive = target.tz is None
    slow = _parsed(
        lambda text: micros_of_text(text, naive=naive, zone=zone), pa.int64(), try_=try_,
        shown=target,
    )  # fmt: skip
    usual: Kernel = lambda value: value.cast(micros)  # noqa: E731
    if zone is not None:
        usual = lambda value: to_instants(value.cast(micros), zone).view(micros)  # noqa: E731
    read = _usually("timestamp", usual, lambda value: slow(value).view(micros))
    finish, _ = cast_times(micros, pa.timestamp(target.unit), try_=try_)
    return lambda value: finish(read(value)).view(target)


def _usually(form: str, usual: pa.DataType | Kernel, slow: Kernel) -> Kernel:
    """Arrow's cast, or `usual`, if every string has the usual form, else `slow`."""
    pattern = _USUAL[form]
    fast = usual if callable(usual) else lambda value: value.cast(usual)

    def kernel(value: pa.Array) -> pa.Array:
        usual = pc.match_substring_regex(value, pattern=pattern)
        if pc.all(usual).as_py() is False:
            return slow(value)
        try:
            return fast(value)
        except pa.ArrowInvalid:
            return slow(value)

    return kernel


def _parsed(
    parse: Callable[[str], Any], dtype: pa.DataType, *, try_: bool, shown: pa.DataType | None = None
) -> Kernel:
    """A kernel from a function that raises ValueError (no value) or ExpressionError (too large)."""

    def one(text: str) -> Any:
        try:
            return parse(text.strip(_BLANKS))
        except (ValueError, ExpressionError) as error:
            if try_:
                return None
            if isinstance(error, ExpressionError):
                raise
            raise bad_value(text, shown or dtype) from error

    return lambda value: by_value(value, one, dtype)


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError(text)
    return _BOOLEANS[text.lower()]


def _integer(target: pa.DataType) -> Callable[[str], int]:
    low, high = limits(target)

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text) or len(text) > 400:
            raise ValueError(text)
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return parse


def _float(text: str) -> float:
    """Java's syntax, so ``1.5f`` and hexadecimal floats are numbers too."""
    if _FLOAT.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if (sign := _INFINITIES.get(text.lower())) is not None:
        return sign * float("inf")
    if text.lower() == "nan" or text in ("+NaN", "-NaN"):
        return float("nan")
    if _HEX_FLOAT.fullmatch(text):
        return _hex_float(text)
    raise ValueError(text)


def _hex_float(text: str) -> float:
    """The suffix letters are hexadecimal digits too, so only one after the exponent is cut off."""
    try:
        return float.fromhex(text.rstrip("fFdD"))
    except OverflowError:
        return float("-inf") if text.startswith("-") else float("inf")


def _decimal(target: pa.DataType) -> Callable[[str], Decimal]:
    limit = Decimal(10) ** (target.precision - target.scale)

    def parse(text: str) -> Decimal:
        if not _DECIMAL.fullmatch(text):
            raise ValueError(text)
        try:
            number = Decimal(text)
        except InvalidOperation as error:
            raise ValueError(text) from error
        if number and number.adjusted() >= _SPARK_DIGITS_MAX:
            raise ExpressionError(f"overflow: {text[:60]} does not fit {target}")
        rounded = half_up(number, target.scale)
        if abs(rounded) >= limit:
            raise ExpressionError(f"overflow: {text[:60]} does not fit {target}")
        return rounded

    return parse


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
