"""The operator of `MapAsync`: rows in, what an asynchronous function answers for them out.

    rows ─► as much as there is room for ─► CallLoop ─► answers, in order or as they come ─► rows
            the rest waits (`is_full`), and with it whoever makes rows; no barrier does

One job: what is called with what, what leaves, and what must not be lost. A row is here from the
call that brings it to the call that puts its answer out; a snapshot in between holds the row, not
its request, which is made anew after a restore. The watermark that leaves is never beyond the one
that came before the oldest row that is still here, so no event time overtakes a row. At the end all
requests are awaited; a request ends by its timeout at the latest.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fabric.errors import DataError, ExternalError, FabricError, PlanError, UserError
from fabric.event_time import BEGINNING, IDLE
from fabric.operators.async_calls.answers import Answers, Columns, Rows, answers_of
from fabric.operators.async_calls.call_loop import AsyncFunction, CallLoop
from fabric.operators.async_calls.pending import Failure, Outcome, RequestLimits
from fabric.operators.contract import Batches, Context, Files, Operator
from fabric.operators.functions.trust import load_anew
from fabric.operators.snapshots import KEY_GROUP, Packed, key_groups
from fabric.operators.streams.columns import only, shown, sliced
from fabric.plan.nodes import MapAsync
from fabric.plan.stream import ERRORS, HIDDEN, WATERMARK
from fabric.state.backend import Snapshot, SnapshotReader

WAIT_S = 0.05
"""So long one call waits for answers, before others have their turn."""
_PENDING = "pending"
_PIECE = 256
"""Rows that are made Python values at once."""
_SHOWN = 200


@dataclass(slots=True)
class _Arrived:
    """Rows that have no request yet: those of `batch` from `begin` on."""

    batch: pa.RecordBatch
    watermark: int
    begin: int = 0


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows of a request."""

    batch: pa.RecordBatch
    begin: int
    n_rows: int

    def rows(self) -> pa.RecordBatch:
        return self.batch.slice(self.begin, self.n_rows)


