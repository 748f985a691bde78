"""The operator of `KeyedProcess`: a user's function of the rows of each key.

    rows ─► by key, each key's rows side by side ─► on_rows(key, rows)      or on_batch(all)
    time ─► timers that are due, layer by layer   ─► on_timer(key, time)    or on_timers(all)

One job: what is called when, and what is kept. States lie in `fabric.state`, timers in
`fabric.event_time`; a call that fails leaves no trace of itself (`calls.py`). Timers of event time
all fire at the end of the input, also those that are set then; a function that goes on setting them
for ever is stopped with an error. Timers of processing time end with the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric.errors import ExpressionError, PlanError
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.timers import Timers
from fabric.operators.contract import Batches, Context, KeptState, Operator
from fabric.operators.functions.trust import load_anew
from fabric.operators.functions.user_code import said, watched
from fabric.operators.snapshots import GroupTimes, Joint, Packed, greatest, parts_of
from fabric.operators.streams.columns import Ints, only, shown
from fabric.operators.streams.process.calls import Calls, Deadline
from fabric.operators.streams.process.context import CallContext, state_specs
from fabric.operators.streams.process.kept import kept_state, rows_of_state
from fabric.operators.streams.process.timer_service import Layers, Requests
from fabric.plan.expr import output_name
from fabric.plan.nodes import KeyedProcess
from fabric.plan.process import (
    Process,
    Returned,
    TimerDomain,
    check_process,
    per_key,
    timers_by_key,
)
from fabric.plan.stream import ERRORS
from fabric.state import StateStore, open_states
from fabric.state.backend import SnapshotReader
from fabric.state.opened import Wanted

_WATERMARK, _NOW, _TIMERS = "watermark", "now", "timers"
_SPARE = 1024
"""So many keys without timers are kept before they are looked for."""
LAST_ROUNDS = 10_000
"""How often the end of the input may set further timers: one that repeats itself has no end."""

Part = Callable[[int, int], Returned]
"""Calls a user's function about some rows: the first one's number, how many."""


class ProcessOperator(Operator):
    """Runs the function of `node` over rows of `source`; or `process`, where that is it."""

    def __init__(
        self,
        node: KeyedProcess,
        source: pa.Schema,
        output: pa.Schema,
        process: Process | None = None,
    ) -> None:
        self._node, self._given = node, process
        self._rows = shown(source)
        self._output = output
        self._names = list(map(output_name, node.keys))
        self._key_schema = pa.schema([source.field(name) for name in self._names])
        self._sides = node.side_schemas(source)
        self._timers = Timers()
        self._timer_keys = GroupTable(self._key_schema)
        self._requests = Requests(node.timers)
        self._deadline = Deadline(node.timeout_us) if node.timeout_us else None
        self._n_failed = 0
        self._place = Context()
        self._process: Process | None = None

    def open(self, context: Context) -> None:
        """Make the function, and its states in the task's folder."""
        node, self._place = self._node, context
        function = load_anew(node.function) if self._given is None else self._given
        found = check_process(function, node.timers, broadcasts=node.broadcast is not None)
        specs = state_specs(node.states, self._key_schema)
        undo = node.on_error != "fail"
        self._store: StateStore = open_states(context.state, specs, context.folder, undo=undo)
        sides = {tag: schema for tag, schema in self._sides.items() if tag != ERRORS}
        self._context = CallContext(self._store, self._requests, sides)
        self._calls = Calls(
            node.function, self._output, node.on_error, context=self._context,
            requests=self._requests, store=self._store, deadline=self._deadline,
        )  # fmt: skip
        self._process = found
        self._setup(found.open)

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """What the function puts out for the rows."""
        rows = only(batch, self._rows.names)
        if not rows.num_rows:
            return []
        out = self._by_key(rows) if per_key(self._user) else self._at_once(rows)
        self._heard()
        return _whole(out)

    def on_watermark(self, time_us: int) -> Batches:
        """Calls timers of event time."""
        self._context.watermark = max(time_us, self._context.watermark)
        return self._fire("event", self._context.watermark)

    def on_time(self, now_us: int) -> Batches:
        """Calls timers of processing time, and lets states age."""
        self._context.now = max(now_us, self._context.now)
        self._store.sweep(self._context.now)
        return self._fire("processing", self._context.now)

    def take_side(self) -> dict[str, Batches]:
        """What the function put aside, and what it failed on."""
        return self._context.take_side()

    def counts(self) -> dict[str, int]:
        """How many rows and timers it failed on."""
        return {"failed_rows": self._n_failed} if self._node.on_error != "fail" else {}

    def on_barrier(self, checkpoint: int) -> Joint:
        """States and timers."""
        timers = self._timers.export(self._timer_keys)
        facts = {_WATERMARK: self._context.watermark, _NOW: self._context.now}
        return Joint(
            {
                "state": self._store.snapshot(),
                "timers": Packed({_TIMERS: lambda: timers}, facts, 0),
            }
        )

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """Those of our key groups."""
        self._store.restore(parts_of(snapshots, "state"), key_groups)
        timers = parts_of(snapshots, "timers")
        times = GroupTimes.restored(timers, _WATERMARK, key_groups, BEGINNING)
        self._context.watermark = times.least  # rows in flight may be no later than that
        self._context.now = greatest(timers, _NOW, BEGINNING)
        for part in timers:
            if f"{_TIMERS}.arrow" in part.names():
                table = pa.ipc.open_stream(part.read(f"{_TIMERS}.arrow")).read_all()
                for batch in table.to_batches():
                    self._timers.restore(batch, key_groups, self._timer_keys)

    def kept_states(self) -> tuple[KeptState, ...]:
        """Each state of the function: keys and value, list, map or accumulator."""
        return tuple(kept_state(each, self._key_schema) for each in self._node.states)

    def kept_rows(
        self, state: str, snapshot: SnapshotReader, wanted: Wanted
    ) -> Iterator[pa.RecordBatch]:
        """See `Operator`; what has outlived its time by the checkpoint is left out."""
        now = greatest(parts_of([snapshot], "timers"), _NOW, BEGINNING)
        (part,) = parts_of([snapshot], "state")
        specs = state_specs(self._node.states, self._key_schema, told=True)
        return rows_of_state(state, specs, part, wanted, now)

    def rows_of(self, state: str) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Keys and values of a state with one value a key, as they are now."""
        found: Iterator[tuple[pa.RecordBatch, pa.Array]] = self._store.state(state).scan()
        return found

    def close(self) -> None:
        """Close function, watcher and states."""
        if self._deadline is not None:
            self._deadline.close()
        if self._process is not None:
            self._setup(self._process.close)
            self._store.close()

    # ---- rows

    def _at_once(self, rows: pa.RecordBatch) -> Batches:
        keys = rows.select(self._names)

        def call(begin: int, n: int) -> Returned:
            some = keys.slice(begin, n)
            self._context.of_all(some)
            return self._user.on_batch(self._context, some, rows.slice(begin, n))

        return self._tried(call, rows)

    def _by_key(self, rows: pa.RecordBatch) -> Batches:
        """A call a key, in the order in which keys are first seen."""
        table = GroupTable(self._key_schema)
        ids = table.upsert(rows.select(self._names))
        keys = table.keys()
        counts = np.bincount(ids, minlength=table.n_groups).tolist()
        rows = rows.take(pa.array(np.argsort(ids, kind="stable")))
        out: Batches = []
        begin = 0
        for row, (key, count) in enumerate(zip(_values(keys), counts, strict=True)):
            self._context.of_one(keys, row, key)
            out += self._tried(self._of_key(key, some := rows.slice(begin, count)), some)
            begin += count
        return out

    def _of_key(self, key: Any, rows: pa.RecordBatch) -> Part:
        return lambda begin, n: self._user.on_rows(self._context, key, rows.slice(begin, n))

    # ---- timers

    def _fire(self, domain: TimerDomain, time_us: int) -> Batches:
        """Call all timers until `time_us`, also those that such calls set."""
        layers = Layers(*self._timers.due(domain, time_us))
        out: Batches = []
        n_rounds = 0
        while layers:
            ids, times = layers.pop()
            keys = self._timer_keys.keys(ids.astype(np.int32))
            out += self._timed(domain, keys, times)
            layers.drop(*self._heard(domain))
            further = self._timers.due(domain, time_us)
            layers.add(*further)
            n_rounds += len(further[0]) > 0
            if time_us == END_OF_TIME and n_rounds > LAST_ROUNDS:
                raise ExpressionError(
                    f"the function {self._node.function.name} sets timers without end: its input "
                    f"has ended and timers were set {LAST_ROUNDS:,} times since; at the end "
                    "ctx.watermark is fabric.streams.END_OF_TIME: set none then"
                )
        self._tidy()
        return _whole(out)

    def _timed(self, domain: TimerDomain, keys: pa.RecordBatch, times: Ints) -> Batches:
        user, context = self._user, self._context
        if not timers_by_key(user):
            when = pa.array(times)

            def call(begin: int, n: int) -> Returned:
                some = keys.slice(begin, n)
                context.of_all(some)
                return user.on_timers(context, some, when.slice(begin, n), domain)

            return self._tried(call, self._without_rows(keys))
        out: Batches = []
        for row, (key, time) in enumerate(zip(_values(keys), times.tolist(), strict=True)):
            context.of_one(keys, row, key)
            found = self._calls.run(partial(user.on_timer, context, key, time, domain))
            out += self._kept(found, self._without_rows(keys.slice(row, 1)))
        return out

    def _heard(self, domain: TimerDomain | None = None) -> tuple[Ints, Ints]:
        """Set and cancel what calls asked for; returns ids and times taken back in `domain`."""
        gone = [np.empty((0, 2), np.int64)]
        for asked in self._requests.take():
            keys = asked.keys.take(pa.array(asked.rows))
            if asked.is_set:
                self._timers.set(asked.domain, self._timer_keys.upsert(keys), asked.times)
                continue
            ids = self._timer_keys.find(keys)
            known = ids >= 0
            ids, times = ids[known].astype(np.int64), asked.times[known]
            self._timers.cancel(asked.domain, ids, times)
            if asked.domain == domain:
                gone.append(np.column_stack([ids, times]))
        pairs = np.concatenate(gone)
        return pairs[:, 0], pairs[:, 1]

    def _tidy(self) -> None:
        """Forget keys that have no timers, when they are many."""
        if self._timer_keys.n_groups > 2 * len(self._timers) + _SPARE:
            ids = self._timer_keys.ids()
            self._timer_keys.remove(ids[~np.isin(ids, self._timers.in_use())])
            self._timer_keys.compact()

    # ---- outcomes

    @property
    def _user(self) -> Process:
        assert self._process is not None
        return self._process

    def _tried(self, call: Part, rows: pa.RecordBatch, begin: int = 0) -> Batches:
        """A call about `rows`, which begin at `begin` of what is called about.

        One that fails is made again with each half, down to single rows: which rows a policy takes
        does not depend on what came together with them.
        """
        n = rows.num_rows
        found = self._calls.run(partial(call, begin, n))
        if not isinstance(found, str) or n == 1:
            return self._kept(found, rows)
        half = n // 2
        first = self._tried(call, rows.slice(0, half), begin)
        return first + self._tried(call, rows.slice(half), begin + half)

    def _kept(self, found: Batches | str, rows: pa.RecordBatch) -> Batches:
        """The rows of a call; of one that failed none, and its input goes where policy says."""
        if not isinstance(found, str):
            return found
        self._n_failed += rows.num_rows
        if self._node.on_error == "side":
            letter = (found, self._place.node, self._place.attempt)
            said = [pa.array([value] * rows.num_rows) for value in letter]
            schema = self._sides[ERRORS]
            columns = [*rows.columns, *said[:2], said[2].cast(pa.int32())]
            self._context.put_aside(ERRORS, pa.RecordBatch.from_arrays(columns, schema=schema))
        return []

    def _without_rows(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the input that are null but for their keys."""
        columns = [
            keys.column(field.name) if field.name in self._names
            else pa.nulls(keys.num_rows, field.type)
            for field in self._rows
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(columns, schema=self._rows)

    def _setup(self, work: Any) -> None:
        try:
            with watched(self._node.function.payload):
                work()
        except BaseException as error:
            name = self._node.function.name
            raise PlanError(f"{name}.{work.__name__} raised {said(error)}") from error


def _values(keys: pa.RecordBatch) -> list[Any]:
    """Keys as Python has them; tuples where there are several columns."""
    columns = [column.to_pylist() for column in keys.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _whole(batches: Batches) -> Batches:
    some = [batch for batch in batches if batch.num_rows]
    return [pa.concat_batches(some)] if len(some) > 1 else some
