"""Columns in the place of others: `Select`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import check_no_aggregates, check_unique, read_by, wanted_of
from fabric.plan.expr import Column, Expr, kept_names, output_name
from fabric.plan.infer import infer
from fabric.plan.node import Columns, Names, Node, Unary
from fabric.plan.python import columns_text
from fabric.plan.stream import Stream


@dataclass(frozen=True, slots=True)
class Select(Unary):
    """Put out exactly `exprs`."""

    exprs: tuple[Expr, ...]

    WIRE: ClassVar[str] = "select"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("exprs",)
    LOOKS_AT_ROWS: ClassVar[bool] = True

    def output(self, *inputs: pa.Schema) -> Columns:
        """A column for each expression."""
        (schema,) = inputs
        if not self.exprs:
            raise PlanError("a select needs at least one column")
        check_no_aggregates(self.exprs, are_columns=True)
        columns = [(output_name(expr), infer(expr, schema)) for expr in self.exprs]
        check_unique(self, self.exprs, set())
        return columns

    def keeping(self, name: str) -> Select:
        """With the column at the end."""
        return replace(self, exprs=(*self.exprs, Column(name)))

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What the wanted expressions read."""
        return (read_by(wanted_of(self.exprs, wanted)),)

    def without_unwanted(self, wanted: Names) -> Node:
        """Only the wanted expressions."""
        exprs = wanted_of(self.exprs, wanted)
        return self if exprs is self.exprs else replace(self, exprs=exprs)

    def stream(self, *below: Any) -> Stream:
        """Columns that are put out as they are mean what they did."""
        (stream,) = below
        found: Stream = stream.renamed(kept_names(self.exprs))
        return found

    def text(self) -> str:
        """``.select("a", col("b") + 1)``."""
        return f".select({columns_text(self.exprs)})"
