"""What every scalar function gives the compiler: a kernel bound to types.

One job: the shape of an implementation. The families (`arithmetic.py`, `strings.py`, ...) make
`Bound`s; `compile.py` casts the arguments to the operand types of the registry's signature, and
`lazy.py` decides what is evaluated when and calls the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from fabric.errors import PlanError

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""A value per row, or one for all rows."""

Kernel = Callable[..., Datum]
"""Takes the operands; at least one of them is an array."""

Order = Literal["left", "right", "all"]
"""Which argument is looked at first; where that is null, Spark leaves the others unevaluated."""


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


Implementation = Callable[[Request], Bound]


def as_array(value: Datum, n_rows: int) -> pa.Array:
    """One value per row."""
    return value if isinstance(value, pa.Array) else pa.repeat(value, n_rows)
