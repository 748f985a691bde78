"""Arrow types as Spark sees them: families, widening, decimal arithmetic, allowed casts.

One job: pure questions about types. Which function takes which types is in `functions/`. A
dictionary is what its values are; unsigned integers count as the next wider signed type (uint64 as
decimal(20, 0)), a half float as float32. The rules were checked against live Spark 4.3 (ANSI);
`tests/plan/functions/spark_types.txt` holds its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

import pyarrow as pa
from pyarrow import types as t

MAX_PRECISION = 38
_MIN_SCALE = 6
_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
_FLAT: dict[pa.DataType, pa.DataType] = {
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}
_ENCODED = frozenset(
    dtype.id
    for dtype in (pa.dictionary(pa.int8(), pa.int8()), pa.run_end_encoded(pa.int16(), pa.int8()))
)
_LISTS = frozenset(
    make(pa.int8()).id for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
) | {pa.list_(pa.int8(), 1).id}
_COMPUTED_AS_IS = frozenset(
    dtype.id
    for dtype in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
        pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.date32(),
        pa.timestamp("us"), pa.decimal128(1, 0),
    )
)  # fmt: skip
"""Kinds of types that are flat whatever their parameters; asked first, because most are."""
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
_UNITS = ("s", "ms", "us", "ns")


def plain(dtype: pa.DataType) -> pa.DataType:
    """The type of a dictionary's values, run-end encoding taken off as well; others unchanged."""
    while dtype.id in _ENCODED:
        dtype = dtype.value_type
    return dtype


def flat_type(dtype: pa.DataType) -> pa.DataType:
    """The layout that values of a type have while they are computed with, at any depth.

    >>> flat_type(pa.dictionary(pa.int32(), pa.string_view()))
    DataType(string)
    >>> flat_type(pa.large_list(pa.string_view()))
    ListType(list<item: string>)
    """
    if dtype.id in _COMPUTED_AS_IS:
        return dtype
    dtype = plain(dtype)
    if t.is_fixed_size_binary(dtype):
        return pa.binary()
    if t.is_decimal32(dtype) or t.is_decimal64(dtype):
        return pa.decimal128(dtype.precision, dtype.scale)
    if is_list(dtype):
        return pa.list_(flat_type(dtype.value_type))
    if t.is_struct(dtype):
        return pa.struct([pa.field(field.name, flat_type(field.type)) for field in dtype.fields])
    return _FLAT.get(dtype, dtype)


def is_list(dtype: pa.DataType) -> bool:
    """A list of any layout."""
    return plain(dtype).id in _LISTS


def is_struct(dtype: pa.DataType) -> bool:
    """Named fields."""
    return bool(t.is_struct(plain(dtype)))


def numeric(dtype: pa.DataType) -> pa.DataType | None:
    """The type a number computes in (signed, float or decimal128), or None when it is not a number.

    >>> numeric(pa.uint32()), numeric(pa.string())
    (DataType(int64), None)
    """
    dtype = plain(dtype)
    dtype = _WIDER.get(dtype, dtype)
    if t.is_decimal(dtype):
        fits = dtype.precision <= MAX_PRECISION and 0 <= dtype.scale <= dtype.precision
        return pa.decimal128(dtype.precision, dtype.scale) if fits else None
    return dtype if t.is_integer(dtype) or t.is_floating(dtype) else None


def is_string(dtype: pa.DataType) -> bool:
    """Text of any layout."""
    dtype = plain(dtype)
    return bool(t.is_string(dtype) or t.is_large_string(dtype) or t.is_string_view(dtype))


def is_binary(dtype: pa.DataType) -> bool:
    """Bytes of any layout."""
    dtype = plain(dtype)
    return bool(
        t.is_binary(dtype)
        or t.is_large_binary(dtype)
        or t.is_binary_view(dtype)
        or t.is_fixed_size_binary(dtype)
    )


def is_boolean(dtype: pa.DataType) -> bool:
    """True, false or null."""
    return bool(t.is_boolean(plain(dtype)))


