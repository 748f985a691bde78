"""What all joins of two streams do: rows of both sides that are on time, and work done in pieces.

One job: `TwoStreamsOperator`, the base of the operators of `TwoStreams` nodes, and `Side`, what it
knows of an input. A row behind the watermark is late and meets nobody, because its partners may be
gone. Null keys meet nobody. A side whose watermark does not move while the other's is ahead is
counted, for its tasks keep ever more rows.

A call may complete more than fits into a batch. It is therefore work that is done piece by piece
(`gradually`), and the calls that come meanwhile wait for their turn.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from fabric.errors import DataError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.operators.contract import Batches, Operator
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.expressions.predicates import filter_expr
from fabric.operators.snapshots import GroupTimes
from fabric.operators.streams.columns import (
    ROWS_MAX,
    Bools,
    Ints,
    event_times,
    hashes_of_rows,
    only,
    row_watermarks,
    rows_of,
    shown,
)
from fabric.operators.streams.lifetime import LateRows
from fabric.plan.expr import Expr, columns_of, output_name
from fabric.plan.nodes import TwoStreams
from fabric.plan.nodes.join import Join, JoinColumn, condition_columns, output_columns
from fabric.plan.stream import LATE_LEFT, LATE_RIGHT, STILL_LEFT, STILL_RIGHT

LEFT, RIGHT = 0, 1
_LATE = (LATE_LEFT, LATE_RIGHT)
_STILL = (STILL_LEFT, STILL_RIGHT)
STILL_US = 60_000_000
"""How long a side's watermark may stand still before that is told."""
_FAR = 1 << 61
"""Microseconds: sums and differences of times up to there are no overflow."""


class Side:
    """The columns of an input that a join keeps: those that are `read`, keys and the time."""

    def __init__(
        self, source: pa.Schema, keys: Sequence[Expr], time: str, read: set[str], *, aside: bool
    ) -> None:
        self.keys, self.time = list(dict.fromkeys(output_name(key) for key in keys)), time
        self.late = LateRows(aside=aside)
        wanted = {*read, *self.keys, time}
        self.kept = pa.schema([field for field in source if field.name in wanted])

    def on_time(self, batch: pa.RecordBatch, reached: GroupTimes) -> tuple[pa.RecordBatch, Ints]:
        """The rows that are not behind the watermark, and the time of each."""
        times = event_times(batch, self.time)
        if np.any((times < -_FAR) | (times > _FAR)):
            raise DataError(f"a time in {self.time!r} is too far away for a join of streams")
        known = reached.of(lambda: hashes_of_rows(batch, self.keys))
        own = row_watermarks(batch)
        late = times < (known if own is None else np.maximum(known, own))
        rows = only(batch, self.kept.names)
        if not late.any():
            return rows, times
        self.late.put(batch, late)
        return rows_of(rows, ~late), times[~late]


def known_keys(rows: pa.RecordBatch, keys: Sequence[str]) -> Bools:
    """Which rows have no null among their keys.

    >>> known_keys(pa.record_batch({"a": [1, None], "b": [None, None]}), ["a"]).tolist()
    [True, False]
    """
    found = np.ones(rows.num_rows, np.bool_)
    for key in keys:
        if rows.column(key).null_count:
            found &= rows.column(key).is_valid().to_numpy(zero_copy_only=False)
    return found


Columns = Callable[[slice, Sequence[str]], pa.RecordBatch]
"""The columns of these names of one side of some pairs."""


class Condition:
    """What must be true of a pair of rows besides what a join goes by."""

    def __init__(self, join: Join, left: pa.Schema, right: pa.Schema) -> None:
        assert join.condition is not None
        names = columns_of(join.condition)
        columns = condition_columns(join, left, right)
        read = [column for column in columns if column.name in names] or columns[:1]
        self._sources = [[c.source for c in read if c.right == side] for side in (False, True)]
        self.read = [set(names) for names in self._sources]
        """The columns of each side that it reads."""
        ordered = sorted(read, key=lambda column: column.right)
        self._schema = pa.schema([(column.name, column.dtype) for column in ordered])
        self._is_true = compile_expr(filter_expr(join.condition, self._schema), self._schema)

    def holds(self, input: int, n_pairs: int, mine: Columns, others: Columns) -> Bools:
        """For which pairs it is true; `mine` gives columns of `input`, `others` of the other."""
        found = np.zeros(n_pairs, np.bool_)
        sides = (mine, others) if input == LEFT else (others, mine)
        for begin in range(0, n_pairs, ROWS_MAX):
            part = slice(begin, min(n_pairs, begin + ROWS_MAX))
            columns = [
                column
                for side, names in zip(sides, self._sources, strict=True)
                if names
                for column in side(part, names).columns
            ]
            mask = self._is_true(pa.RecordBatch.from_arrays(columns, schema=self._schema))
            if pa.types.is_boolean(mask.type):  # else it is null for all
                found[part] = mask.fill_null(False).to_numpy(zero_copy_only=False)
        return found


