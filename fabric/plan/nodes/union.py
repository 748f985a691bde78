"""The rows of several inputs: `Union`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.expr import Cast, Column
from fabric.plan.faults import quoted
from fabric.plan.mend import mended
from fabric.plan.node import Columns, Many, Names, Role
from fabric.plan.python import expr_text
from fabric.plan.schema import schema_of
from fabric.plan.stream import Stream
from fabric.plan.types import can_cast, common_type


@dataclass(frozen=True, slots=True)
class Union(Many):
    """All rows of all inputs (UNION ALL); columns are matched by position, names from the first."""

    WIRE: ClassVar[str] = "union"
    HOLDS_ROWS: ClassVar[bool] = True
    ROLE: ClassVar[Role] = "combine"

    def output(self, *inputs: pa.Schema) -> Columns:
        """The names of the first input, with the common types of all."""
        if not inputs:
            raise PlanError("a union needs at least one input")
        first = inputs[0]
        for number, other in enumerate(inputs[1:], 2):
            if len(other) != len(first):
                raise _other_width(first, other, number)
        return [
            (name, _common_type([schema.field(i) for schema in inputs]))
            for i, name in enumerate(first.names)
        ]

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """The columns of each input at the places of what is wanted."""
        first, *_ = inputs
        places = [place for place, name in enumerate(first.names) if name in wanted]
        return tuple(frozenset(schema.names[place] for place in places) for schema in inputs)

    def stream(self, *below: Any) -> Stream:
        """What all of its streams have in common."""
        streams: list[Stream] = [stream for stream in below if stream is not None]
        if len(streams) < len(below):
            raise PlanError(
                "a union of a stream and rows with an end; read those as a stream too: "
                "fabric.streams.replay(…)"
            )
        names = [schema_of(child).names for child in self.inputs]
        times = {ns.index(s.time) if s.time else -1 for s, ns in zip(streams, names, strict=True)}
        (place, *others) = times
        ends = [{ns.index(end) for end in s.ends} for s, ns in zip(streams, names, strict=True)]
        return Stream(
            time="" if others or place < 0 else names[0][place],
            ends=frozenset(names[0][end] for end in set.intersection(*ends)),
            timed=all(stream.timed for stream in streams),
            changes=any(stream.changes for stream in streams),
        )

    def text(self) -> str:
        """``.union(other)``."""
        n = len(self.inputs) - 1
        others = [f"other_{i + 1}" for i in range(n)] if n > 1 else ["other"] * n
        return f".union({', '.join(others)})"


def _other_width(first: pa.Schema, other: pa.Schema, number: int) -> PlanError:
    message = (
        f"a union needs inputs of as many columns: input 1 has {len(first)}, input {number} has "
        f"{len(other)}"
    )
    if set(first.names) <= set(other.names):
        names = ", ".join(map(quoted, first.names))
        return mended(message, f".union(other.select({names}))")
    missing = [name for name in first.names if name not in other.names]
    return PlanError(f"{message}; it lacks {', '.join(map(quoted, missing[:12]))}")


def _common_type(fields: Sequence[pa.Field]) -> pa.DataType:
    name, found = fields[0].name, fields[0].type
    for number, field in enumerate(fields[1:], 2):
        common = common_type(found, field.type)
        if common is None:
            cast = Cast(Column(field.name), found)
            line = f".union(other.with_columns({expr_text(cast)}, replace=True))"
            raise mended(
                f"a union needs one type a column: {quoted(name)} is {found} in input 1 and "
                f"{field.type} in input {number}",
                line if can_cast(field.type, found) else None,
            )
        found = common
    return found
