"""Changing results as rows: `Changes`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.plan.columns import check_free, visible
from fabric.plan.faults import quoted
from fabric.plan.node import Columns, Names, Unary
from fabric.plan.stream import Stream


@dataclass(frozen=True, slots=True)
class Changes(Unary):
    """Changing results as rows of their own: a first `column` says which of `KINDS` each is."""

    column: str = "row_kind"

    WIRE: ClassVar[str] = "changes"
    OF_STREAM: ClassVar[bool] = True
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = ("changes", "leave it out")

    def output(self, *inputs: pa.Schema) -> Columns:
        """The kind, then the columns of the input."""
        (schema,) = inputs
        check_free(self, "column", schema)
        return [(self.column, pa.string()), *visible(schema)]

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted of the input."""
        return (wanted - {self.column},)

    def stream(self, *below: Any) -> Stream:
        """Nothing is taken back any more."""
        (stream,) = below
        found: Stream = replace(stream, changes=False, split=False)
        return found

    def text(self) -> str:
        """``.changes()``."""
        return f".changes({'' if self.column == 'row_kind' else quoted(self.column)})"