class MapAsyncOperator(Operator):
    """Calls the function of `node` with rows of `source`."""

    def __init__(self, node: MapAsync, source: pa.Schema, output: pa.Schema) -> None:
        self._node, self._source, self._output = node, source, output
        self._shown = shown(source)
        hidden = [name for name in source.names if name in HIDDEN]
        self._kept = [*node.keep, *hidden]
        self._place = Context()
        self._columns = Columns(node.schema)
        self._reached = BEGINNING
        self._arrived: deque[_Arrived] = deque()
        self._held: dict[int, _Held] = {}
        self._values: tuple[pa.RecordBatch, int, list[dict[str, Any]]] | None = None
        """Of a batch, from a row on: some rows as Python values."""
        self._n_failed = 0
        self._aside: Batches = []
        self._loop: CallLoop | None = None

    def open(self, context: Context) -> None:
        """Start the event loop, and the function in it."""
        node, self._place = self._node, context
        function: AsyncFunction = load_anew(node.function)
        if not callable(function):
            raise PlanError(f"map_async takes an asynchronous function, not {function!r}")
        if callable(fit := getattr(function, "fit", None)):
            fit(node.schema)
        limits = RequestLimits(
            capacity=node.capacity,
            bytes_max=node.capacity_bytes,
            timeout_us=node.timeout_us,
            ordered=node.ordered,
            retries=node.retries,
            backoff_us=node.backoff_us,
            rate_per_s=node.rate_per_s / node.n_tasks,
        )
        self._loop = CallLoop(
            function, limits, self._read, name=node.function.name, payload=node.function.payload,
            jitter=random.random,
        )  # fmt: skip
        self._loop.open()

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Begins requests for its rows; returns answers that came meanwhile."""
        if batch.num_rows:
            self._arrived.append(_Arrived(batch, self._reached))
        if self.has_more:
            return []
        self._begin()
        if self._n_waiting() > self._node.capacity:  # somebody brings rows though it is full
            return self.gradually(self._until_begun())
        return self._left(0.0)

    def on_watermark(self, time_us: int) -> Batches:
        """Rows that come from now on hold this one back."""
        if time_us != IDLE:
            self._reached = time_us
        return self._go_on()

    def on_time(self, now_us: int) -> Batches:
        """Answers that came meanwhile."""
        return self._go_on()

    @property
    def is_full(self) -> bool:
        """While rows wait for a request."""
        return bool(self._arrived)

    def more(self) -> Batches:
        """Waits for answers; see `Operator`."""
        if self.has_more:
            return super().more()
        found = self._left(WAIT_S)
        self._begin()
        return found

    def on_end(self, input: int) -> Batches:
        """Await all requests."""
        return [] if self.has_more else self.gradually(self._until_empty())

    def watermark(self, time_us: int) -> int:
        """Held back by the oldest row that is still here; then it is not idle, either."""
        if (held := self._calls.held_us()) is not None:
            return held
        return self._arrived[0].watermark if self._arrived else time_us

    def take_side(self) -> dict[str, Batches]:
        """Rows that the function failed on."""
        rows, self._aside = self._aside, []
        return {ERRORS: rows} if rows else {}

    def counts(self) -> dict[str, int]:
        """How many rows it failed on, and how many attempts were made again."""
        found = {"failed_rows": self._n_failed} if self._node.on_error != "fail" else {}
        if self._node.retries and self._loop is not None:
            found["retried_calls"] = self._loop.n_retried
        return found

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """The rows that are here, in order."""
        inside = [self._held[number] for number in self._calls.inside()]
        held = [(one.batch, one.begin, one.n_rows) for one in inside]
        held += [(a.batch, a.begin, a.batch.num_rows - a.begin) for a in self._arrived]
        n_rows = sum(n for _, _, n in held)
        if not n_rows:
            return Files()
        groups = key_groups(self._place.task, self._place.n_tasks)
        return Packed({_PENDING: lambda: _dealt(_joined(held), groups)}, {}, n_rows)

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """The rows of our key groups, of each old task in order; they come before any other."""
        for snapshot in snapshots:
            if f"{_PENDING}.arrow" in snapshot.names():
                table = pa.ipc.open_stream(snapshot.read(f"{_PENDING}.arrow")).read_all()
                for batch in table.to_batches():
                    self._restore(batch, key_groups)

    def close(self) -> None:
        """Cancel what is under way."""
        self._rest = None
        if self._loop is not None:
            self._loop.close()

    # ---- requests

    @property
    def _calls(self) -> CallLoop:
        assert self._loop is not None
        return self._loop

    def _read(self, given: Any, n_rows: int) -> Answers:
        """In the thread of the event loop."""
        return answers_of(given, self._node.schema, n_rows, is_batch=self._node.batch > 0)

    def _go_on(self) -> Batches:
        """Begin what there is room for."""
        if self.has_more:
            return []
        self._begin()
        return self._left(0.0)

    def _n_waiting(self) -> int:
        return sum(one.batch.num_rows - one.begin for one in self._arrived)

    def _until_begun(self) -> Iterator[Batches]:
        while self._n_waiting() > self._node.capacity:
            yield self._left(WAIT_S)
            self._begin()

    def _until_empty(self) -> Iterator[Batches]:
        while self._arrived or self._held:
            self._begin()
            yield self._left(WAIT_S)

    def _begin(self) -> None:
        while self._arrived:
            first = self._arrived[0]
            n_bytes = max(1, first.batch.nbytes // first.batch.num_rows)
            while first.begin < first.batch.num_rows:
                n_rows = min(max(1, self._node.batch), first.batch.num_rows - first.begin)
                argument = self._argument(first, n_rows)
                number = self._calls.offer(argument, n_rows, n_bytes * n_rows, first.watermark)
                if number is None:
                    return
                self._held[number] = _Held(first.batch, first.begin, n_rows)
                first.begin += n_rows
            self._arrived.popleft()

    def _argument(self, arrived: _Arrived, n_rows: int) -> Any:
        """What the function is called with: a row as a dict, or with ``batch=`` a table."""
        names = self._shown.names
        if self._node.batch:
            rows = only(arrived.batch.slice(arrived.begin, n_rows), names)
            return pa.Table.from_batches([rows])
        values = self._values
        if (
            values is None or values[0] is not arrived.batch
            or not 0 <= arrived.begin - values[1] < len(values[2])
        ):  # fmt: skip
            piece = only(arrived.batch.slice(arrived.begin, _PIECE), names)
            values = self._values = arrived.batch, arrived.begin, piece.to_pylist()
        return values[2][arrived.begin - values[1]]

    # ---- answers

    def _left(self, wait_s: float) -> Batches:
        """The rows of what may leave now."""
        taken = self._calls.take(wait_s)
        if not self._node.ordered:
            taken.sort(key=lambda one: one[0])  # rows of a batch side by side
        found: list[tuple[_Held, list[Rows]]] = []
        for number, outcome in taken:
            held = self._held.pop(number)
            found.append((held, self._answered(held, outcome)))
        columns = self._columns.of(_rows_in(found))
        if columns is None:
            found = [(held, self._fitting(held, answers)) for held, answers in found]
            columns = self._columns.of(_rows_in(found))
            assert columns is not None, "each value alone fits"
        return self._put_out(found, columns) if len(columns[0]) else []

    def _answered(self, held: _Held, outcome: Outcome) -> list[Rows]:
        """What comes out for each row; none for those that failed, which go by their policy."""
        if isinstance(outcome, Failure):
            self._fail(held, 0, held.n_rows, outcome)
            return [[]] * held.n_rows
        answers: Any = outcome.value
        found: list[Rows] = []
        for at, rows in enumerate(answers):
            if isinstance(rows, Failure):
                self._fail(held, at, 1, rows)
            found.append([] if isinstance(rows, Failure) else rows)
        return found

    def _fitting(self, held: _Held, answers: list[Rows]) -> list[Rows]:
        """The same without values that are not of the types that were declared."""
        found: list[Rows] = []
        for at, rows in enumerate(answers):
            if (failure := self._columns.misfit(rows)) is not None:
                self._fail(held, at, 1, failure)
            found.append(rows if failure is None else [])
        return found

    def _put_out(
        self, found: Sequence[tuple[_Held, list[Rows]]], columns: list[pa.Array]
    ) -> Batches:
        """Rows that are kept beside what came for each."""
        batches: list[pa.RecordBatch] = []
        places: list[list[int]] = []
        for held, answers in found:
            if not batches or batches[-1] is not held.batch:
                batches.append(held.batch)
                places.append([])
            for at, rows in enumerate(answers):
                places[-1] += [held.begin + at] * len(rows)
        kept = [
            only(batch, self._kept).take(pa.array(at, pa.int64()))
            for batch, at in zip(batches, places, strict=True)
        ] if self._kept else []  # fmt: skip
        by_name = dict(zip(self._node.schema.names, columns, strict=True))
        if kept:
            whole = pa.concat_batches(kept)
            by_name |= dict(zip(self._kept, whole.columns, strict=True))
        made = [by_name[name] for name in self._output.names]
        return sliced(pa.RecordBatch.from_arrays(made, schema=self._output))

    def _fail(self, held: _Held, at: int, n_rows: int, failure: Failure) -> None:
        """Rows of a request have no answer: their policy decides."""
        rows = only(held.rows().slice(at, n_rows), self._shown.names)
        reason = f"the function {self._node.function.name} {failure.reason}"
        if failure.fatal or self._node.on_error == "fail":
            raise self._error(f"{reason}{_told(rows)}", failure)
        self._n_failed += n_rows
        if self._node.on_error == "side":
            schema = self._node.side_schemas(self._source)[ERRORS]
            said: list[tuple[Any, pa.DataType]] = [
                (reason, pa.string()), (self._place.node, pa.string()),
                (self._place.attempt, pa.int32()),
            ]  # fmt: skip
            letters = [pa.array([value] * n_rows, dtype) for value, dtype in said]
            self._aside.append(pa.RecordBatch.from_arrays([*rows.columns, *letters], schema=schema))

    def _error(self, text: str, failure: Failure) -> FabricError:
        if failure.external:
            return ExternalError(text)
        return UserError(f'{text}; on_error="skip" leaves such rows out')

    # ---- snapshots

    def _restore(self, batch: pa.RecordBatch, key_groups: range) -> None:
        groups = batch.column(KEY_GROUP).to_numpy()
        ours = (groups >= key_groups.start) & (groups < key_groups.stop)
        rows = batch if ours.all() else batch.filter(pa.array(ours))
        if not rows.num_rows:
            return
        columns = []
        for field in self._source:
            if field.name in rows.schema.names:
                columns.append(rows.column(field.name))
            elif field.name == WATERMARK:  # nobody asked for it before
                columns.append(pa.repeat(pa.scalar(BEGINNING, pa.int64()), rows.num_rows))
            else:
                raise self._of_other_columns(rows.schema)
        if [c.type for c in columns] != self._source.types:
            raise self._of_other_columns(rows.schema)
        made = pa.RecordBatch.from_arrays(columns, schema=self._source)
        self._arrived.append(_Arrived(made, BEGINNING))

    def _of_other_columns(self, found: pa.Schema) -> DataError:
        names = ", ".join(f"{f.name}: {f.type}" for f in found if f.name != KEY_GROUP)
        wanted = ", ".join(f"{f.name}: {f.type}" for f in self._source)
        return DataError(
            f"the snapshot of map_async has rows of {names}, and this plan calls its function with "
            f"{wanted}; start the job anew, or restore it with the plan it had"
        )


def _rows_in(found: Sequence[tuple[_Held, list[Rows]]]) -> Rows:
    return [row for _, answers in found for rows in answers for row in rows]


def _told(rows: pa.RecordBatch) -> str:
    """The row, or the first of several, for people."""
    first = str(rows.slice(0, 1).to_pylist()[0])
    first = first if len(first) <= _SHOWN else f"{first[:_SHOWN]}…"
    if rows.num_rows == 1:
        return f", for the row {first}"
    return f", for {rows.num_rows} rows, the first of which is {first}"


def _joined(held: Sequence[tuple[pa.RecordBatch, int, int]]) -> pa.Table:
    """Rows of several batches as a table; neighbours of a batch stay together."""
    parts: list[tuple[pa.RecordBatch, int, int]] = []
    for batch, begin, n_rows in held:
        if parts and parts[-1][0] is batch and parts[-1][1] + parts[-1][2] == begin:
            parts[-1] = batch, parts[-1][1], parts[-1][2] + n_rows
        else:
            parts.append((batch, begin, n_rows))
    return pa.Table.from_batches([batch.slice(begin, n_rows) for batch, begin, n_rows in parts])


def _dealt(rows: pa.Table, groups: range) -> pa.Table:
    """The rows with key groups of their task, in stretches: rows have no keys here, and another
    number of tasks shares them out."""
    n_rows = rows.num_rows
    groups_of = groups.start + np.arange(n_rows) * len(groups) // n_rows
    return rows.append_column(KEY_GROUP, pa.array(groups_of.astype(np.uint16)))
