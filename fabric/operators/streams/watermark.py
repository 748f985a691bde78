"""How far event time has come in what a source task reads.

One job: the operator of `Watermark`: what each row knew of event time, rows without usable time,
and the watermark of the task. What time means is `fabric.event_time`'s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.errors import DataError, ExpressionError, InternalError
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.source import SourceWatermarks
from fabric.event_time.watermarks import GOOD, MISSING, Bounded, Custom, Monotonic, Strategy
from fabric.operators.contract import Batches, Context, Files, Operator
from fabric.operators.functions.trust import load
from fabric.operators.functions.user_code import said, watched
from fabric.operators.streams.columns import shown, us
from fabric.plan.expr import Udf
from fabric.plan.nodes import Watermark
from fabric.plan.stream import BAD
from fabric.state.backend import Snapshot, SnapshotReader

_SPLITS = "splits.json"


class WatermarkOperator(Operator):
    """Rows of `output`, and the least watermark of the task's splits."""

    def __init__(self, node: Watermark, output: pa.Schema) -> None:
        self._node, self._output = node, output
        self._source = SourceWatermarks([])
        self._split = ""
        self._now: int | None = None
        self._sent = BEGINNING
        self._bad = list[pa.RecordBatch]()
        self._n_bad = 0

    def open(self, context: Context) -> None:
        """Every split holds the watermark back until it has sent something."""
        node = self._node
        self._source = SourceWatermarks(
            context.splits, _strategy(node), future_us=node.future_us, idle_us=node.idle_us,
            drift_us=node.drift_us,
        )  # fmt: skip
        self._sent = self._source.watermark

    def on_split(self, split: str) -> None:
        """The batches that follow are of this split."""
        self._source.add(split)
        self._split = split

    def on_split_end(self, split: str) -> None:
        """A split holds nobody back any more."""
        self._source.on_end(split)
        self._sent = self._source.watermark

    def held_back(self) -> frozenset[str]:
        """Splits that are too far ahead of others."""
        return self._source.held_back()

    def slowest(self) -> int | None:
        """The split that other tasks may have to wait for."""
        return self._source.slowest()

    def on_watermark_alignment(self, time_us: int) -> None:
        """Splits wait for those of other tasks, too."""
        self._source.slowest_elsewhere_us = time_us

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """The rows with usable times, and what each knew."""
        column = batch.column(self._node.column)
        valid = None
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
        times = us(column, null=0)
        watermarks, kinds, n_bad = self._source.row_watermarks(
            self._split, times, valid, self._clock()
        )
        self._sent = self._source.watermark
        columns = batch.columns
        if self._node.rows:
            columns.append(pa.array(watermarks))
        named = pa.RecordBatch.from_arrays(columns, schema=self._output)
        if n_bad:
            self._set_aside(batch, kinds)
            named = named.filter(pa.array(kinds == GOOD))
        return [named] if named.num_rows else []

    def on_time(self, now_us: int) -> Batches:
        """Splits that are quiet become idle; that is told every `emit_us`."""
        before, self._now = self._now, now_us
        self._source.on_time(now_us)
        every = self._node.emit_us
        if before is None or now_us // every > before // every:
            self._sent = self._source.watermark
        return []

    def watermark(self, time_us: int) -> int:
        """The task's; what comes in says only whether the source has ended."""
        return END_OF_TIME if time_us == END_OF_TIME else self._sent

    def take_side(self) -> dict[str, Batches]:
        """Bad rows."""
        rows, self._bad = self._bad, []
        return {BAD: rows} if rows else {}

    def counts(self) -> dict[str, int]:
        """Bad rows so far."""
        return {"bad_rows": self._n_bad}

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """How far each split has come."""
        state = {split: list(each) for split, each in self._source.state().items()}
        return Files({_SPLITS: json.dumps(state, sort_keys=True).encode()})

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """Splits go on where they were, whichever task had them."""
        state: dict[str, tuple[int, int]] = {}
        for snapshot in snapshots:
            known = json.loads(bytes(snapshot.read(_SPLITS)))
            state.update((split, (most, reached)) for split, (most, reached) in known.items())
        self._source.restore(state)
        self._sent = self._source.watermark

    def _clock(self) -> int:
        if self._now is not None:
            return self._now
        if self._node.future_us is None and self._node.idle_us is None:
            return 0
        raise InternalError("rows came before the operator was told the processing time")

    def _set_aside(self, batch: pa.RecordBatch, kinds: NDArray[np.uint8]) -> None:
        """What the policy says of rows without usable time."""
        is_bad = kinds != GOOD
        if self._node.on_bad == "fail":
            raise self._fault(batch, kinds)
        self._n_bad += int(np.count_nonzero(is_bad))
        if self._node.on_bad == "side":
            rows = batch.filter(pa.array(is_bad))
            self._bad.append(rows.select(shown(batch.schema).names))

    def _fault(self, batch: pa.RecordBatch, kinds: NDArray[np.uint8]) -> DataError:
        first = int(np.flatnonzero(kinds != GOOD)[0])
        name, split = self._node.column, self._split or "the input"
        if kinds[first] == MISSING:
            what = f"has no usable time in {name!r}"
        else:
            value = batch.column(name)[first]
            what = f"has the time {value} in {name!r}, too far ahead of the rows before it"
        return DataError(
            f'a row of {split} {what}; .with_watermark(…, on_bad="skip") leaves such rows out, '
            'on_bad="side" puts them aside'
        )


def _strategy(node: Watermark) -> Strategy:
    if node.strategy == "monotonic":
        return Monotonic()
    if node.strategy == "bounded":
        return Bounded(node.bound_us)
    assert node.function is not None
    return Custom(_called(node.function))


def _called(function: Udf) -> Callable[..., Any]:
    """The user's function; somebody may look on while it runs, and it is named when it fails."""
    loaded = load(function)

    def call(*args: Any) -> Any:
        try:
            with watched(function.payload):
                return loaded(*args)
        except BaseException as error:  # it is the user's, also a SystemExit
            raise ExpressionError(f"the function {function.name} raised {said(error)}") from error

    return call
