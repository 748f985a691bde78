"""Some of the rows: `Filter`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.plan.expr import Expr, columns_of
from fabric.plan.infer import infer_boolean
from fabric.plan.node import Names, Node, Unary
from fabric.plan.python import expr_text
from fabric.plan.wire.tables import WireReader, WireWriter


@dataclass(frozen=True, slots=True)
class Filter(Unary):
    """Keep the rows whose `predicate` is true; null is not true."""

    predicate: Expr

    WIRE: ClassVar[str] = "filter"
    LOOKS_AT_ROWS: ClassVar[bool] = True

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The predicate."""
        return (self.predicate,)

    def with_expressions(self, exprs: tuple[Expr, ...]) -> Filter:
        """See `Node.with_expressions`."""
        return replace(self, predicate=exprs[0])

    def output(self, *inputs: pa.Schema) -> pa.Schema:
        """The columns of the input."""
        (schema,) = inputs
        infer_boolean(self.predicate, schema, "a filter")
        return schema

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted, and what the predicate reads."""
        return (wanted | columns_of(self.predicate),)

    def text(self) -> str:
        """``.filter(col("a") > 1)``."""
        return f".filter({expr_text(self.predicate)})"

    def write(self, to: WireWriter) -> int:
        """See `Node.write`."""
        return to.expr(self.predicate)

    @classmethod
    def read(cls, inputs: Sequence[Node], message: Any, tables: WireReader, path: str) -> Filter:
        """See `Node.read`."""
        return cls(inputs[0], tables.expr(message), path=path)
