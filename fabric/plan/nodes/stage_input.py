"""Rows from another stage: `StageInput`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from fabric.plan import plan_pb2 as pb
from fabric.plan.node import Columns, Leaf, Node, Role
from fabric.plan.wire.tables import WireReader, WireWriter


@dataclass(frozen=True, slots=True)
class StageInput(Leaf):
    """Rows that arrive over an edge; only the planner makes it, only inside a stage."""

    edge: int
    schema: pa.Schema

    WIRE: ClassVar[str] = "stage_input"
    ROLE: ClassVar[Role] = "source"

    def output(self, *inputs: pa.Schema) -> Columns:
        """All columns of the edge."""
        return list(zip(self.schema.names, self.schema.types, strict=True))

    def text(self) -> str:
        """``stage_input(3)``."""
        return f"stage_input({self.edge})"

    def write(self, to: WireWriter) -> pb.StageInput:
        """See `Node.write`."""
        return pb.StageInput(edge=self.edge, schema=to.schema(self.schema))

    @classmethod
    def read(
        cls, inputs: Sequence[Node], message: Any, tables: WireReader, path: str
    ) -> StageInput:
        """See `Node.read`."""
        return cls(message.edge, tables.schema(message.schema), path=path)
