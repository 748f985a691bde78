"""The tables of a plan on the wire, as a node sees them that writes or reads itself.

One job: two protocols. An expression, a type or a schema lies in a table once and is referred to
by its index there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from fabric.plan import plan_pb2 as pb
from fabric.plan.expr import Expr, SortKey, Udf


class WireWriter(Protocol):
    """Puts things into the tables; gives their indices."""

    def expr(self, root: Expr) -> int:
        """An expression and all that is below it."""

    def exprs(self, roots: Iterable[Expr]) -> list[int]:
        """Several of them."""

    def sort_keys(self, keys: Iterable[SortKey]) -> list[pb.SortKey]:
        """Sort keys as messages."""

    def dtype(self, dtype: pa.DataType) -> int:
        """A type."""

    def schema(self, schema: pa.Schema) -> int:
        """A schema."""


class WireReader(Protocol):
    """Finds things in the tables; raises `ValueError` for an index that is none."""

    def expr(self, index: int) -> Expr:
        """An expression."""

    def exprs(self, indices: Iterable[int]) -> tuple[Expr, ...]:
        """Several of them."""

    def udf(self, index: int) -> Udf:
        """A function that is called by a node itself, without arguments of its own."""

    def sort_keys(self, keys: Iterable[pb.SortKey]) -> tuple[SortKey, ...]:
        """Sort keys out of messages."""

    def dtype(self, index: int) -> pa.DataType:
        """A type."""

    def schema(self, index: int) -> pa.Schema:
        """A schema."""
