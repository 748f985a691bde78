"""A row for each element of a list: `Explode`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.plan.columns import check_free
from fabric.plan.expr import Column
from fabric.plan.faults import quoted
from fabric.plan.infer import infer
from fabric.plan.mend import mended
from fabric.plan.node import Columns, Names, Node, Unary
from fabric.plan.schema import schema_of
from fabric.plan.stream import Stream
from fabric.plan.types import is_list, plain


@dataclass(frozen=True, slots=True)
class Explode(Unary):
    """One row for each element of list `column`, the element in the list's place.

    Null and empty lists give no row, with `outer` one row with null. `position` names an int32
    column at the end with the element's place, from 0 on.
    """

    column: str
    outer: bool = False
    position: str = ""

    WIRE: ClassVar[str] = "explode"
    LOOKS_AT_ROWS: ClassVar[bool] = True

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns of the input, the list's type that of an element."""
        (schema,) = inputs
        dtype = infer(Column(self.column), schema)
        if not is_list(dtype):
            lists = [field.name for field in schema if is_list(field.type)]
            line = replace(self, column=lists[0]) if len(lists) == 1 else None
            raise mended(f"explode needs a list, and {quoted(self.column)} is {dtype}", line)
        element = plain(dtype).value_type
        columns = [(f.name, element if f.name == self.column else f.type) for f in schema]
        if not self.position:
            return columns
        check_free(self, "position", schema)
        return [*columns, (self.position, pa.int32())]

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted, and the list."""
        own = {self.position} if self.position else set()  # a column may be called ""
        return ((wanted - own) | {self.column},)

    def without_unwanted(self, wanted: Names) -> Node:
        """Without the position, if nobody wants it."""
        if self.position and self.position not in wanted:
            return replace(self, position="")
        return self

    def stream(self, *below: Any) -> Stream:
        """The other columns mean what they did."""
        (stream,) = below
        names = schema_of(self.input).names
        found: Stream = stream.renamed({name: name for name in names if name != self.column})
        return found

    def text(self) -> str:
        """``.explode("items")``."""
        parts = [quoted(self.column)]
        if self.outer:
            parts.append("outer=True")
        if self.position:
            parts.append(f"position={quoted(self.position)}")
        return f".explode({', '.join(parts)})"