def is_date(dtype: pa.DataType) -> bool:
    """A day without a time."""
    return bool(t.is_date(plain(dtype)))


def is_timestamp(dtype: pa.DataType) -> bool:
    """A day and time, with or without a zone."""
    return bool(t.is_timestamp(plain(dtype)))


def is_nested(dtype: pa.DataType) -> bool:
    """A list, struct, map or union."""
    return bool(t.is_nested(plain(dtype)))


def is_comparable(dtype: pa.DataType) -> bool:
    """Whether ``=``, ``<``, join keys and sort keys take the type: all that is not nested."""
    return not is_nested(dtype)


def is_groupable(dtype: pa.DataType) -> bool:
    """Whether group by and distinct take the type: lists and structs too, but no map or union."""
    dtype = plain(dtype)
    if t.is_map(dtype) or t.is_union(dtype):
        return False
    if is_nested(dtype):
        fields = (dtype.field(i) for i in range(dtype.num_fields))
        return all(is_groupable(field.type) for field in fields)
    return True


def as_decimal(dtype: pa.DataType) -> pa.DataType:
    """The decimal that holds every value of an integer type; a decimal is itself."""
    return dtype if t.is_decimal(dtype) else pa.decimal128(_DIGITS[dtype], 0)


def bounded(precision: int, scale: int) -> pa.DataType:
    """Spark's ``DecimalType.bounded``: both cut at 38."""
    return pa.decimal128(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def adjusted(precision: int, scale: int) -> pa.DataType:
    """Spark's ``adjustPrecisionScale``: too wide a result gives up fraction digits, down to 6.

    >>> adjusted(39, 10)
    Decimal128Type(decimal128(38, 9))
    """
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    integral = precision - scale
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - integral, min(scale, _MIN_SCALE)))


def sum_digits(a: pa.DataType, b: pa.DataType) -> int:
    """The digits that a sum of two decimals can have.

    >>> sum_digits(pa.decimal128(15, 2), pa.decimal128(5, 4))
    18
    """
    return int(max(a.scale, b.scale) + max(a.precision - a.scale, b.precision - b.scale) + 1)


def product_digits(a: pa.DataType, b: pa.DataType) -> int:
    """The digits that a product of two decimals can have, as Spark counts them."""
    return int(a.precision + b.precision + 1)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type both are cast to before they are compared, or None when there is none.

    Used for comparison, join keys, case, coalesce, is_in and union. Strings never turn into numbers
    or dates by themselves (Spark would cast them): the plan must say so with a cast.

    >>> common_type(pa.int32(), pa.float32()), common_type(pa.int8(), pa.decimal128(10, 2))
    (DataType(double), Decimal128Type(decimal128(10, 2)))
    """
    if left.equals(right):
        return left
    left, right = plain(left), plain(right)
    if left.equals(right) or t.is_null(right):
        return left
    if t.is_null(left):
        return right
    return next((found for rule in _COMMON if (found := rule(left, right)) is not None), None)


def common_of(dtypes: Iterable[pa.DataType]) -> pa.DataType | None:
    """`common_type` of them all; null for none."""
    return reduce(
        lambda found, dtype: None if found is None else common_type(found, dtype),
        dtypes,
        pa.null(),
    )


def common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The number type both widen to: an integer with a float32 is float64, as in Spark ANSI."""
    a, b = numeric(left), numeric(right)
    if a is None or b is None:
        return None
    if a.equals(b):
        return a
    if t.is_floating(a) or t.is_floating(b):
        return pa.float64()
    if t.is_integer(a) and t.is_integer(b):
        return max(a, b, key=lambda dtype: dtype.bit_width)
    return _wider_decimal(as_decimal(a), as_decimal(b))


