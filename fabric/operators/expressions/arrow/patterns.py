"""Parse timestamps by a Spark datetime pattern, such as ``yyyy-MM-dd HH:mm``.

One job: `parser`. A pattern is one regular expression (`fabric.plan.functions.patterns`) whose
groups are cut out of all strings at once. Fields that a pattern leaves out are those of 1970-01-01
00:00:00 UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.buffers import Values, from_numpy, to_numpy
from fabric.operators.expressions.arrow.civil import DAY_US, days_from_civil, month_length
from fabric.operators.expressions.arrow.rows import bad_text
from fabric.plan.functions.patterns import MONTHS, read_by

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
