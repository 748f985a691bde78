"""Casts to strings, written as Spark (that is, Java) writes them.

One job: floats as ``1.0E10``, decimals without an exponent, timestamps in UTC without trailing
zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.bound import Kernel, Values, by_value, from_numpy, to_numpy
from fabric.operators.expressions.arrow.civil import DAY_US, civil_from_days, days_of

_PLAIN_SCALE = 6
"""Arrow writes decimals of larger scale with an exponent when they are small."""
_TRAILING_ZEROS = r"\.?0*$"


def to_text(source: pa.DataType, target: pa.DataType) -> Kernel:
    """The cast to a string type; total."""
    write = _writer(source)
    return lambda value: write(value).cast(target)


def _writer(source: pa.DataType) -> Kernel:
    if t.is_floating(source):
        return _floats
    if t.is_decimal(source) and source.scale > _PLAIN_SCALE:
        return lambda value: by_value(value, lambda number: format(number, "f"), pa.string())
    if t.is_date(source):
        return _dates
    if t.is_timestamp(source):
        return _timestamps
    if t.is_binary(source) or t.is_large_binary(source):
        return _utf8
    return lambda value: value.cast(pa.string())


def _floats(value: pa.Array) -> pa.Array:
    number = np.float64 if t.is_float64(value.type) else np.float32
    texts = [None if v is None else java_text(number(v)) for v in value.to_pylist()]
    return pa.array(texts, pa.string())


def java_text(value: np.floating[Any]) -> str:
    """The shortest text that reads back as `value`, laid out as Java does: at least two digits.

    >>> java_text(np.float64(1e10)), java_text(np.float64(-0.0)), java_text(np.float32(1.1))
    ('1.0E10', '-0.0', '1.1')
    """
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if np.signbit(value) else ""
    magnitude = np.abs(value)
    if magnitude == 0:
        return f"{sign}0.0"
    mantissa, _, exponent = np.format_float_scientific(magnitude, trim="0").partition("e")
    closer, _, shifted = f"{magnitude:.1e}".partition("e")
    if mantissa.endswith(".0") and type(value)(f"{closer}e{shifted}") == magnitude:
        mantissa, exponent = closer, shifted
    if not 1e-3 <= magnitude < 1e7:
        return f"{sign}{mantissa}E{int(exponent)}"
    return sign + np.format_float_positional(magnitude, trim="0")


def _dates(value: pa.Array) -> pa.Array:
    if _in_four_digits(value):
        return value.cast(pa.string())
    year, month, day = civil_from_days(days_of(value))
    return _written(value, [_day_text(*ymd) for ymd in zip(year, month, day, strict=True)])


def _timestamps(value: pa.Array) -> pa.Array:
    """By microseconds; nanoseconds are floored."""
    micros = value.cast(pa.timestamp("us", value.type.tz), safe=False).view(pa.timestamp("us"))
    if _in_four_digits(micros):
        return pc.replace_substring_regex(micros.cast(pa.string()), _TRAILING_ZEROS, "")
    days = days_of(micros)
    year, month, day = civil_from_days(days)
    times = _time_texts(to_numpy(micros) - days * DAY_US)
    rows = zip(year, month, day, times, strict=True)
    return _written(value, [f"{_day_text(y, m, d)} {time}" for y, m, d, time in rows])


def _written(value: pa.Array, texts: list[str]) -> pa.Array:
    return pc.if_else(pc.is_valid(value), pa.array(texts, pa.string()), None)


def _time_texts(micros: Values) -> list[str]:
    times = from_numpy(micros, pa.int64()).view(pa.time64("us")).cast(pa.string())
    texts: list[str] = pc.replace_substring_regex(times, _TRAILING_ZEROS, "").to_pylist()
    return texts


def _day_text(year: int, month: int, day: int) -> str:
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _in_four_digits(value: pa.Array) -> bool:
    """Whether every day lies in the years 1 to 9999, which Arrow writes as Java does."""
    days = days_of(value)
    return bool(days.size == 0 or (days.min() >= -719_162 and days.max() <= 2_932_896))


def _utf8(value: pa.Array) -> pa.Array:
    """Bytes that are no UTF-8 become the replacement character."""
    try:
        return value.cast(pa.string())
    except pa.ArrowInvalid:
        return by_value(value, lambda data: data.decode("utf-8", "replace"), pa.string())
