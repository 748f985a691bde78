"""What window functions read, as columns of one data frame.

One job: `Inputs`, which collects expressions and gives each a column; the text of OVER clauses on
those columns, and what frames and arguments of a function mean. Float keys are made equal as Spark
has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import datafusion
import pyarrow as pa
from pyarrow import types as t

from fabric.operators.fragment.floats import has_floats, normalised
from fabric.operators.fragment.relation import Relation
from fabric.plan.expr import Agg, Cast, Column, Expr, Frame, Over, SortKey
from fabric.plan.functions import AGGREGATES, WINDOW_FUNCTIONS
from fabric.plan.schema import type_of

PLACED = {
    "first": ("first_value", False),
    "last": ("last_value", False),
    "any_value": ("first_value", True),
}
"""Aggregates that are window functions once rows have an order, and whether nulls are passed."""


class Inputs:
    """Columns over `source`: its own, then those asked for."""

    def __init__(self, source: Relation) -> None:
        self.source = source
        self._exprs: list[datafusion.Expr] = [datafusion.col(name) for name in source.inner]
        self._keys: list[tuple[Expr, pa.DataType, str]] = []

    def add(self, expr: datafusion.Expr) -> str:
        """A column of `expr`; its internal name."""
        name = self.source.names.fresh()
        self._exprs.append(expr.alias(name))
        return name

    def key(self, expr: Expr, dtype: pa.DataType | None = None) -> str:
        """A column by which rows are told apart or ordered; the same for the same expression."""
        has = type_of(expr, self.source.schema)
        wanted = has if dtype is None else dtype
        for known, known_type, name in self._keys:
            if known == expr and known_type.equals(wanted):
                return name
        name = self._key(expr, has, wanted)
        self._keys.append((expr, wanted, name))
        return name

    def _key(self, expr: Expr, has: pa.DataType, wanted: pa.DataType) -> str:
        if isinstance(expr, Column) and has.equals(wanted) and not has_floats(has):
            index: int = self.source.schema.get_field_index(expr.name)
            return self.source.inner[index]
        lowered = self.source.expr(expr if has.equals(wanted) else Cast(expr, wanted))
        return self.add(normalised(lowered, wanted))

    def frame(self) -> datafusion.DataFrame:
        """The data frame with all columns."""
        return self.source.df.select(*self._exprs)


def as_table(batches: Sequence[pa.RecordBatch], df: datafusion.DataFrame) -> pa.Table:
    """What was collected of `df`, whose own schema may not say that a column is never null."""
    return pa.Table.from_batches(batches, batches[0].schema if batches else df.schema())


def is_setting(agg: Agg, index: int) -> bool:
    """Whether argument `index` of `agg` (its input is 0) is a constant and never a column."""
    if agg.function in WINDOW_FUNCTIONS:
        return index > 0
    return index in AGGREGATES[agg.function].constants


def over_text(inputs: Inputs, over: Over) -> str:
    """The OVER clause of `over`, its frame with it."""
    parts = []
    if over.partition_by:
        parts.append("partition by " + ", ".join(map(inputs.key, over.partition_by)))
    if over.order_by:
        parts.append("order by " + ", ".join(order_text(inputs, over)))
    frame = frame_of(over)
    if frame is not None:
        start, end = _bound(frame.start, "preceding"), _bound(frame.end, "following")
        parts.append(f"{frame.unit} between {start} and {end}")
    return f"over ({' '.join(parts)})"


def order_text(inputs: Inputs, over: Over) -> list[str]:
    """The ORDER BY terms."""
    return [f"{inputs.key(key.input)} {_direction(key)}" for key in over.order_by]


def _direction(key: SortKey) -> str:
    return f"{'desc' if key.descending else 'asc'} nulls {'last' if key.nulls_last else 'first'}"


def _bound(rows: int | None, unbounded: str) -> str:
    if rows is None:
        return f"unbounded {unbounded}"
    if rows == 0:
        return "current row"
    return f"{abs(rows)} {'preceding' if rows < 0 else 'following'}"


def frame_of(over: Over) -> Frame | None:
    """The frame as given, or None where it is SQL's default or all rows are peers."""
    frame = over.frame
    if frame is None or (frame.unit == "range" and not over.order_by):
        return None
    return frame


def is_growing(over: Over) -> bool:
    """Whether rows only enter the frame, from row to row."""
    frame = frame_of(over)
    return frame is None or frame.start is None


def is_whole(over: Over) -> bool:
    """Whether the frame is always the whole partition."""
    frame = frame_of(over)
    if frame is None:
        return not over.order_by
    return frame.start is None and frame.end is None


def distance_type(over: Over, schema: pa.Schema) -> pa.DataType | None:
    """The type to measure a range's distances in; None where the frame has none."""
    frame = frame_of(over)
    if frame is None or frame.unit == "rows" or not (frame.start or frame.end):
        return None
    dtype = type_of(over.order_by[0].input, schema)
    return pa.float64() if t.is_floating(dtype) else pa.int64()
