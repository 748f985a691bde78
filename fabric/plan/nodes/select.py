"""Columns in the place of others: `Select`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan import plan_pb2 as pb
from fabric.plan.columns import check_no_aggregates, check_unique, read_by, wanted_of
from fabric.plan.expr import Column, Expr, kept_names, output_name
from fabric.plan.infer import infer
from fabric.plan.node import Columns, Names, Node, Unary
from fabric.plan.python import columns_text
from fabric.plan.stream import Stream
from fabric.plan.wire.tables import WireReader, WireWriter


@dataclass(frozen=True, slots=True)
class Select(Unary):
    """Put out exactly `exprs`."""

    exprs: tuple[Expr, ...]

    WIRE: ClassVar[str] = "select"
    LOOKS_AT_ROWS: ClassVar[bool] = True

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """What it puts out."""
        return self.exprs

    def with_expressions(self, exprs: tuple[Expr, ...]) -> Select:
        """See `Node.with_expressions`."""
        return replace(self, exprs=exprs)

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

    def write(self, to: WireWriter) -> pb.Select:
        """See `Node.write`."""
        return pb.Select(exprs=to.exprs(self.exprs))

    @classmethod
    def read(cls, inputs: Sequence[Node], message: Any, tables: WireReader, path: str) -> Select:
        """See `Node.read`."""
        return cls(inputs[0], tables.exprs(message.exprs), path=path)