class TwoStreamsOperator(Operator):
    """Joins rows of `sources`, whose keys are columns of the same types."""

    def __init__(self, node: TwoStreams, sources: Sequence[pa.Schema], output: pa.Schema) -> None:
        self._output = output
        self._shown = shown(sources[LEFT]), shown(sources[RIGHT])
        self._columns = output_columns(node.as_join, *self._shown)
        self._times = GroupTimes(BEGINNING)
        self._work = deque[Iterator[Batches]]()
        self._moved: list[tuple[int, int] | None] = [None, None]
        """Of each side: its watermark, and since when it has that."""
        self._still = [False, False]

    @property
    @abstractmethod
    def sides(self) -> tuple[Side, Side]:
        """Left, right."""

    @abstractmethod
    def arrived(self, input: int, batch: pa.RecordBatch) -> Iterator[Batches]:
        """What rows of an input complete."""

    @abstractmethod
    def passed(self, time_us: int) -> Iterator[Batches]:
        """What a watermark completes."""

    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """See `arrived`."""
        return self._begin(self.arrived(input, batch))

    def on_watermark(self, time_us: int) -> Batches:
        """See `passed`."""
        return self._begin(self._raised(time_us))

    def counts(self) -> dict[str, int]:
        """How many rows of each side were late; whether a side stands still."""
        late = {tag: side.late.n_rows for tag, side in zip(_LATE, self.sides, strict=True)}
        return late | {tag: 1 for tag, still in zip(_STILL, self._still, strict=True) if still}

    def on_input_times(self, times_us: Sequence[int], now_us: int) -> None:
        """Note a side that holds the other up, or that has no watermark at all, for a minute."""
        for side, time_us in enumerate(times_us):
            last = self._moved[side]
            if last is None or last[0] != time_us:
                last = self._moved[side] = time_us, now_us
            holds = time_us < times_us[1 - side] and times_us[1 - side] != IDLE
            waits = time_us not in (IDLE, END_OF_TIME) and (holds or time_us == BEGINNING)
            self._still[side] = waits and now_us - last[1] >= STILL_US

    def take_side(self) -> dict[str, Batches]:
        """Late rows of each side."""
        sides = zip(_LATE, self.sides, strict=True)
        return {tag: rows for tag, side in sides for rows in side.late.take().values()}

    def close(self) -> None:
        """Forget work that nobody waits for."""
        self._rest = None
        self._work.clear()

    def read(self, side: int) -> set[str]:
        """The columns of a side that are put out."""
        names = {c.source for c in self._columns if c.right == (side == RIGHT)}
        merged = {c.merged for c in self._columns if c.merged is not None}
        return names | (merged if side == RIGHT else set())

    def joined(self, pair: Sequence[pa.RecordBatch | None]) -> pa.RecordBatch:
        """Left and right rows side by side; nulls for a side that is not there."""
        return pa.RecordBatch.from_arrays(self.values(pair), schema=self._output)

    def values(self, pair: Sequence[pa.RecordBatch | None]) -> list[pa.Array]:
        """The columns of `joined`."""
        n_rows = next(rows.num_rows for rows in pair if rows is not None)
        return [_value(column, pair[LEFT], pair[RIGHT], n_rows) for column in self._columns]

    # ---- inside

    def _raised(self, time_us: int) -> Iterator[Batches]:
        self._times = self._times.raised(time_us)
        yield from self.passed(time_us)

    def _begin(self, work: Iterator[Batches]) -> Batches:
        """Do `work` after what was begun before; several batches may come in before more is asked
        for, and each must find the rows of the one before in its table."""
        self._work.append(work)
        return [] if self.has_more else self.gradually(self._done())

    def _done(self) -> Iterator[Batches]:
        while self._work:
            for found in self._work[0]:
                if found:
                    yield found
            self._work.popleft()


def _value(
    column: JoinColumn, left: pa.RecordBatch | None, right: pa.RecordBatch | None, n_rows: int
) -> pa.Array:
    """A column of the output; a merged key is that of the side there is a row of."""
    rows, name = (right, column.source) if column.right else (left, column.source)
    if rows is None and column.merged is not None:
        rows, name = right, column.merged
    if rows is None:
        return pa.nulls(n_rows, column.dtype)
    values = rows.column(name)
    return values if values.type.equals(column.dtype) else values.cast(column.dtype)
