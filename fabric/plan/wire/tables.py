"""The tables of a plan on the wire, and the limits of what they may hold.

An expression, a type or a schema lies in a table once and is referred to by its index there.
`WireWriter` and `WireReader` are the tables as the fields of a node see them. The limits are bytes,
table rows, depth and numbers; readers and writers share the checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, get_args

import pyarrow as pa

from fabric.plan.expr import Expr, Udf


class WireWriter(Protocol):
    """Puts things into the tables; gives their indices."""

    def expr(self, root: Expr) -> int:
        """An expression and all that is below it."""

    def dtype(self, dtype: pa.DataType) -> int:
        """A type."""

    def schema(self, schema: pa.Schema) -> int:
        """A schema."""


class WireReader(Protocol):
    """Finds things in the tables; raises `ValueError` for an index that is none."""

    def expr(self, index: int) -> Expr:
        """An expression."""

    def udf(self, index: int) -> Udf:
        """A function that is called by a node itself, without arguments of its own."""

    def dtype(self, index: int) -> pa.DataType:
        """A type."""

    def schema(self, index: int) -> pa.Schema:
        """A schema."""


VERSION = 2
BYTES_MAX = 64 << 20
NODES_MAX = 100_000
EXPRS_MAX = 1_000_000
DEPTH_MAX = 10_000
EXPR_DEPTH_MAX = 400
_INT64_MAX = (1 << 63) - 1


def choice(value: str, choices: Any, what: str) -> Any:
    """Return `value` when the Literal type `choices` has it, else raise `ValueError`."""
    if value not in get_args(choices):
        raise ValueError(f"{what} {value[:40]!r} is not one of {', '.join(get_args(choices))}")
    return value


def small(number: int) -> int:
    """Return `number` when it fits an int64, else raise `ValueError`."""
    if number > _INT64_MAX:
        raise ValueError(f"the number {number} is too large")
    return number


class Depths:
    """The depth of each row of a table whose rows point backwards."""

    def __init__(self, what: str, rows_max: int, depth_max: int) -> None:
        self._what, self._rows_max, self._depth_max = what, rows_max, depth_max
        self._depths: list[int] = []

    def add(self, below: Sequence[int]) -> None:
        """Note a row that points to the rows `below`; raises `ValueError` beyond a limit."""
        n_rows = len(self._depths)
        if n_rows >= self._rows_max:
            raise ValueError(f"more than {self._rows_max} {self._what}s")
        for index in below:
            if index >= n_rows:
                raise ValueError(f"{self._what} {n_rows} points to {index}, which is not before it")
        depth = 1 + max((self._depths[index] for index in below), default=0)
        if depth > self._depth_max:
            raise ValueError(f"{self._what}s nested more than {self._depth_max} deep")
        self._depths.append(depth)
