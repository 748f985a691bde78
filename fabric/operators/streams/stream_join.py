"""Rows of two streams whose keys are equal and whose times are near each other.

    left  ──► probes the right table ──► pairs at once     each side waits in a table of its own
    right ──► probes the left table  ──► pairs at once     until no partner of it can come any more

One job: the operator of `StreamJoin`. A left row at time t meets right rows from ``t + lower`` to
``t + upper``; so it is of no use once the watermark is beyond ``t + upper``, nor is a right row
beyond ``t - lower``. Rows that met nobody, where those come out, come out then. A row behind the
watermark meets nobody, nor do rows of which the condition is not true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.join_table import TIME, JoinTable
from fabric.event_time import BEGINNING
from fabric.event_time.windows import behind
from fabric.operators.contract import Batches
from fabric.operators.snapshots import GroupTimes, Packed, unpacked
from fabric.operators.streams.columns import (
    ROWS_MAX,
    Bools,
    Ints,
    event_times,
    gathered,
    only,
    rows_of,
)
from fabric.operators.streams.group_values import Numbers
from fabric.operators.streams.two_streams import LEFT, RIGHT, Condition, Side, TwoStreamsOperator
from fabric.plan.expr import Expr
from fabric.plan.mend import free_name
from fabric.plan.nodes import StreamJoin
from fabric.state.backend import Snapshot, SnapshotReader

_NAMES = ("left", "right")
_WATERMARK = "watermark"
_PAIRS_MAX = 1 << 18
"""Pairs of equal keys that are looked at in one go, unless one row has more."""
_WAITING = (("left", "full", "semi", "anti"), ("right", "full"))
"""The joins in which it matters whether a row of that side has met a partner."""
_Places = NDArray[np.int32]


class StreamJoinOperator(TwoStreamsOperator):
    """Joins rows of `sources`, whose keys are columns of the same types."""

    def __init__(self, node: StreamJoin, sources: Sequence[pa.Schema], output: pa.Schema) -> None:
        super().__init__(node, sources, output)
        left, right = self._shown
        self._how = node.how
        self._lower, self._upper = node.lower_us, node.upper_us
        self._condition = None if node.condition is None else Condition(node.as_join, left, right)
        self._sides = (
            _Side(left, node.left_keys, node.left_time, self.read(LEFT), node.upper_us,
                  tells=node.how in _WAITING[LEFT], aside=node.late == "side"),
            _Side(right, node.right_keys, node.right_time, self.read(RIGHT), -node.lower_us,
                  tells=node.how in _WAITING[RIGHT], aside=node.late == "side"),
        )  # fmt: skip
        holds = {"right": -node.lower_us, "full": max(node.upper_us, -node.lower_us)}
        self._held_us = max(0, holds.get(node.how, node.upper_us))

    @property
    def sides(self) -> tuple[Side, Side]:
        """See `TwoStreamsOperator`."""
        return self._sides

    def read(self, side: int) -> set[str]:
        """The columns of a side that are put out, or that the condition reads."""
        asked = set() if self._condition is None else self._condition.read[side]
        return super().read(side) | asked

    def watermark(self, time_us: int) -> int:
        """Held back by as long as an older row may still come out."""
        return behind(time_us, self._held_us)

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """The rows of both sides that wait for partners."""
        rows = [side.export() for side in self._sides]
        return Packed(
            {_NAMES[LEFT]: lambda: rows[LEFT], _NAMES[RIGHT]: lambda: rows[RIGHT]},
            {_WATERMARK: self._times.fact()},
            sum(each.num_rows for each in rows),
        )

    def restore(self, snapshots: Sequence[SnapshotReader], key_groups: range) -> None:
        """The rows of our key groups."""
        self._times = GroupTimes.restored(snapshots, _WATERMARK, key_groups, BEGINNING)
        for name, side in zip(_NAMES, self._sides, strict=True):
            for batch in unpacked(snapshots, name, side.exported, key_groups):
                side.restore(batch)

    def arrived(self, input: int, batch: pa.RecordBatch) -> Iterator[Batches]:
        """Pair the rows that are on time with what is there, then let them wait themselves."""
        mine, other = self._sides[input], self._sides[1 - input]
        rows, times = mine.on_time(batch, self._times)
        met = np.zeros(rows.num_rows, np.bool_)
        begin = 0
        while begin < rows.num_rows:
            numbers, places, begin = mine.probe(other, rows, begin)
            near = self._are_near(input, times[numbers], other.times(places))
            numbers, places = numbers[near], places[near]
            if self._condition is not None:
                true = self._true(self._condition, input, rows, numbers, places)
                numbers, places = numbers[true], places[true]
            met[numbers] = True
            fresh = other.meet(places)
            if self._how not in ("semi", "anti"):
                for first in range(0, len(numbers), ROWS_MAX):
                    part = slice(first, first + ROWS_MAX)
                    pair = (rows_of(rows, numbers[part]), other.table.take(places[part]))
                    yield [self.joined(pair if input == LEFT else pair[::-1])]
            elif self._how == "semi" and input == RIGHT:
                yield self._alone(LEFT, other.table.take(fresh))
        if self._how == "semi" and input == LEFT:
            yield self._alone(LEFT, rows_of(rows, met))
        if self._how in ("semi", "anti") and input == LEFT:  # those that met one are done with
            rows, times, met = rows_of(rows, ~met), times[~met], met[~met]
        mine.keep(rows, times, met)

    def _true(
        self, condition: Condition, input: int, rows: pa.RecordBatch, numbers: Ints, places: _Places
    ) -> Bools:
        """For which pairs of `rows` and places of the other side it is true."""
        table = self._sides[1 - input].table
        return condition.holds(
            input, len(numbers),
            lambda part, names: gathered(rows.select(names), numbers[part]),
            lambda part, names: table.take(places[part], names),
        )  # fmt: skip

    def _are_near(self, input: int, mine: Ints, others: Ints) -> Bools:
        """Which pairs lie within the bounds; times are far from what int64 can't hold."""
        apart = others - mine if input == LEFT else mine - others
        found: Bools = (apart >= self._lower) & (apart <= self._upper)
        return found

    def passed(self, time_us: int) -> Iterator[Batches]:
        """Forget the rows whose partners would all be late; some met nobody, and never will."""
        for index, side in enumerate(self._sides):
            if side.tells and self._how != "semi":
                lonely = side.lonely_before(time_us)
                for first in range(0, len(lonely), ROWS_MAX):
                    rows = side.table.take(lonely[first : first + ROWS_MAX])
                    yield self._alone(index, rows)
            side.table.remove_before(time_us)

    def _alone(self, side: int, rows: pa.RecordBatch) -> Batches:
        """Rows of one side without a partner, or without its columns; none for no rows."""
        if not rows.num_rows:
            return []
        return [self.joined((rows, None) if side == LEFT else (None, rows))]


