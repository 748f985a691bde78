"""Python values in Arrow types, or a `ValueError` when a type can't hold one.

One job: the one door from Python values to Arrow ones. pyarrow crashes the process on a decimal
with a huge negative exponent (seen with 25.0.1: ``Decimal("1E-999999999")``), and cuts fractions
off for integers and times, so both are looked at first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Literal
from fabric.plan.types import is_list, plain

_DIGITS_MAX = 100
_WHOLE = {type(None), int, bool, str, bytes, date, datetime, time, timedelta}


def scalar_of(literal: Literal) -> pa.Scalar:
    """`literal` as an Arrow scalar of its plain type.

    >>> scalar_of(Literal(1, pa.int8()))
    <pyarrow.Int8Scalar: 1>
    """
    value, dtype = literal.value, plain(literal.dtype)
    if isinstance(value, Decimal):
        check_decimal(value)
    try:
        return pa.scalar(value, dtype)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f"{str(value)[:80]!r} is not a valid {literal.dtype}") from error


def check_decimal(value: Decimal) -> Decimal:
    """Return `value` when Arrow can look at it safely, else raise `ValueError`."""
    number = value.as_tuple()
    exponent = number.exponent
    if isinstance(exponent, str) or max(abs(exponent), len(number.digits)) > _DIGITS_MAX:
        raise ValueError(f"{str(value)[:80]!r} is not a decimal of up to {_DIGITS_MAX} digits")
    return value


def array_of(values: Any, dtype: pa.DataType) -> pa.Array:
    """`values` (a sequence, or a numpy array) as an array of `dtype`.

    Raises what `pa.array` does, and `ValueError` for a number with a fraction where `dtype` has
    none, at any depth.

    >>> array_of([1, 2.0, None], pa.int8()).to_pylist()
    [1, 2, None]
    >>> array_of([1.5], pa.int8())
    Traceback (most recent call last):
    ValueError: 1.5 is not whole
    """
    if not isinstance(values, np.ndarray) or values.dtype == object:  # of others Arrow sees to it
        _check_numbers(values, dtype)
    return pa.array(values, dtype)


def _check_numbers(values: Iterable[Any], dtype: pa.DataType) -> None:
    """Refuse decimals that Arrow can't look at, and fractions that it would cut off."""
    dtype = plain(dtype)
    if t.is_integer(dtype) or t.is_temporal(dtype):
        if not _WHOLE.issuperset(map(type, values)):
            for value in values:
                _check_whole(value)
    elif t.is_decimal(dtype):
        for value in values:
            if isinstance(value, Decimal):
                check_decimal(value)
    elif is_list(dtype):
        for value in values:
            _check_numbers([] if value is None else value, dtype.value_type)
    elif t.is_map(dtype):
        for value in values:
            pairs = list(value.items() if isinstance(value, Mapping) else value or ())
            _check_numbers([key for key, _ in pairs], dtype.key_type)
            _check_numbers([item for _, item in pairs], dtype.item_type)
    elif t.is_struct(dtype):
        rows = [value for value in values if value is not None]
        for index, field in enumerate(dtype):
            _check_numbers([_field(row, field.name, index) for row in rows], field.type)


def _check_whole(value: object) -> None:
    if isinstance(value, Decimal):
        check_decimal(value)
    if isinstance(value, float | np.floating | Decimal | Fraction) and value != int(value):
        raise ValueError(f"{value} is not whole")


def _field(row: Any, name: str, index: int) -> Any:
    """Part of a struct: of a dict by name, of a tuple by place; what is neither Arrow refuses."""
    if isinstance(row, Mapping):
        return row.get(name)
    return row[index] if isinstance(row, tuple) and index < len(row) else None
