"""Reading a stream: `StreamScan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.expr import Column
from fabric.plan.faults import quoted
from fabric.plan.infer import infer
from fabric.plan.node import Columns, Leaf, Names, Node, Role
from fabric.plan.sources import StreamSource
from fabric.plan.stream import RESERVED, Stream


@dataclass(frozen=True, slots=True)
class StreamScan(Leaf):
    """Read a source without end (or one that is treated so); the output has `columns` (None: all).

    `scan_id` numbers the scans of a stage (set by the planner).
    """

    source: StreamSource
    schema: pa.Schema
    columns: tuple[str, ...] | None = None
    scan_id: int = -1

    WIRE: ClassVar[str] = "stream_scan"
    OF_STREAM: ClassVar[bool] = True
    ROLE: ClassVar[Role] = "source"

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns that are read."""
        names = self.schema.names
        for name in names:
            if names.count(name) > 1:
                raise PlanError(
                    f"the source has the column {quoted(name)} twice; rename one of them"
                )
            if name in RESERVED:
                raise PlanError(f"the source has a column {quoted(name)}, a name of Fabric's own")
        chosen = names if self.columns is None else self.columns
        return [(name, infer(Column(name), self.schema)) for name in chosen]

    def without_unwanted(self, wanted: Names) -> Node:
        """Reads only the wanted columns."""
        if self.side_schemas(self.schema):
            return self  # whoever reads what it puts aside reads the same scan
        names = self.schema.names if self.columns is None else self.columns
        kept = tuple(name for name in names if name in wanted)
        return self if len(kept) == len(names) else replace(self, columns=kept)

    def side_schemas(self, rows: pa.Schema) -> Mapping[str, pa.Schema]:
        """What can't be read, if that goes aside."""
        return self.source.side_schemas()

    def stream(self, *below: Any) -> Stream:
        """Rows that are told apart by split."""
        return Stream(split=True)

    def text(self) -> str:
        """``fabric.read_kafka("orders", …).select("id")``."""
        text = self.source.text()
        if self.columns is None:
            return text
        return f"{text}.select({', '.join(map(quoted, self.columns))})"
