"""What all windowed aggregates share: columns in and out, time, late rows, snapshots.

One job: `WindowOperator`, the base class of the operators of `StreamAggregate` nodes, and `Shape`,
the columns that such a node reads and puts out. A subclass says what rows and time do to its
groups, and when some of them go below memory (`GroupState.hand_down`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.windows import behind
from fabric.operators.contract import Batches, Context, KeptState, Operator
from fabric.operators.snapshots import Facts, GroupTimes
from fabric.operators.streams.accumulators import Aggregates
from fabric.operators.streams.cold_groups import ColdGroups
from fabric.operators.streams.columns import INSERT, sliced, told_as
from fabric.operators.streams.group_state import GroupState
from fabric.operators.streams.windows.ends import Ends
from fabric.plan.expr import Column
from fabric.plan.nodes import StreamAggregate
from fabric.plan.stream import KIND
from fabric.state.backend import Snapshot, SnapshotReader
from fabric.state.column_stores import Order
from fabric.state.opened import Wanted

_TIME = "time_us"
_WINDOW = ("start", "end")


class WindowOperator(Operator):
    """Groups of a node's keys and windows; `marks` and `notes` are what a subclass keeps."""

    def __init__(
        self,
        node: StreamAggregate,
        output: pa.Schema,
        source: pa.Schema,
        *,
        marks: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> None:
        self.node, self.shape = node, Shape(node, output, source)
        self.ends = Ends(node, source)
        aggregates = Aggregates(node.aggs, source)
        shown = None
        if self.shape.changes:
            windows = [pa.field(name, pa.int64()) for name in _WINDOW if self.shape.has_windows]
            shown = pa.schema([*windows, *aggregates.result_schema])
        self.state = GroupState(self.shape.keys, aggregates, marks=marks, notes=notes, shown=shown)

    order: Order | None = "hash"
    """Of what is handed down when memory is spent; None: all groups stay in memory."""
    looks_up: ClassVar[bool] = True
    """Whether groups below come back with their keys; else they are merged when they end."""

    @abstractmethod
    def now(self) -> Iterable[pa.RecordBatch]:
        """All groups in memory as rows of the output: what each would give now."""

    def passed_time(self) -> Batches:
        """Time has moved on (`ends`); returns what that completes."""
        return []

    def restored(self) -> None:
        """The groups have come from snapshots."""

    def facts(self) -> Facts:
        """Numbers for the snapshot."""
        return {}

    def restored_facts(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """What `facts` said."""

    # ---- the contract

    def open(self, context: Context) -> None:
        """Groups that memory has no room for lie in the context's folder."""
        self.state.keep_in(context.folder)
        if self.order is not None:
            below = ColdGroups.opened(context, self.state.schema, self.ends.step, self.order)
            self.state.hand_down(below, context.state_bytes, looks_up=self.looks_up)

    def on_watermark(self, time_us: int) -> Batches:
        """Windows that end before are complete; windows of the clock only at the very end."""
        if self.ends.by_clock and time_us != END_OF_TIME:
            return []
        return self.passed_time() if self.ends.advance(time_us) else []

    def on_time(self, now_us: int) -> Batches:
        """The same for windows that go by the clock."""
        if not self.ends.by_clock:
            return []
        return self.passed_time() if self.ends.advance(now_us) else []

    def watermark(self, time_us: int) -> int:
        """Behind by how long windows wait for late rows."""
        return behind(time_us, self.ends.waits_us)

    def take_side(self) -> dict[str, Batches]:
        """Late rows."""
        return self.ends.late.take()

    def counts(self) -> dict[str, int]:
        """Late rows so far."""
        return {"late_rows": self.ends.late.n_rows, **self.state.counts()}

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """All groups."""
        facts = {_TIME: self.ends.reached_by.fact(), **self.facts()}
        hot = self.state.snapshot(facts)
        return self.state.below.beside(hot) if self.state.has_cold else hot

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """The groups of our key groups."""
        self._take(snapshots, key_groups, key_groups)

    def _take(self, snapshots: Sequence[SnapshotReader], key_groups: range, wanted: Wanted) -> None:
        self.ends.restore(GroupTimes.restored(snapshots, _TIME, key_groups, BEGINNING))
        self.restored_facts(snapshots, key_groups)
        self.state.restore(snapshots, wanted)
        if self.order is not None:
            self.state.below.restore(snapshots, wanted)
        self.restored()

    def kept_states(self) -> tuple[KeptState, ...]:
        """Keys, bounds of windows, and the value that each aggregate would give now."""
        schema = told_as([field for field in self.shape.output if field.name != KIND])
        return (KeptState("groups", schema, tuple(schema.names[: len(self.shape.keys)])),)

    def kept_rows(
        self, state: str, snapshot: SnapshotReader, wanted: Wanted
    ) -> Iterator[pa.RecordBatch]:
        """See `Operator`."""
        self.open(Context())
        try:
            self._take([snapshot], snapshot.key_groups, wanted)
            if self.state.has_cold:  # of a group that lies in both places, the parts become one
                for rows in self.state.below.due(END_OF_TIME):
                    self.state.take(rows)
            yield from self.now()
        finally:
            self.close()

    def close(self) -> None:
        """Remove what lies below memory."""
        self._rest = None
        self.state.close()


class Shape:
    """What a `StreamAggregate` over rows of `source` reads, and how it puts out `output`."""

    def __init__(self, node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> None:
        self.output = output
        self.keys = pa.schema([source.field(_column(key)) for key in node.keys])
        self.has_windows = node.has_window_columns
        """Whether starts and ends of windows are put out."""
        self.changes = KIND in output.names
        """Whether results may be replaced by later ones."""

    def rows(
        self,
        keys: pa.RecordBatch,
        columns: Sequence[pa.Array],
        kinds: NDArray[np.int8] | None = None,
    ) -> Batches:
        """Batches of keys, then `columns` (starts and ends of windows, results), then kinds."""
        columns = [*keys.columns, *columns]
        if self.changes:
            new = np.full(len(keys), INSERT, np.int8)
            columns.append(pa.array(new if kinds is None else kinds))
        typed = [
            _typed(column, field.type) for column, field in zip(columns, self.output, strict=True)
        ]
        return sliced(pa.RecordBatch.from_arrays(typed, schema=self.output))


def _column(key: object) -> str:
    assert isinstance(key, Column), "the planner computes keys below the exchange"
    return key.name


def _typed(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    if values.type.equals(dtype):
        return values
    if pa.types.is_timestamp(dtype) and pa.types.is_int64(values.type):
        return values.view(dtype)
    return values.cast(dtype)
