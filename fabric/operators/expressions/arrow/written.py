"""Write timestamps by a Spark datetime pattern, such as ``yyyy-MM-dd HH:mm``; names are English.

One job: `writer`. Each run of letters becomes one column of text, and the columns are joined.

    y year (yy its last two digits)   M month (MMM Jan, MMMM January)   d day   D day of year
    E Mon (EEEE Monday)   Q quarter   H hour 0-23   k hour 1-24   h hour 1-12   K hour 0-11
    a AM or PM   m minute   s second   S.. as many digits of the fraction   X the zone: Z
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.operators.expressions.arrow.buffers import Values, from_numpy, to_numpy
from fabric.operators.expressions.arrow.calendar import weekday
from fabric.operators.expressions.arrow.civil import DAY_US, civil_from_days, days_from_civil
from fabric.plan.functions.calendar import DAY_NAMES
from fabric.plan.functions.patterns import tokens
from fabric.plan.zones import zone_rules

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
           "October", "November", "December")  # fmt: skip
_DAYS = tuple(name.title() for name in DAY_NAMES)
_HOUR_US = 3_600_000_000


class _Times:
    """The fields of a column of timestamps, each computed when it is first asked for."""

    def __init__(self, values: pa.Array, zone: str | None) -> None:
        micros = instants = to_numpy(values)
        if zone is not None:
            micros = zone_rules(zone).from_utc(instants)
        self.offset = micros - instants
        self.days = micros // DAY_US
        self.clock = micros - self.days * DAY_US
        self.year, self.month, self.day = civil_from_days(self.days)

    def day_of_year(self) -> Values:
        """1 is January 1st."""
        first = np.ones_like(self.year)
        return self.days - days_from_civil(self.year, first, first) + 1

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
    "D": _Times.day_of_year,
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
