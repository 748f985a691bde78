"""Rows that every task of a user's function holds whole: rules, prices, settings.

    rows  ─► by key ─────────────► on_rows(ctx, key, rows)      ctx.broadcast: the rules so far
    rules ─► one task ─► all tasks ─► on_broadcast(ctx, rows)    the same rules in the same order

One job: `KeptBroadcast`, those rows as the function sees them, and the operator that takes them in
(input 1) beside the rows of keys (input 0). All rules come through one task, so each task gets them
in one order. Of a stream the first task alone has them in its snapshot, and all tasks restore that;
its edges are aligned in every checkpoint, so at a barrier all tasks hold the same. A table is read
whole by each attempt before the first row, and is in no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric._cython.kernels.group_table import GroupTable
from fabric.errors import DataError, ExpressionError
from fabric.operators.contract import Batches, Context, Files
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.expressions.predicates import filter_expr
from fabric.operators.snapshots import Joint, Packed, greatest, parts_of
from fabric.operators.streams.columns import Bools, Ints, only, shown, told_as
from fabric.operators.streams.process.operator import ProcessOperator
from fabric.plan.expr import Expr
from fabric.plan.faults import quoted
from fabric.plan.literals import array_of
from fabric.plan.nodes import KeyedProcess
from fabric.plan.process import hears_broadcast
from fabric.state.backend import Snapshot, SnapshotReader
from fabric.state.opened import Wanted

ROWS, RULES = 0, 1
"""The inputs."""
_PART, _TABLE, _VERSION = "broadcast", "rows", "version"
_MIB = 1 << 20


class KeptBroadcast:
    """See `fabric.plan.process.BroadcastRows`; `add` takes further ones.

    >>> rules = KeptBroadcast(pa.schema([("key", pa.string()), ("limit", pa.int64())]), ["key"])
    >>> rules.add(pa.record_batch({"key": ["a", "b", "a"], "limit": [1, 2, 3]}))
    >>> list(rules), rules.get("a"), rules.get("c"), rules.version
    ([{'key': 'a', 'limit': 3}, {'key': 'b', 'limit': 2}], {'key': 'a', 'limit': 3}, None, 3)
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str] = (),
        deleted: Expr | None = None,
        bytes_max: int = 0,
    ) -> None:
        self.schema, self._source = told_as(shown(schema)), shown(schema)
        self._keys, self._bytes_max = list(keys), bytes_max
        self._key_schema = pa.schema([self.schema.field(key) for key in keys])
        self._is_deleted = None
        if deleted is not None:
            self._is_deleted = compile_expr(filter_expr(deleted, self._source), self._source)
        self.version = 0
        self._table: pa.Table = self.schema.empty_table()
        self._index = GroupTable(self._key_schema) if keys else None
        """Numbers keys as their rows lie in the table."""
        self._rows: list[dict[str, Any]] | None = None
        self._found: dict[tuple[Any, ...], dict[str, Any] | None] = {}
        """Rows that were asked for, since the last one came."""

    @property
    def table(self) -> pa.Table:
        """All rows as columns."""
        return self._table

    def get(self, *key: Any) -> dict[str, Any] | None:
        """The row of a key; None: there is none."""
        if self._index is None:
            raise ExpressionError(
                "the broadcast rows have no keys to be found by; write: "
                f".process(…, broadcast_keys={quoted(self.schema.names[0])})"
            )
        if len(key) != len(self._keys):
            raise ExpressionError(
                f"a broadcast row is found by {', '.join(self._keys)}; got {len(key)} values"
            )
        if key not in self._found:
            self._found[key] = self._row_of(self._index, key)
        found = self._found[key]
        return None if found is None else found.copy()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self._rows is None:
            self._rows = self._table.to_pylist()
        return (row.copy() for row in self._rows)

    # ---- rows that come

    def add(self, batch: pa.RecordBatch) -> None:
        """These rows have come, after all others; `DataError` when all take too many bytes."""
        rows = _as_plain(batch, self.schema)
        deleted = self._deleted(batch) if self._is_deleted is not None else None
        self.version += rows.num_rows
        self._take(rows, deleted)

    def snapshot(self) -> Packed:
        """All rows as they are now."""
        table = self._table
        return Packed({_TABLE: lambda: table}, {_VERSION: self.version}, 0)

    def restore(self, parts: Sequence[SnapshotReader]) -> None:
        """Go on from what one task stored; of several, as after another number of tasks, those are
        the same, but for a task that had ended and stored them as they were then."""
        stored = [part for part in parts if part.names()]
        if not stored:
            return
        newest = max(stored, key=lambda part: greatest([part], _VERSION, 0))
        if f"{_TABLE}.arrow" in newest.names():
            table = pa.ipc.open_stream(newest.read(f"{_TABLE}.arrow")).read_all()
            if not table.schema.equals(self.schema):
                raise DataError(
                    f"the snapshot has broadcast rows with the columns {_text(table.schema)}, and "
                    f"this plan has {_text(self.schema)}; start the job anew, or restore it with "
                    "the plan it had"
                )
            for batch in table.to_batches():
                self._take(batch, None)
        self.version = greatest([newest], _VERSION, 0)

    # ---- inside

    def _take(self, rows: pa.RecordBatch, deleted: Bools | None) -> None:
        """Put rows after the others; with keys the last one takes the place of what is there."""
        self._rows, self._found = None, {}
        before, both = self._table.num_rows, pa.concat_tables([self._table, pa.table(rows)])
        if self._index is None:
            self._table = both.combine_chunks()
            return self._check_size()
        ids = self._index.upsert(only(rows, self._keys)).astype(np.int64)
        places: Ints = np.arange(self._index.n_ids)
        places[ids] = before + np.arange(rows.num_rows)  # of equal ids the last one counts
        if deleted is not None and deleted.any():
            gone = (places >= before) & deleted[np.maximum(places - before, 0)]
            places = places[~gone]
            index = self._index = GroupTable(self._key_schema)
            for keys in both.select(self._keys).take(pa.array(places)).to_batches():
                index.upsert(keys)
        self._table = both.take(pa.array(places)).combine_chunks()
        return self._check_size()

    def _deleted(self, batch: pa.RecordBatch) -> Bools:
        assert self._is_deleted is not None
        mask = self._is_deleted(only(batch, self._source.names))
        if not pa.types.is_boolean(mask.type):  # null for all
            return np.zeros(batch.num_rows, np.bool_)
        found: Bools = mask.fill_null(False).to_numpy(zero_copy_only=False)
        return found

    def _row_of(self, index: GroupTable, key: tuple[Any, ...]) -> dict[str, Any] | None:
        columns = []
        for value, field in zip(key, self._key_schema, strict=True):
            try:
                columns.append(array_of([value], field.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise ExpressionError(
                    f"the broadcast key {field.name} is {field.type}, got {value!r:.80}"
                ) from error
        (row,) = index.find(columns).tolist()
        if row < 0:
            return None
        found: list[dict[str, Any]] = self._table.slice(row, 1).to_pylist()
        return found[0]

    def _check_size(self) -> None:
        n_bytes = self._table.nbytes + (0 if self._index is None else self._index.nbytes)
        if not self._bytes_max or n_bytes <= self._bytes_max:
            return
        way = f'broadcast_memory="{-(-2 * n_bytes // _MIB)} MiB"'
        if self._index is None:
            key = quoted(self.schema.names[0])
            way += f", or broadcast_keys={key} to keep the newest row of each key only"
        raise DataError(
            f"{len(self)} broadcast rows take {n_bytes} bytes, and each task may hold "
            f"{self._bytes_max}; write: .process(…, {way})"
        )


class BroadcastProcessOperator(ProcessOperator):
    """Runs the function of `node` over rows of the first of `sources`; all hold the second's."""

    def __init__(self, node: KeyedProcess, sources: Sequence[pa.Schema], output: pa.Schema) -> None:
        super().__init__(node, sources[ROWS], output)
        self._is_table = node.broadcast_is == "table"
        self._rules = KeptBroadcast(
            sources[RULES], node.broadcast_keys, node.broadcast_deleted, node.broadcast_bytes
        )

    @property
    def untimed(self) -> frozenset[int]:
        """Rules without event time."""
        return frozenset() if self._node.broadcast_is == "timed" else frozenset({RULES})

    def open(self, context: Context) -> None:
        """See `ProcessOperator`."""
        super().open(context)
        self._context.kept_broadcast = self._rules

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """What the function puts out for rows of keys; rules are kept."""
        if input == ROWS:
            return super().on_batch(input, batch)
        if batch.num_rows:
            self._rules.add(batch)
            self._say(_as_plain(batch, self._rules.schema))
        return []

    def on_barrier(self, checkpoint: int) -> Joint:
        """States, timers, and in the first task the rules."""
        parts = super().on_barrier(checkpoint).parts
        return Joint({**parts, **self._stored()})

    def on_final(self) -> Snapshot:
        """The rules: other tasks may go on with them."""
        stored = self._stored()
        return Joint(stored) if stored else Files()

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """States and timers of our key groups, and all rules."""
        super().restore(list(filter(_has_keys, snapshots)), key_groups)
        if self._is_table:
            return
        self._rules.restore(parts_of(snapshots, _PART))
        for batch in self._rules.table.to_batches():
            self._say(batch)

    def kept_rows(
        self, state: str, snapshot: SnapshotReader, wanted: Wanted
    ) -> Iterator[pa.RecordBatch]:
        """See `ProcessOperator`; a task that has ended has no keys."""
        return super().kept_rows(state, snapshot, wanted) if _has_keys(snapshot) else iter(())

    def _stored(self) -> dict[str, Snapshot]:
        is_first = self._place.task == 0 and not self._is_table
        return {_PART: self._rules.snapshot()} if is_first else {}

    def _say(self, rows: pa.RecordBatch) -> None:
        """Tell the function of rules that have come."""
        if not hears_broadcast(self._user):
            return
        self._context.of_none()
        found = self._calls.run(partial(self._user.on_broadcast, self._context, rows), must=True)
        if found:
            raise ExpressionError(
                f"{self._node.function.name}.on_broadcast returned rows, and is called in every "
                "task: they would come out once for each; put rows out in on_rows or on_batch"
            )


def _has_keys(snapshot: SnapshotReader) -> bool:
    """Whether a snapshot has states and timers, and not only the rules of a task that ended."""
    (part,) = parts_of([snapshot], "timers")
    return bool(part.names())


def _as_plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema` in its types, which no dictionary is among."""
    rows = only(batch, schema.names)
    if rows.schema.equals(schema):
        return rows
    columns = [
        pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column
        for column in rows.columns
    ]
    cast = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(cast, schema=schema)


def _text(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