class _Side(Side):
    """The rows of one input that may still meet partners.

    A row is kept until the watermark is more than `reach_us` after its time. If it `tells`, it is
    known of each row whether it has met one.
    """

    def __init__(
        self, source: pa.Schema, keys: Sequence[Expr], time: str, read: set[str], reach_us: int,
        *, tells: bool, aside: bool,
    ) -> None:  # fmt: skip
        super().__init__(source, keys, time, read, aside=aside)
        self.tells, self._reach_us = tells, reach_us
        self.table = JoinTable(self.kept, self.keys)
        self._met = Numbers(np.bool_, False)
        self._flag = free_name("__met", self.kept.names)
        self.exported = pa.schema([
            *self.kept, pa.field(TIME, pa.int64()), pa.field(self._flag, pa.bool_())
        ])  # fmt: skip

    def probe(self, other: _Side, rows: pa.RecordBatch, begin: int) -> tuple[Ints, _Places, int]:
        """Pairs of our `rows` from number `begin` on and places of the other side whose keys are
        equal, and the row to go on with."""
        keys = [rows.column(key) for key in self.keys]
        numbers, places, end = other.table.probe(keys, begin=begin, pairs_max=_PAIRS_MAX)
        if numbers is None:
            return np.arange(rows.num_rows), places, end
        return numbers.astype(np.int64), places, end

    def times(self, places: _Places) -> Ints:
        """The time of the row at each place."""
        return event_times(self.table.take(places, [self.time]), self.time)

    def keep(self, rows: pa.RecordBatch, times: Ints, met: Bools) -> None:
        """Let rows wait for partners; `met`: those that had one already."""
        places = self.table.insert(rows, times + self._reach_us)
        if self.tells:
            self._met.put(places, met)

    def meet(self, places: _Places) -> _Places:
        """The rows at these places have met somebody; returns those that had not, each once."""
        if not self.tells:
            return places[:0]
        self._met.reach(places)
        fresh = np.unique(places[~self._met.values[places]])
        self._met.put(fresh, True)
        return fresh

    def lonely_before(self, time_us: int) -> _Places:
        """The rows that nobody will meet from `time_us` on, and that have met nobody."""
        places = self.table.before(time_us)
        found: _Places = places[~self._met.values[places]]
        return found

    def export(self) -> pa.RecordBatch:
        """All rows, with their key groups as the last column."""
        rows = self.table.export()
        met = self._met.values[self.table.places()] if self.tells else np.zeros(rows.num_rows, bool)
        return rows.add_column(rows.num_columns - 1, self.exported.field(self._flag), pa.array(met))

    def restore(self, rows: pa.RecordBatch) -> None:
        """Take rows of an export."""
        places = self.table.insert(only(rows, self.kept.names), rows.column(TIME).to_numpy())
        self._met.put(places, rows.column(self._flag).to_numpy(zero_copy_only=False))
