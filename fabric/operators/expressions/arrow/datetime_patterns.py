"""Parse and write timestamps by a Spark datetime pattern, such as ``yyyy-MM-dd HH:mm``.

To parse, a pattern is one regular expression (`fabric.plan.functions.datetime_patterns`) whose
groups are cut out of all strings at once. Fields that a pattern leaves out are those of 1970-01-01
00:00:00 UTC. To write, each run of letters becomes one column of text, and the columns are joined;
names are English.

    y year (yy its last two digits)   M month (MMM Jan, MMMM January)   d day   D day of year
    E Mon (EEEE Monday)   Q quarter   H hour 0-23   k hour 1-24   h hour 1-12   K hour 0-11
    a AM or PM   m minute   s second   S.. as many digits of the fraction   X the zone: Z
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import Values, bad_text, from_numpy, to_numpy
from fabric.operators.expressions.arrow.calendar import weekday
from fabric.operators.expressions.arrow.civil import (
    DAY_US,
    civil_from_days,
    day_in_year,
    days_from_civil,
    month_length,
)
from fabric.plan.functions.calendar import DAY_NAMES
from fabric.plan.functions.datetime_patterns import MONTHS, read_by, tokens
from fabric.plan.zones import zone_rules

STAMP = pa.timestamp("us", "UTC")
_RANGES = {
    "month": (1, 12), "day": (1, 31), "hour": (0, 23), "clock_hour": (1, 12), "minute": (0, 59),
    "second": (0, 59),
}  # fmt: skip

_DAY = {"year", "short_year", "month", "month_name", "day"}
_LETTERS = re.compile(r"([A-Za-z])\1*")
_DIRECTIVES = {  # Spark's letters; the last ones are the offset of a zone
    "yyyy": "%Y", "M": "%m", "MM": "%m", "MMM": "%b", "d": "%d", "dd": "%d", "H": "%H",
    "HH": "%H", "h": "%I", "hh": "%I", "a": "%p", "m": "%M", "mm": "%M", "s": "%S", "ss": "%S",
    "SSS": "%3f", "SSSSSS": "%6f", "SSSSSSSSS": "%9f", "XX": "%z", "XXX": "%:z",
}  # fmt: skip
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
           "October", "November", "December")  # fmt: skip
_DAYS = tuple(name.title() for name in DAY_NAMES)
_HOUR_US = 3_600_000_000


def parser(pattern: str, *, try_: bool = False) -> Callable[[pa.Array], pa.Array]:
    """A function from strings to timestamps in UTC; one that does not fit raises, or is null.

    >>> parser("d/M/yyyy")(pa.array(["5/1/2024", None])).cast(pa.string()).to_pylist()
    ['2024-01-05 00:00:00.000000Z', None]
    """
    reading = read_by(pattern)

    def parse(values: pa.Array) -> pa.Array:
        parts = pc.extract_regex(values, pattern=reading.regex)
        fields = {name: _number(parts, name) for name in reading.fields}
        micros, wrong = _assembled(fields, len(values))
        fits = pc.and_(pc.is_valid(parts), pc.invert(pa.array(wrong)))
        if not try_:
            wrong_rows = pc.and_(pc.is_valid(values), pc.invert(fits))
            if pc.any(wrong_rows).as_py():
                raise _refused(values.filter(wrong_rows)[0].as_py(), pattern, reading.fields)
        return from_numpy(micros, STAMP, fits)

    return parse


def _number(parts: pa.Array, name: str) -> Values:
    """A field of every row as an integer; anything where the row is null."""
    text = pc.fill_null(pc.struct_field(parts, name), "")
    if name == "half":
        return to_numpy(pc.equal(pc.ascii_upper(text), "PM").cast(pa.int64()))
    if name == "month_name":
        found = pc.index_in(text, value_set=pa.array(MONTHS))
        return to_numpy(pc.fill_null(found, 0).cast(pa.int64())) + 1
    if name == "zone":
        return _zone_minutes(text)
    if name == "fraction":
        text = pc.utf8_slice_codeunits(pc.utf8_rpad(text, 6, "0"), 0, 6)
    return to_numpy(pc.if_else(pc.equal(text, ""), "0", text).cast(pa.int64()))


def _zone_minutes(text: pa.Array) -> Values:
    digits = pc.replace_substring_regex(text, "[^0-9]", "")
    padded = pc.utf8_rpad(digits, 4, "0")
    number = to_numpy(padded.cast(pa.int64()))
    minutes = number // 100 * 60 + number % 100
    sign = 1 - 2 * to_numpy(pc.starts_with(text, "-").cast(pa.int64()))
    ahead: Values = sign * minutes
    return ahead


def _assembled(fields: dict[str, Values], n_rows: int) -> tuple[Values, Values]:
    """Microseconds since 1970, and which rows name no day or time."""

    def field(name: str, default: int) -> Values:
        return fields.get(name, np.full(n_rows, default, np.int64))

    year = fields["short_year"] + 2000 if "short_year" in fields else field("year", 1970)
    month = fields["month_name"] if "month_name" in fields else field("month", 1)
    day = field("day", 1)
    hour = field("hour", 0)
    if "clock_hour" in fields:
        hour = fields["clock_hour"] % 12 + 12 * fields["half"]
    wrong = np.zeros(n_rows, bool)
    for name, (low, high) in _RANGES.items():
        if name in fields:
            wrong |= (fields[name] < low) | (fields[name] > high)
    month = np.clip(month, 1, 12)
    wrong |= (day > month_length(year, month)) | (year == 0)
    wrong |= np.abs(field("zone", 0)) > 18 * 60
    seconds = (hour * 60 + field("minute", 0) - field("zone", 0)) * 60 + field("second", 0)
    days = days_from_civil(year, month, np.maximum(day, 1))
    return days * DAY_US + seconds * 1_000_000 + field("fraction", 0), wrong


def _refused(value: str, pattern: str, fields: Collection[str]) -> ExpressionError:
    """The error of a text, with the pattern as Spark and as ``strftime`` write it."""
    kind = "date" if _DAY.issuperset(fields) else "date and time"
    message = f"{bad_text(value)} is not a valid {kind} for the pattern {pattern!r}"
    letters = [one[0] for one in _LETTERS.finditer(pattern)]
    if all(one in _DIRECTIVES for one in letters) and "'" not in pattern:
        message += f" ({_LETTERS.sub(lambda one: _DIRECTIVES[one[0]], pattern)})"
    return ExpressionError(message)


class _Times:
    """The fields of a column of timestamps."""

    def __init__(self, values: pa.Array, zone: str | None) -> None:
        micros = instants = to_numpy(values)
        if zone is not None:
            micros = zone_rules(zone).from_utc(instants)
        self.offset = micros - instants
        self.days = micros // DAY_US
        self.clock = micros - self.days * DAY_US
        self.year, self.month, self.day = civil_from_days(self.days)

    def hour(self) -> Values:
        """0 to 23."""
        hour: Values = self.clock // _HOUR_US
        return hour


def writer(pattern: str, zone: str | None = None) -> Callable[[pa.Array], pa.Array]:
    """A function from timestamps to strings, as clocks in `zone` show them; null stays null.

    >>> writer("EEE d MMM yyyy")(pa.array([0, None], pa.timestamp("us"))).to_pylist()
    ['Thu 1 Jan 1970', None]
    """
    parts = [(kind == "letters", text) for kind, text in tokens(pattern)]

    def write(values: pa.Array) -> pa.Array:
        times = _Times(values, zone)
        columns = [_column(text, times) if letters else pa.scalar(text) for letters, text in parts]
        if not any(isinstance(column, pa.Array) for column in columns):
            columns.append(pa.repeat("", len(values)))
        joined = pc.binary_join_element_wise(*columns, "")
        return pc.if_else(pc.is_valid(values), joined, pa.scalar(None, pa.string()))

    return write


def _column(letters: str, times: _Times) -> pa.Array:
    letter, width = letters[0], len(letters)
    if letter == "y":
        return _years(times.year, width)
    if letter == "M" and width > 2:
        return _names(_MONTHS, times.month - 1, short=width == 3)
    if letter == "E":
        return _names(_DAYS, weekday(times.days), short=width < 4)
    if letter == "a":
        return _names(("AM", "PM"), times.hour() // 12, short=False)
    if letter == "S":
        return _padded(times.clock % 1_000_000 * 1_000 // 10 ** (9 - width), width)
    if letter in "Xx":
        return _offsets(times.offset, letter, width)
    return _padded(_NUMBERS[letter](times), width)


_NUMBERS: dict[str, Callable[[_Times], Values]] = {
    "M": lambda times: times.month,
    "d": lambda times: times.day,
    "D": lambda times: day_in_year(times.days) + 1,
    "Q": lambda times: (times.month + 2) // 3,
    "H": _Times.hour,
    "k": lambda times: (times.hour() + 23) % 24 + 1,
    "h": lambda times: (times.hour() + 11) % 12 + 1,
    "K": lambda times: times.hour() % 12,
    "m": lambda times: times.clock // 60_000_000 % 60,
    "s": lambda times: times.clock // 1_000_000 % 60,
}


def _offsets(micros: Values, letter: str, width: int) -> pa.Array:
    """``+05``, or ``+0530`` where there are minutes; ``+0530``; ``+05:30``. X is Z for UTC."""
    minutes = np.abs(micros) // 60_000_000
    sign = pa.array(np.where(micros < 0, "-", "+"), pa.string())
    hours, rest = _padded(minutes // 60, 2), _padded(minutes % 60, 2)
    if width == 1:
        rest = pc.if_else(pa.array(minutes % 60 == 0), "", rest)
    text = pc.binary_join_element_wise(sign, hours, rest, ":" if width == 3 else "")
    if width == 3:
        text = pc.replace_substring_regex(text, r"^([+-]):", r"\1")
    return pc.if_else(pa.array(minutes == 0), "Z", text) if letter == "X" else text


def _years(year: Values, width: int) -> pa.Array:
    """A minus before years below 0; from four letters on a plus before years that are longer."""
    if width == 2:
        return _padded(np.abs(year) % 100, 2)
    digits = _padded(np.abs(year), width)
    sign = pa.array(np.where(year < 0, "-", ""), pa.string())
    if width >= 4:
        longer = pa.array(year >= 10**width)
        sign = pc.if_else(longer, "+", sign)
    return pc.binary_join_element_wise(sign, digits, "")


def _padded(numbers: Values, width: int) -> pa.Array:
    text = from_numpy(numbers, pa.int64()).cast(pa.string())
    return pc.utf8_lpad(text, width, "0") if width > 1 else text


def _names(names: Sequence[str], numbers: Values, *, short: bool) -> pa.Array:
    texts = pa.array([name[:3] if short else name for name in names])
    return texts.take(from_numpy(numbers, pa.int64()))
