"""Aggregates whose results change: each new one takes the place of the one before.

One job: the base class of those: which groups have rows that no result shows, when to show them
(`Trigger`), and the rows -U and +U. Groups are shown after whole batches: "after every so many
rows" means as soon as a batch has brought that many.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.event_time import BEGINNING
from fabric.event_time.windows import is_early, shown_after_rows
from fabric.operators.contract import Batches
from fabric.operators.streams.accumulators import Ids, RowGroups
from fabric.operators.streams.windows.shape import AFTER, BEFORE, DELETE, INSERT, sliced
from fabric.operators.streams.windows.windowed import Windowed

Ints = NDArray[np.int64]
UNSHOWN = "rows"
"""The note that counts the rows of a group that no result shows."""
_EARLY = "early_us"


class Changing(Windowed):
    """What tells of results that take the place of others."""

    _told_us = BEGINNING
    """When results were last shown because of the clock."""

    def windows(self, ids: Ids) -> tuple[Ints, ...]:
        """Starts and ends of the windows of groups; nothing where there are none."""
        return ()

    def add(self, ids: Ids, batch: pa.RecordBatch) -> RowGroups:
        """Add rows up that belong to these groups."""
        rows = RowGroups(ids)
        self.state.changed(ids)
        self.state.aggregates.update(rows, batch)
        np.add.at(self.state.notes[UNSHOWN].values, ids, 1)
        return rows

    def after_rows(self, touched: Ids, ends: Ints | None = None) -> NDArray[np.bool_]:
        """Which groups, whose windows end at `ends`, are shown because rows came."""
        unshown = self._unshown(touched)
        return shown_after_rows(self.node.trigger, unshown, ends, self.ends.reached)

    def show(self, ids: Ids) -> Batches:
        """The results of those groups that have rows which none shows, for ones shown before."""
        ids = ids[self._unshown(ids) > 0]
        if not len(ids):
            return []
        self.state.changed(ids)
        self.state.notes[UNSHOWN].clear(ids)
        columns = [*map(pa.array, self.windows(ids)), *self.state.aggregates.results(ids)]
        shown = self.state.shown
        if shown is None:
            return self._rows(ids, columns, None)
        before = shown.has(ids)
        old = shown.get(ids[before]) if before.any() else None
        shown.put(ids, pa.RecordBatch.from_arrays(columns, schema=shown.schema))
        new = self._rows(ids, columns, np.where(before, AFTER, INSERT).astype(np.int8))
        if old is None:
            return new
        kinds = np.full(old.num_rows, BEFORE, np.int8)
        return _beside(self._rows(ids[before], old.columns, kinds), before, new)

    def make_room(self, end: str | None = None) -> None:
        """Groups that take more memory than they may go below, but for those that the clock shows.

        `end` is the mark that says when a group ends.
        """
        by_clock = self.node.trigger.early_us is not None
        self.state.make_room(end, (lambda ids: self._unshown(ids) == 0) if by_clock else None)

    def take_back(self, ids: Ids) -> Batches:
        """Rows -D of those groups that were shown: they are no more."""
        shown = self.state.shown
        assert shown is not None
        ids = ids[shown.has(ids)]
        if not len(ids):
            return []
        return self._rows(ids, shown.get(ids).columns, np.full(len(ids), DELETE, np.int8))

    def on_time(self, now_us: int) -> Batches:
        """Show what there is when the interval of early results has passed."""
        found = super().on_time(now_us)
        if not is_early(self.node.trigger, self._told_us, now_us):
            return found
        self._told_us = now_us
        return found + self.show(self.state.ids())

    def facts(self) -> Mapping[str, int]:
        """See `Windowed`."""
        return {_EARLY: self._told_us}

    def restored_facts(self, facts: Mapping[str, int]) -> None:
        """See `Windowed`."""
        self._told_us = facts[_EARLY]

    def _unshown(self, ids: Ids) -> Ints:
        return self.state.notes[UNSHOWN].values[ids]

    def _rows(self, ids: Ids, columns: list[pa.Array], kinds: NDArray[np.int8] | None) -> Batches:
        return self.shape.rows(self.state.keys(ids), columns, kinds)


def _beside(old: Batches, before: NDArray[np.bool_], new: Batches) -> Batches:
    """The rows of `new`, those of which there is one before right behind that."""
    places = np.arange(len(before)) + np.cumsum(before)
    order = np.empty(len(before) + int(before.sum()), np.int64)
    order[places[before] - 1] = np.arange(int(before.sum()))
    order[places] = np.arange(len(before)) + int(before.sum())
    rows = pa.Table.from_batches([*old, *new]).combine_chunks().take(pa.array(order))
    return [piece for batch in rows.combine_chunks().to_batches() for piece in sliced(batch)]
