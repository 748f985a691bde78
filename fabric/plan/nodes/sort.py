"""Rows in an order: `Sort`, and what its phases over several tasks put out.

"sample" puts out the keys of some rows and how many rows each stands for, "place" the rows and the
range each belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.bounds import PARTITIONS_MAX
from fabric.plan.columns import check_no_aggregates, read_by
from fabric.plan.expr import SortKey, output_name
from fabric.plan.faults import quoted
from fabric.plan.infer import infer
from fabric.plan.node import Names, Node
from fabric.plan.python import sort_key_text
from fabric.plan.stream import Stream, endless
from fabric.plan.types import is_comparable, plain

SortPhase = Literal["single", "sample", "place"]
WEIGHT = "rows"


@dataclass(frozen=True, slots=True)
class Sort(Node):
    """Order all rows by `keys`.

    `phase` is "single" in a logical plan. For one order over several tasks the planner adds two:
    "sample" puts out the keys of some rows; "place" puts out the rows and the range (0 to
    `n_ranges` - 1) each belongs to, where `samples` are the rows of all "sample" tasks.
    """

    input: Node
    keys: tuple[SortKey, ...]
    phase: SortPhase = "single"
    samples: Node | None = None
    n_ranges: int = 0

    WIRE: ClassVar[str] = "sort"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("keys",)
    HOLDS_ROWS: ClassVar[bool] = True
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {"phase": ("single",)}
    BOUNDS: ClassVar[Mapping[str, float]] = {"n_ranges": PARTITIONS_MAX}

    @property
    def children(self) -> tuple[Node, ...]:
        """The rows, and in phase "place" the samples."""
        return (self.input,) if self.samples is None else (self.input, self.samples)

    def with_children(self, children: tuple[Node, ...]) -> Sort:
        """A copy over other inputs; `self` when they are the same objects."""
        source, samples = children[0], children[1] if len(children) == 2 else None
        same = source is self.input and samples is self.samples
        return self if same else replace(self, input=source, samples=samples)

    def output(self, *inputs: pa.Schema) -> pa.Schema:
        """The columns of the input, in phases others."""
        schema = inputs[0]
        if not self.keys:
            raise PlanError('a sort needs a key, for example .sort("a")')
        for key in self.keys:
            check_no_aggregates((key.input,))
            dtype = infer(key.input, schema)
            if not is_comparable(dtype):
                raise PlanError(f"a sort can't order by {quoted(output_name(key.input))}: {dtype}")
        if self.phase == "single":
            return schema
        if self.phase == "place":
            return schema.append(pa.field(range_column(schema), pa.int32()))
        keys = [(f"{i}", plain(infer(key.input, schema))) for i, key in enumerate(self.keys)]
        return pa.schema([*keys, (WEIGHT, pa.int64())])

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted, and what it orders by."""
        return (wanted | read_by(key.input for key in self.keys),)

    def stream(self, *below: Any) -> Stream:
        """Refused."""
        raise endless(
            "it can't be sorted", "use .top_n(3, by=…) by key or window, or sort what was written"
        )

    def text(self) -> str:
        """``.sort("a", col("b").desc())``."""
        text = f".sort({', '.join(sort_key_text(key) for key in self.keys)})"
        return text if self.phase == "single" else f"{text} {self.phase}"

    @classmethod
    def n_inputs(cls, message: Any) -> int:
        """The samples are one more."""
        return 2 if message.phase == "place" else 1


def range_column(schema: pa.Schema) -> str:
    """The name of the column that "place" appends: one that `schema` does not have."""
    name = "__range"
    while name in schema.names:
        name += "_"
    return name
