"""Functions that Arrow has no kernel for, applied value by value in Python.

One job: call a Python function once per *different* string or once per row. Slow paths only: every
caller handles its common values with a kernel first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import Datum, as_array

_SHOWN = 60


def by_value(values: pa.Array, function: Callable[[Any], Any], dtype: pa.DataType) -> pa.Array:
    """``function`` of each value as `dtype`; null stays null.

    >>> by_value(pa.array(["a", None, "a"]), str.upper, pa.string()).to_pylist()
    ['A', None, 'A']
    """
    encoded = values.dictionary_encode()
    answers = [function(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(answers, dtype).take(encoded.indices)


def by_row(function: Callable[..., Any], dtype: pa.DataType) -> Callable[..., pa.Array]:
    """A kernel that calls ``function`` with the values of a row; null when one of them is null."""

    def kernel(*operands: Datum) -> pa.Array:
        n_rows = next(len(value) for value in operands if isinstance(value, pa.Array))
        columns = [as_array(value, n_rows).to_pylist() for value in operands]
        rows = zip(*columns, strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], dtype)

    return kernel


def bad_value(value: object, dtype: pa.DataType) -> ExpressionError:
    """The error of a value that is no `dtype`."""
    return ExpressionError(f"{bad_text(value)} is not a valid {dtype}")


def bad_text(value: object) -> str:
    """A value for a message; long ones are cut."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def arrays(*operands: Datum) -> list[pa.Array]:
    """All operands of a kernel as arrays of the same length.

    >>> [each.to_pylist() for each in arrays(pa.array([1, 2]), pa.scalar(0))]
    [[1, 2], [0, 0]]
    """
    n_rows = next((len(value) for value in operands if isinstance(value, pa.Array)), 1)
    return [as_array(value, n_rows) for value in operands]
