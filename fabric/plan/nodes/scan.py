"""Reading a source: `Scan`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import check_once
from fabric.plan.expr import Column, Expr
from fabric.plan.faults import quoted
from fabric.plan.infer import infer, infer_boolean
from fabric.plan.mend import mended
from fabric.plan.node import Columns, Leaf, Names, Node, Role
from fabric.plan.python import expr_text
from fabric.plan.sources import Source


@dataclass(frozen=True, slots=True)
class Scan(Leaf):
    """Read a source of `schema`; `columns` (None: all), `predicate`, `limit` are pushed down.

    The output has `columns` in their order; `predicate` may read columns that are not put out.
    `scan_id` numbers the scans of a stage (set by the planner). With a `limit` each task may stop
    after so many rows, whichever they are: what is above needs no more.
    """

    source: Source
    schema: pa.Schema
    columns: tuple[str, ...] | None = None
    predicate: Expr | None = None
    scan_id: int = -1
    limit: int | None = None

    WIRE: ClassVar[str] = "scan"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("predicate",)
    ROLE: ClassVar[Role] = "source"
    LOOKS_AT_ROWS: ClassVar[bool] = True

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns that are read."""
        names = self.schema.names
        if len(set(names)) < len(names):
            name = next(name for name in names if names.count(name) > 1)
            raise PlanError(f"the source has the column {quoted(name)} twice; rename one of them")
        if self.predicate is not None:
            infer_boolean(self.predicate, self.schema, "a filter")
        if self.limit is not None and self.limit < 0:
            raise mended(f"a limit needs at least 0, got {self.limit}", replace(self, limit=0))
        chosen = names if self.columns is None else list(self.columns)
        check_once(chosen, "the scan reads")
        types = dict(zip(names, self.schema.types, strict=True))
        return [
            (name, types[name] if name in types else infer(Column(name), self.schema))
            for name in chosen
        ]

    def without_unwanted(self, wanted: Names) -> Node:
        """Reads only the wanted columns."""
        names = self.schema.names if self.columns is None else self.columns
        kept = tuple(name for name in names if name in wanted)
        return self if len(kept) == len(names) else replace(self, columns=kept)

    def text(self) -> str:
        """``fabric.read_parquet("a").filter(…).select("a")``."""
        text = self.source.text()
        if self.predicate is not None:
            text += f".filter({expr_text(self.predicate)})"
        if self.columns is not None:
            text += f".select({', '.join(quoted(name) for name in self.columns)})"
        if self.limit is not None:
            text += f".limit({self.limit})"
        return text
