"""Columns beside others: `WithColumns`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.plan.columns import check_no_aggregates, check_unique, read_by
from fabric.plan.expr import Expr, output_name
from fabric.plan.faults import quoted
from fabric.plan.infer import infer
from fabric.plan.mend import free_name, mended
from fabric.plan.node import Columns, Names, Node, Unary
from fabric.plan.python import columns_text
from fabric.plan.schema import schema_of
from fabric.plan.stream import Stream


@dataclass(frozen=True, slots=True)
class WithColumns(Unary):
    """Put out the input and `exprs` after it; overwriting a column needs `replace`."""

    exprs: tuple[Expr, ...]
    replace: bool = False

    WIRE: ClassVar[str] = "with_columns"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("exprs",)
    LOOKS_AT_ROWS: ClassVar[bool] = True

    def output(self, *inputs: pa.Schema) -> Columns | pa.Schema:
        """The columns of the input, then the new ones."""
        (schema,) = inputs
        check_no_aggregates(self.exprs, are_columns=True)
        new = {output_name(expr): infer(expr, schema) for expr in self.exprs}
        taken = set(schema.names)
        check_unique(self, self.exprs, taken)
        overwritten = [name for name in new if name in taken]
        if overwritten and not self.replace:
            names = ", ".join(map(quoted, overwritten))
            free = quoted(free_name(overwritten[0], [*schema.names, *new]))
            raise mended(
                f"with_columns would overwrite {names}; give it a name of its own, "
                f".alias({free}), or say that it is meant",
                replace(self, replace=True),
            )
        if not overwritten:
            for name, dtype in new.items():
                schema = schema.append(pa.field(name, dtype))
            return schema
        kept = [(field.name, new.pop(field.name, field.type)) for field in schema]
        return [*kept, *new.items()]

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted of the input, and what the wanted new columns read."""
        new = [expr for expr in self.exprs if output_name(expr) in wanted]
        if self.replace:  # what is replaced has a place
            return ((wanted & frozenset(inputs[0].names)) | read_by(new),)
        return ((wanted - set(map(output_name, self.exprs))) | read_by(new),)

    def without_unwanted(self, wanted: Names) -> Node:
        """Only the wanted new columns; without any, the input."""
        exprs = tuple(expr for expr in self.exprs if output_name(expr) in wanted)
        if not exprs:
            return self.input
        return self if len(exprs) == len(self.exprs) else replace(self, exprs=exprs)

    def stream(self, *below: Any) -> Stream:
        """Columns that are not overwritten mean what they did."""
        (stream,) = below
        new = {output_name(expr) for expr in self.exprs}
        names = schema_of(self.input).names
        found: Stream = stream.renamed({name: name for name in names if name not in new})
        return found

    def text(self) -> str:
        """``.with_columns((col("a") + 1).alias("b"))``."""
        meant = ", replace=True" if self.replace else ""
        return f".with_columns({columns_text(self.exprs)}{meant})"
