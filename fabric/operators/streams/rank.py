"""The best rows of each group, as rows come.

    new rows ──► those that may enter ──► sorted with the rows their groups have ──► first n stay
                                                                          │
                                          what left and what came: changes, -U before its +U

One job: `BestRows`. What a group keeps is the number of each of its rows (`row_store.py`) in order,
with its rank. Everything goes by whole batches: O(rows that enter + rows of the groups they enter).
Rows that are worse than the last of a full group are found by one comparison each, where a number
orders them by the first key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from pyarrow.types import is_dictionary

from fabric.operators.fragment.aggregates.segments import order_keys, unviewed, valid
from fabric.operators.fragment.order import has_words, order_of
from fabric.operators.streams.columns import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    Bools,
    Ints,
    only,
    rows_of,
)
from fabric.operators.streams.group_values import GroupLists, Numbers, spans
from fabric.operators.streams.row_store import FrozenRows, RowStore
from fabric.plan.expr import Column, SortKey

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_GROUP = SortKey(Column(""))
_BATCH_ROWS = 1 << 18
Wanted = Literal["nothing", "rows", "ranks"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The first `n` rows in the order of `by`, whose inputs are columns.

    With `ties` all rows equal to the last of them, too. Equal rows are in the order they came, with
    `latest` the other way round.
    """

    by: tuple[SortKey, ...]
    n: int
    ties: bool = False
    latest: bool = False

    @property
    def names(self) -> list[str]:
        """The columns it goes by."""
        return [key.input.name for key in self.by if isinstance(key.input, Column)]


@dataclass(frozen=True, slots=True)
class Change:
    """What an update did to results: rows, the rank and the kind of each."""

    rows: pa.RecordBatch
    ranks: Ints
    kinds: Ints


@dataclass(frozen=True, slots=True)
class FrozenBest:
    """The state at one moment; for any thread."""

    rows: FrozenRows
    numbers: Ints
    ranks: Ints

    def table(self) -> pa.Table:
        """All rows, group by group, in order; in batches that Arrow's offsets can count."""
        cuts = range(0, len(self.numbers), _BATCH_ROWS)
        batches = [self.rows.take(self.numbers[at : at + _BATCH_ROWS]) for at in cuts]
        return pa.Table.from_batches(batches, self.rows.schema)


