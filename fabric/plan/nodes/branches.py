"""Several branches of one source: `Branches`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from fabric.plan.node import Columns, Many
from fabric.plan.schema import schema_of, sides_at


@dataclass(frozen=True, slots=True)
class Branches(Many):
    """Branches of one source, which is read once; each has rows and event time of its own.

    It puts out nothing itself: the rows of a branch are a side output, see `branch_side`. It stands
    at the top of a stage, and only the planner makes it.
    """

    WIRE: ClassVar[str] = "branches"
    OF_STREAM: ClassVar[bool] = True

    def output(self, *inputs: pa.Schema) -> Columns:
        """None: its rows are in its sides."""
        return []

    def side_schemas(self, rows: pa.Schema) -> Mapping[str, pa.Schema]:
        """The rows of each branch, and what its last step puts out aside."""
        return {
            branch_side(branch, tag): schema
            for branch, top in enumerate(self.inputs)
            for tag, schema in {"": schema_of(top), **sides_at(top)}.items()
        }

    def text(self) -> str:
        """``branches(2)``."""
        return f"branches({len(self.inputs)})"


def branch_side(branch: int, tag: str = "") -> str:
    """The side of `Branches` with the rows of a branch, or with what its step puts aside.

    >>> branch_side(1), branch_side(1, "bad")
    ('1', '1/bad')
    """
    return f"{branch}/{tag}" if tag else str(branch)
