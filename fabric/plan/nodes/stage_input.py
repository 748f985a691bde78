"""Rows from another stage: `StageInput`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from fabric.plan.node import Columns, Leaf, Role


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
