"""What scalar functions are made of: a kernel bound to types, and its operands in other forms.

The families (`arithmetic.py`, `strings.py`, ...) make `Bound`s; `compile.py` casts the arguments to
the operand types of the registry's signature, and `lazy.py` decides what is evaluated when and
calls the kernel. A kernel takes its operands as arrays of one length (`arrays`), as numpy arrays
without a copy (`to_numpy`, `numeric_kernel`; unlike `pa.Array.to_numpy` a null does not turn
integers into floats: what lies under a null is anything), or, where Arrow and numpy have nothing,
value by value in Python (`by_value`, `by_row`: slow paths, for what is rare).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric.errors import ExpressionError, PlanError

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""A value per row, or one for all rows."""

Kernel = Callable[..., Datum]
"""Takes the operands; at least one of them is an array."""

Values = NDArray[Any]
"""Numbers of a column, one a row."""

Order = Literal["left", "right", "all"]
"""Which argument is looked at first; where that is null, Spark leaves the others unevaluated."""

_NUMPY = {
    pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64,
    pa.float32(): np.float32, pa.float64(): np.float64, pa.date32(): np.int32,
}  # fmt: skip
_BLANK = 1
"""A number that is a day, a month, an hour and a count; it stands where a value is null."""
_SHOWN = 60
"""Characters of a value in a message."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A function for given operand types.

    Whether a value can raise is the registry's to say (`Function.total`). `order` "all" evaluates
    every argument on every row, null or not. `array` is the operand that the kernel needs as an
    array even when it is a constant; other operands may be scalars, but never all of them.
    """

    kernel: Kernel
    order: Order = "left"
    array: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What an implementation is asked for.

    `operands` are the flat types the kernel will be given, `result` is the flat type it returns,
    ``constants[i]`` is ``(value,)`` when operand i is the same in every row, else None.
    """

    name: str
    operands: tuple[pa.DataType, ...]
    constants: tuple[tuple[Any] | None, ...]
    result: pa.DataType

    def constant(self, index: int) -> Any:
        """The value of an argument that the registry demands to be a literal."""
        found = self.constants[index]
        if found is None:
            dtype = self.operands[index]
            raise PlanError(
                f"{self.name}: argument {index + 1} is not a constant that fits {dtype}"
            )
        return found[0]

    @property
    def others(self) -> tuple[Any, ...] | None:
        """The values of all operands but the first; None when one is null, or no constant."""
        if None in self.constants[1:]:
            return None
        values = tuple(found[0] for found in self.constants[1:] if found is not None)
        return None if None in values else values


Implementation = Callable[[Request], Bound]


def simple(kernel: Kernel, *, order: Order = "left", array: int | None = None) -> Implementation:
    """The same kernel whatever the types of the operands."""
    return lambda _: Bound(kernel, order, array)


def all_null(request: Request, array: int = 0) -> Bound:
    """A null in every row, where a constant is null; operand `array` says how many rows."""
    return Bound(lambda *values: pa.nulls(len(values[array]), request.result), array=array)


def as_array(value: Datum, n_rows: int) -> pa.Array:
    """One value per row."""
    return value if isinstance(value, pa.Array) else pa.repeat(value, n_rows)


def arrays(*operands: Datum) -> list[pa.Array]:
    """All operands of a kernel as arrays of the same length.

    >>> [each.to_pylist() for each in arrays(pa.array([1, 2]), pa.scalar(0))]
    [[1, 2], [0, 0]]
    """
    n_rows = next((len(value) for value in operands if isinstance(value, pa.Array)), 1)
    return [as_array(value, n_rows) for value in operands]


def to_numpy(values: pa.Array) -> Values:
    """The values of a number, date or timestamp array as a view of its buffer.

    >>> to_numpy(pa.array([1, 2, 3])[1:]).tolist()
    [2, 3]
    """
    dtype = np.dtype(_NUMPY.get(values.type, np.int64))
    buffer = values.buffers()[1]
    if buffer is None or len(values) == 0:
        return np.zeros(len(values), dtype)
    return np.frombuffer(buffer, dtype, len(values), values.offset * dtype.itemsize)


def from_numpy(values: Values, dtype: pa.DataType, valid: pa.Array | None = None) -> pa.Array:
    """An array over `values`, null where `valid` is false.

    >>> from_numpy(np.array([1, 2]), pa.int64(), valid=pa.array([True, False])).to_pylist()
    [1, None]
    """
    values = np.ascontiguousarray(values, _NUMPY.get(dtype, np.int64))
    array = pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(values)])
    if valid is None or pc.all(valid).as_py():
        return array
    return pc.if_else(valid, array, pa.scalar(None, dtype))


def numeric_kernel(
    compute: Callable[..., Values], result: pa.DataType, index: Sequence[int] | None = None
) -> Callable[..., pa.Array]:
    """A kernel over the numbers of its operands (those at `index`); null when one is null."""

    def kernel(*operands: Datum) -> pa.Array:
        columns = arrays(*operands)
        used = columns if index is None else [columns[i] for i in index]
        valid = None
        for column in used:
            if column.null_count:
                here = pc.is_valid(column)
                valid = here if valid is None else pc.and_(valid, here)
        if valid is None:
            return from_numpy(compute(*(to_numpy(column) for column in used)), result)
        known = valid.to_numpy(zero_copy_only=False)
        numbers = compute(*(np.where(known, to_numpy(column), _BLANK) for column in used))
        return from_numpy(numbers, result, valid)

    return kernel


def numeric(compute: Callable[..., Values], *, array: int | None = None) -> Implementation:
    """The `numeric_kernel` of a function, whatever it returns."""
    return lambda request: Bound(numeric_kernel(compute, request.result), array=array)


def by_value(values: pa.Array, function: Callable[[Any], Any], dtype: pa.DataType) -> pa.Array:
    """``function`` of each value as `dtype`; null stays null.

    >>> by_value(pa.array(["a", None, "a"]), str.upper, pa.string()).to_pylist()
    ['A', None, 'A']
    """
    encoded = values.dictionary_encode()
    answers = [function(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(answers, dtype).take(encoded.indices)


def each(function: Callable[[Any], Any]) -> Implementation:
    """A function of each different value of the first operand."""

    def implementation(request: Request) -> Bound:
        dtype = request.result
        return Bound(lambda value, *_: by_value(value, function, dtype), array=0)

    return implementation


def by_row(
    function: Callable[..., Any], dtype: pa.DataType, build: Callable[..., pa.Array] = pa.array
) -> Callable[..., pa.Array]:
    """A kernel that calls ``function`` with the values of a row; null when one of them is null."""

    def kernel(*operands: Datum) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in arrays(*operands)), strict=True)
        return build([None if None in row else function(*row) for row in rows], dtype)

    return kernel


def bad_value(value: object, dtype: pa.DataType) -> ExpressionError:
    """The error of a value that is no `dtype`."""
    return ExpressionError(f"{bad_text(value)} is not a valid {dtype}")


def bad_text(value: object) -> str:
    """A value for a message; long ones are cut."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
