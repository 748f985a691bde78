"""Some of the rows: `Filter`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from fabric.plan.expr import Expr, columns_of
from fabric.plan.infer import infer_boolean
from fabric.plan.node import Names, Unary
from fabric.plan.python import expr_text


@dataclass(frozen=True, slots=True)
class Filter(Unary):
    """Keep the rows whose `predicate` is true; null is not true."""

    predicate: Expr

    WIRE: ClassVar[str] = "filter"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("predicate",)
    LOOKS_AT_ROWS: ClassVar[bool] = True

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
