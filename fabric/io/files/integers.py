"""Numbers that Arrow's parsers would round, or take beyond their type, in silence.

`exact_type`: integers beyond int64, which they take for doubles. Doubles are looked at first, which
costs nothing to speak of; texts only where these could be rounded integers. `decimal_beyond`: a
decimal of more digits than its type has.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

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
