"""Rows of a stream with those of a table: `LookupJoin`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import pyarrow as pa

from fabric.plan.columns import hidden_of, visible
from fabric.plan.expr import Expr
from fabric.plan.node import Columns, Names, Node, Role
from fabric.plan.nodes.join import Join, join_columns
from fabric.plan.schema import schema_of
from fabric.plan.stream import Stream, turned_round, two_streams

LookupHow = Literal["inner", "left", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class LookupJoin(Node):
    """Rows of a stream with those of `table` that have equal keys; `table` has an end.

    The table is read whole before the first row. Columns as in `Join`.
    """

    input: Node
    table: Node
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    how: LookupHow = "inner"
    suffix: str = "_right"

    WIRE: ClassVar[str] = "lookup_join"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("left_keys", "right_keys")
    HOLDS_ROWS: ClassVar[bool] = True
    OF_STREAM: ClassVar[bool] = True
    N_INPUTS: ClassVar[int | None] = 2
    ROLE: ClassVar[Role] = "combine"
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {"how": get_args(LookupHow)}
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = ("a lookup", "write: .join(other, …)")

    @property
    def children(self) -> tuple[Node, ...]:
        """The stream, the table."""
        return (self.input, self.table)

    def with_children(self, children: tuple[Node, ...]) -> LookupJoin:
        """A copy over other inputs; `self` when they are the same objects."""
        left, right = children
        same = left is self.input and right is self.table
        return self if same else replace(self, input=left, table=right)

    @property
    def as_join(self) -> Join:
        """The join of two inputs with an end that puts out the same columns."""
        return Join(
            self.input, self.table, self.left_keys, self.right_keys, self.how, self.suffix,
            path=self.path,
        )  # fmt: skip

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns of the join."""
        left, right = inputs
        joined = join_columns(self.as_join, pa.schema(visible(left)), right)
        return [*joined, *hidden_of(left)]

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """See `Join.needs`."""
        return self.as_join.needs(wanted, *inputs)

    def stream(self, *below: Any) -> Stream:
        """The columns of the stream mean what they did."""
        stream, table = below
        if table is not None or stream is None:
            raise two_streams(stream, table) if stream is not None else turned_round()
        names = schema_of(self).names
        kept = {name: name for name in schema_of(self.input).names if name in names}
        found: Stream = stream.renamed(kept)
        return found

    def text(self) -> str:
        """``.join(other, on="id")``."""
        return self.as_join.text()