class BestRows:
    """State of the ranking of each group over rows of `schema`."""

    def __init__(self, ranking: Ranking, schema: pa.Schema) -> None:
        self._ranking = ranking
        self._schema = schema
        self._rows = RowStore(schema)
        self._lists = GroupLists(2)  # the number of a row, its rank
        self._slot = Numbers(np.int64, 0)
        self._worst = _Worst(ranking) if _has_number(ranking, schema) else None

    def update(self, groups: Ints, batch: pa.RecordBatch, wanted: Wanted) -> Change | None:
        """Let rows in, the group of each in `groups`; returns what changed, if that is wanted.

        Of "ranks" a row that stays with another rank has changed, too; of "rows" it has not.
        """
        enter = np.arange(batch.num_rows)
        if self._worst is not None:
            enter = np.flatnonzero(self._worst.candidates(groups, batch))
            groups = groups[enter]
        if not len(groups):
            return None
        touched, local = self._numbered(groups)
        entries, counts = self._lists.gather(touched)
        old = _Side(np.repeat(np.arange(len(touched)), counts), entries[:, 0], entries[:, 1])
        ranked = only(batch, self._ranking.names)
        merged = self._merged(old, rows_of(ranked, enter), local)
        came = merged.rows[merged.rows >= len(old.numbers)] - len(old.numbers)
        numbers = self._rows.put(rows_of(only(batch, self._schema.names), enter[came]))
        return self._replace(touched, old, merged, numbers, wanted)

    def load(self, groups: Ints, rows: Sequence[pa.RecordBatch], ranks: Ints) -> None:
        """Take over rows of groups that have none here, in the order of `freeze`."""
        numbers = np.concatenate([self._rows.put(batch) for batch in rows])
        first = np.flatnonzero(np.diff(groups, prepend=-1))
        counts = np.diff(first, append=len(groups))
        self._lists.replace(groups[first], counts, np.column_stack([numbers, ranks]))
        if self._worst is not None:
            self._worst.note(groups[first], counts, self._rows, numbers)

    def gather(self, groups: Ints) -> Change:
        """The results of `groups` now, group by group, in order."""
        entries, _ = self._lists.gather(groups)
        rows = self._rows.take(entries[:, 0])
        return Change(rows, entries[:, 1], np.zeros(len(entries), np.int64))

    def counts(self, groups: Ints) -> Ints:
        """How many rows each of `groups` has."""
        return self._lists.gather(groups)[1]

    def forget(self, groups: Ints) -> None:
        """Drop all rows of different `groups`."""
        if not len(groups):
            return
        entries, _ = self._lists.gather(groups)
        self._rows.drop(entries[:, 0])
        self._lists.forget(groups)
        if self._worst is not None:
            self._worst.forget(groups)

    def groups(self) -> Ints:
        """The groups that have rows, rising."""
        return self._lists.groups()

    @property
    def n_rows(self) -> int:
        """Of all groups."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        worst = 0 if self._worst is None else self._worst.nbytes
        return self._rows.nbytes + self._lists.nbytes + self._slot.nbytes + worst

    def freeze(self) -> tuple[Ints, FrozenBest]:
        """For each row its group, and the state; for another thread."""
        groups = self._lists.groups()
        entries, counts = self._lists.gather(groups)
        frozen = FrozenBest(self._rows.freeze(), entries[:, 0].copy(), entries[:, 1].copy())
        return np.repeat(groups, counts), frozen

    def _numbered(self, groups: Ints) -> tuple[Ints, Ints]:
        """The different groups of a batch, and for each row which of them it has."""
        places = np.arange(len(groups))
        self._slot.put(groups, places)
        slot = self._slot.values
        touched = groups[slot[groups] == places]
        slot[touched] = np.arange(len(touched))
        return touched, slot[groups]

    def _merged(self, kept: _Side, batch: pa.RecordBatch, new_local: Ints) -> _Merged:
        """Old and new rows of the groups in order, only those that are kept.

        Rows are numbered in the order they came, old ones first.
        """
        columns = self._columns(kept.numbers, batch)
        local = np.concatenate([kept.local, new_local])
        if self._ranking.latest:
            columns = [column[::-1] for column in columns]
            local = local[::-1]
        order = order_of([pa.array(local), *columns], [_GROUP, *self._ranking.by]).astype(np.int64)
        local = local[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = local[1:] != local[:-1]
        begin = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        ranks = np.arange(len(order)) - begin + 1
        if self._ranking.ties:
            fresh = first | _differs([column.take(pa.array(order)) for column in columns])
            ranks = ranks[np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))]
        good = ranks <= self._ranking.n
        rows = len(order) - 1 - order if self._ranking.latest else order
        return _Merged(rows[good], local[good], ranks[good])

    def _columns(self, old: Ints, batch: pa.RecordBatch) -> list[pa.Array]:
        """What ranks rows, of old ones and then of new ones."""
        names = self._ranking.names
        if not names:
            return []
        pairs = zip(self._rows.take(old, names).columns, batch.columns, strict=True)
        return [pa.concat_arrays([_values(before), _values(new)]) for before, new in pairs]

    def _replace(
        self, touched: Ints, old: _Side, merged: _Merged, came: Ints, wanted: Wanted
    ) -> Change | None:
        """Write the new lists down, `came` numbers new rows; returns how they differ."""
        n_old = len(old.numbers)
        is_old = merged.rows < n_old
        stay = merged.rows[is_old]
        numbers = np.empty(len(merged.rows), np.int64)
        numbers[is_old] = old.numbers[stay]
        numbers[~is_old] = came
        counts = np.bincount(merged.local, minlength=len(touched))
        self._lists.replace(touched, counts, np.column_stack([numbers, merged.ranks]))
        if self._worst is not None:
            self._worst.note(touched, counts, self._rows, numbers)
        gone = np.ones(n_old, np.bool_)
        gone[stay] = False
        change = None
        if wanted != "nothing":
            before, after = gone.copy(), ~is_old
            if wanted == "ranks":
                moved = merged.ranks[is_old] != old.ranks[stay]
                before[stay[moved]] = True
                after[np.flatnonzero(is_old)[moved]] = True
            new = _Side(merged.local[after], numbers[after], merged.ranks[after])
            left = _Side(old.local[before], old.numbers[before], old.ranks[before])
            change = self._change(left, new, len(touched))
        self._rows.drop(old.numbers[gone])
        return change

    def _change(self, left: _Side, came: _Side, n_groups: int) -> Change:
        """Results that left and came, in pairs by group: the i-th that left, the i-th that came."""
        n_left, n_came = (np.bincount(s.local, minlength=n_groups) for s in (left, came))
        at_left, at_came = _places(n_left), _places(n_came)
        kinds = np.concatenate(
            [
                np.where(at_left < n_came[left.local], BEFORE, DELETE),
                np.where(at_came < n_left[came.local], AFTER, INSERT),
            ]
        )
        order = np.lexsort(
            (
                np.repeat([0, 1], [len(at_left), len(at_came)]),
                np.concatenate([at_left, at_came]),
                np.concatenate([left.local, came.local]),
            )
        )
        numbers = np.concatenate([left.numbers, came.numbers])[order]
        ranks = np.concatenate([left.ranks, came.ranks])[order]
        return Change(self._rows.take(numbers), ranks, kinds[order])


@dataclass(frozen=True, slots=True)
class _Merged:
    """Rows that are kept, by group: the number of each among old and new, its group, its rank."""

    rows: Ints
    local: Ints
    ranks: Ints


@dataclass(frozen=True, slots=True)
class _Side:
    """Results by group: the group of each, the number of its row, its rank."""

    local: Ints
    numbers: Ints
    ranks: Ints


class _Worst:
    """One number a group, by the first key: a row with a greater one can't be among its best.

    Smaller is better; where nulls and the ends of int64 fall together, rows are let in.
    """

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._numbers = Numbers(np.int64, _MOST)

    def candidates(self, groups: Ints, batch: pa.RecordBatch) -> Bools:
        """Which rows may enter."""
        self._numbers.reach(groups)
        worst = self._numbers.values[groups]
        numbers = self._of(batch.column(self._ranking.names[0]))
        may: Bools = numbers <= worst
        if len(self._ranking.by) == 1 and not (self._ranking.ties or self._ranking.latest):
            may &= (numbers < worst) | (worst == _MOST) | (worst == _LEAST)
        return may

    def note(self, groups: Ints, counts: Ints, rows: RowStore, numbers: Ints) -> None:
        """The lists of `groups` are now these rows; full ones let fewer in."""
        full = counts >= self._ranking.n
        last = numbers[np.cumsum(counts)[full] - 1]
        column = rows.take(last, self._ranking.names[:1]).column(0)
        self._numbers.put(groups[full], self._of(column))

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._numbers.nbytes

    def forget(self, groups: Ints) -> None:
        """Any row may enter `groups`."""
        self._numbers.put(groups, _MOST)

    def _of(self, column: pa.Array) -> Ints:
        """Numbers in the order of the first key."""
        key = self._ranking.by[0]
        found = order_keys(column.drop_null() if column.null_count else column)[0]
        found = ~found if key.descending else found
        if not column.null_count:
            return found
        numbers = np.full(len(column), _MOST if key.nulls_last else _LEAST)
        numbers[valid(column)] = found
        return numbers


def _values(column: pa.Array) -> pa.Array:
    """Of a dictionary's codes the values: these have an order."""
    return unviewed(column.dictionary_decode() if is_dictionary(column.type) else column)


def _has_number(ranking: Ranking, schema: pa.Schema) -> bool:
    """Whether an integer orders the rows by the first key."""
    return bool(ranking.by) and has_words(schema.field(ranking.names[0]).type)


def _differs(columns: Sequence[pa.Array]) -> Bools:
    """Which rows differ in some column from the row before; the first one does."""
    found = np.zeros(len(columns[0]) if columns else 0, np.bool_)
    found[:1] = True
    for column in columns:
        kept = valid(column)
        keys = np.zeros(len(column), np.int64)
        keys[kept] = order_keys(column.drop_null())[0]
        found[1:] |= (keys[1:] != keys[:-1]) | (kept[1:] != kept[:-1])
    return found


def _places(counts: Ints) -> Ints:
    """0, 1, … for each of `counts`."""
    return spans(np.zeros(len(counts), np.int64), counts)
