"""Values of text files that Arrow's parsers would misread: dates in a format, long numbers.

`times`: texts of a CSV file by a format that the user gives, and a refusal of what is none;
`check_format`. Arrow's parser takes days that a month does not have for the first days of the next
one; those are looked at by their text.

`exact_type`: integers beyond int64, which the parsers take for doubles. Doubles are looked at
first, which costs nothing to speak of; texts only where these could be rounded integers.
`decimal_beyond`: a decimal of more digits than its type has.
"""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ConfigError

_TIME_OF_DAY = ("%H", "%I", "%M", "%S", "%T", "%R", "%r", "%X", "%c", "%s")
_LONG = {"%D": "%m/%d/%y", "%x": "%m/%d/%y", "%F": "%Y-%m-%d", "%c": "%a %b %e %T %Y"}
_OVERFLOW_DAYS_MAX = 3
_PARTS = re.compile(r"%.|\s+|.", re.DOTALL)


def has_time(format: str) -> bool:
    """Whether the format says a time of day."""
    return any(directive in format for directive in _TIME_OF_DAY)


def is_by_format(dtype: pa.DataType) -> bool:
    """Whether a column of this type is read by the format."""
    return bool(t.is_date(dtype) or t.is_timestamp(dtype))


def check_format(option: str, field: pa.Field, format: str) -> None:
    """Raise `ConfigError` for a type with a zone and a format without one, and the reverse."""
    if not is_by_format(field.type):
        return
    zone = field.type.tz if t.is_timestamp(field.type) else None
    if zone is not None and "%z" not in format:
        raise ConfigError(
            f"option {option}: column {field.name!r} is {field.type}, and date_format {format!r} "
            f"reads no zone (%z); read it as timestamp[{field.type.unit}], then "
            f'.dt.replace_time_zone("{zone}")'
        )
    if zone is None and "%z" in format:
        raise ConfigError(
            f"option {option}: column {field.name!r} is {field.type}, and date_format {format!r} "
            "reads a zone (%z); read it as timestamp[us, tz=UTC], and cast"
        )


def times(texts: pa.Array, dtype: pa.DataType, format: str) -> tuple[pa.Array, int | None]:
    """The column in its type, and where the first text is that is no such time.

    >>> times(pa.array(["29.02.2024", None]), pa.date32(), "%d.%m.%Y")[0].to_pylist()
    [datetime.date(2024, 2, 29), None]
    >>> times(pa.array(["01.02.2024", "30.02.2024"]), pa.date32(), "%d.%m.%Y")[1]
    1
    """
    unit = dtype.unit if t.is_timestamp(dtype) else "s"
    found = pc.strptime(texts, format=format, unit=unit, error_is_null=True)
    bad = pc.and_(pc.is_null(found), pc.is_valid(texts))
    days = _day_of(format)
    is_early = pc.fill_null(pc.less_equal(pc.day(found), _OVERFLOW_DAYS_MAX), False)
    doubted = pc.unique(texts if "%z" in format else texts.filter(is_early)).to_pylist()
    wrong = [text for text in doubted if text is not None and not _has_day(text, days, format)]
    if wrong:
        bad = pc.or_(bad, pc.fill_null(pc.is_in(texts, pa.array(wrong, texts.type)), False))
    place = pc.index(bad, True).as_py()
    return (found.cast(dtype) if place < 0 else found), (None if place < 0 else place)


def _has_day(text: str, days: re.Pattern[str] | None, format: str) -> bool:
    match = days.fullmatch(text) if days is not None else None
    if match is None:
        return True
    if (zone := match.groupdict().get("zone")) is not None:  # clocks of the zone say the day
        text, format = text.replace(zone, "", 1), format.replace("%z", "", 1)
    found = pc.strptime(pa.array([text]), format=format, unit="s")
    return bool(int(match["day"]) == pc.day(found)[0].as_py())


def _day_of(format: str) -> re.Pattern[str] | None:
    """A pattern that finds the day of the month in a text of the format; None: it has none."""
    for short, long in _LONG.items():
        format = format.replace(short, long)
    pattern, n_days = "", 0
    for part in _PARTS.findall(format):
        if part in ("%d", "%e"):
            n_days += 1
            pattern += r"\s*(?P<day>\d{1,2})" if n_days == 1 else r"\s*\d{1,2}"
        elif part == "%z" and "?P<zone>" not in pattern:
            pattern += r"(?P<zone>Z|[+-]\d\d:?\d\d)"
        elif part == "%Y":
            pattern += r"-?\d{1,4}"
        elif part in ("%m", "%y", "%H", "%M", "%S", "%I"):
            pattern += r"\s*\d{1,2}"
        elif part.startswith("%"):
            pattern += ".+?"
        else:
            pattern += r"\s*" if part.isspace() else re.escape(part)
    return re.compile(pattern) if n_days else None


_INTEGER = r"^-?[0-9]+$"
_DIGITS_MAX, _LEAST = 38, 2.0**63


def may_be_rounded(doubles: pa.Array | pa.ChunkedArray) -> bool:
    """Whether these may have been read from integers that int64 does not hold.

    >>> may_be_rounded(pa.array([1.0, 1e19, None])), may_be_rounded(pa.array([1e19, 0.5]))
    (True, False)
    """
    doubles = doubles.drop_null()
    largest = pc.max(pc.abs(doubles)).as_py()
    if largest is None or not largest >= _LEAST:
        return False
    return bool(pc.all(pc.equal(doubles, pc.trunc(doubles))).as_py())


def exact_type(texts: pa.Array | pa.ChunkedArray) -> pa.DataType | None:
    """The type of integers of any length; None when not all are integers.

    >>> exact_type(pa.array(["1", "12345678901234567890"])), exact_type(pa.array(["-1", "1" * 38]))
    (DataType(uint64), Decimal128Type(decimal128(38, 0)))
    >>> exact_type(pa.array(["9" * 39])), exact_type(pa.array(["1", "1e20"]))
    (DataType(string), None)
    """
    texts = pc.utf8_trim_whitespace(texts.drop_null())
    if not pc.all(pc.match_substring_regex(texts, _INTEGER)).as_py():
        return None
    try:
        texts.cast(pa.uint64())
        return pa.uint64()
    except pa.ArrowInvalid:
        digits = pc.utf8_ltrim(pc.utf8_ltrim(texts, "-"), "0")
        n_digits = pc.max(pc.utf8_length(digits)).as_py()
        return pa.decimal128(_DIGITS_MAX, 0) if n_digits <= _DIGITS_MAX else pa.string()


def decimal_beyond(column: pa.Array, dtype: pa.DataType) -> str | None:
    """The first value of more digits than the type of decimals has."""
    try:
        column.validate(full=True)
        return None
    except pa.ArrowInvalid:
        limit = Decimal(10) ** (dtype.precision - dtype.scale)
        values = (value for value in column.to_pylist() if value is not None)
        return next((str(value) for value in values if abs(value) >= limit), None)