def _wider_decimal(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Spark's ``widerDecimalType``: keeps the integral digits, gives up fraction digits."""
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    over = max(0, precision - MAX_PRECISION)
    return pa.decimal128(precision - over, max(0, scale - over))


def _common_text(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    for family, small, large in (
        (is_string, pa.string(), pa.large_string()),
        (is_binary, pa.binary(), pa.large_binary()),
    ):
        if family(left) and family(right):
            return large if large in (left, right) else small
    return None


def _common_time(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if t.is_date(left) and t.is_date(right):
        return pa.date32()
    if not all(t.is_date(dtype) or t.is_timestamp(dtype) for dtype in (left, right)):
        return None
    stamps = [dtype for dtype in (left, right) if t.is_timestamp(dtype)]
    zones = {dtype.tz for dtype in stamps if dtype.tz}
    unit = max((dtype.unit for dtype in stamps), key=_UNITS.index)
    return pa.timestamp(unit, None if not zones else zones.pop() if len(zones) == 1 else "UTC")


def _common_unit(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if t.is_duration(left) and t.is_duration(right):
        return pa.duration(max(left.unit, right.unit, key=_UNITS.index))
    if t.is_time(left) and t.is_time(right):
        unit = max(left.unit, right.unit, key=_UNITS.index)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    return None


def _common_list(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if not (is_list(left) and is_list(right)):
        return None
    common = common_type(left.value_type, right.value_type)
    return None if common is None else pa.list_(flat_type(common))


def _common_struct(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Of the same names in the same order."""
    if not (is_struct(left) and is_struct(right)) or left.names != right.names:
        return None
    pairs = zip(left.fields, right.fields, strict=True)
    common = [common_type(a.type, b.type) for a, b in pairs]
    if None in common:
        return None
    return pa.struct([*zip(left.names, map(flat_type, common), strict=True)])


_COMMON: tuple[Callable[[pa.DataType, pa.DataType], pa.DataType | None], ...] = (
    common_number,
    _common_text,
    _common_time,
    _common_unit,
    _common_list,
    _common_struct,
)


def _family(dtype: pa.DataType) -> str:
    """The row and column of `_CASTS` a type belongs to."""
    dtype = plain(dtype)
    if is_timestamp(dtype):
        return "timestamp" if dtype.tz else "naive"
    if t.is_integer(dtype):
        return "integer"
    if numeric(dtype) is not None:
        return "fraction"
    tests: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
        ("string", is_string), ("binary", is_binary), ("boolean", is_boolean), ("date", is_date),
        ("null", t.is_null),
    )  # fmt: skip
    return next((name for name, test in tests if test(dtype)), "other")


_CASTS: dict[str, frozenset[str]] = {
    "integer": frozenset({"integer", "fraction", "string", "boolean", "timestamp"}),
    "fraction": frozenset({"integer", "fraction", "string", "boolean", "timestamp"}),
    "boolean": frozenset({"integer", "fraction", "string", "boolean"}),
    "string": frozenset(
        {"integer", "fraction", "string", "boolean", "date", "timestamp", "naive", "binary"}
    ),
    "binary": frozenset({"string", "binary"}),
    "date": frozenset({"date", "timestamp", "naive", "string"}),
    "timestamp": frozenset({"date", "timestamp", "naive", "string", "integer", "fraction"}),
    "naive": frozenset({"date", "timestamp", "naive", "string"}),
}
"""What each family can be cast to; only a timestamp with a zone is a number of seconds."""


def can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast from `source` to `target` exists (single values may still fail).

    >>> can_cast(pa.string(), pa.date32()), can_cast(pa.date32(), pa.int64())
    (True, False)
    """
    if plain(source).equals(plain(target)) or t.is_null(plain(source)):
        return True
    if _common_unit(plain(source), plain(target)) is not None:
        return True
    if is_nested(source) or is_nested(target):
        return _can_cast_nested(plain(source), plain(target))
    return _family(target) in _CASTS.get(_family(source), frozenset())


def _can_cast_nested(source: pa.DataType, target: pa.DataType) -> bool:
    """A list item by item, a struct field by field, whatever the fields are called."""
    if is_list(source) and is_list(target):
        return can_cast(source.value_type, target.value_type)
    if not (is_struct(source) and is_struct(target)):
        return False
    if source.num_fields != target.num_fields:
        return False
    pairs = zip(source.fields, target.fields, strict=True)
    return all(can_cast(a.type, b.type) for a, b in pairs)
