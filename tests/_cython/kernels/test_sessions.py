"""SessionTable beside sessions made of all rows at once, however the rows come."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.sessions import SessionTable

GAP = 5
LAST = 2**63 - 2
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), max_size=40)
Sessions = dict[tuple[int, int, int], list[int]]


def of_all(rows: list[tuple[int, int]]) -> Sessions:
    """Sessions by group, start and end, with the numbers of their rows."""
    by_group = defaultdict(list)
    for number, (group, time) in enumerate(rows):
        by_group[group].append((time, number))
    made: Sessions = {}
    for group, times in by_group.items():
        sessions: list[list[tuple[int, int]]] = []
        for row in sorted(times):
            if not sessions or row[0] > sessions[-1][-1][0] + GAP:
                sessions.append([])
            sessions[-1].append(row)
        for members in sessions:
            place = group, members[0][0], members[-1][0] + GAP
            made[place] = sorted(number for _, number in members)
    return made


class Kept:
    """What an operator does: rows by slot, folded as the table says."""

    def __init__(self, updates: bool = False) -> None:
        self.table = SessionTable(GAP, updates)
        self.rows: dict[int, list[int]] = {}

    def add(self, rows: list[tuple[int, int]], first: int) -> list[int]:
        groups = np.array([group for group, _ in rows], np.int64)
        times = np.array([time for _, time in rows], np.int64)
        slots, merged, into = (a.tolist() for a in self.table.assign(groups, times))
        for number, slot in enumerate(slots):
            self.rows.setdefault(slot, []).append(first + number)
        for left, taker in zip(merged, into, strict=True):
            self.rows.setdefault(taker, []).extend(self.rows.pop(left))
        return slots

    def close(self, limit: int) -> Sessions:
        closed = zip(*(a.tolist() for a in self.table.close(limit)), strict=True)
        return {(g, start, end): sorted(self.rows.pop(slot)) for slot, g, start, end in closed}

    def again(self) -> Kept:
        """After a restore into a new table, in another order."""
        slots, groups, starts, ends, given_ = (a[::-1].copy() for a in self.table.export())
        other = Kept()
        places = other.table.restore(groups, starts, ends, given_)
        both = zip(slots.tolist(), places.tolist(), strict=True)
        other.rows = {place: self.rows[slot] for slot, place in both}
        return other


@given(ROWS, st.lists(st.integers(1, 9), max_size=10), st.booleans())
def test_rows_in_any_order_and_batches_give_the_sessions_of_all(
    rows: list[tuple[int, int]], sizes: list[int], restored: bool
) -> None:
    kept, at = Kept(), 0
    for size in [*sizes, len(rows)]:
        kept.add(rows[at : at + size], at)
        at += size
        kept = kept.again() if restored else kept
    groups = np.arange(4)
    assert kept.table.has_open(groups).tolist() == [g in {r[0] for r in rows} for g in range(4)]
    assert kept.close(2**63 - 1) == of_all(rows)
    assert len(kept.table) == 0
    assert not kept.table.has_open(groups).any()


@given(ROWS, st.lists(st.integers(1, 9), max_size=10))
def test_sessions_close_as_time_goes_on(rows: list[tuple[int, int]], sizes: list[int]) -> None:
    """Rows in order of time: what is closed is never touched again, and slots are used again."""
    rows = sorted(rows, key=lambda row: row[1])
    kept, at, closed = Kept(), 0, Sessions()
    for size in [*sizes, len(rows)]:
        kept.add(rows[at : at + size], at)
        at += size
        if at < len(rows):
            some = kept.close(rows[at][1] - 1)
            ends = [end for _, _, end in some]
            assert ends == sorted(ends)
            assert all(end < rows[at][1] for end in ends)
            closed |= some
    assert closed | kept.close(2**63 - 1) == of_all(rows)


@given(ROWS, st.lists(st.integers(1, 9), max_size=10))
def test_ended_gives_each_change_of_what_has_ended(
    rows: list[tuple[int, int]], sizes: list[int]
) -> None:
    kept, at = Kept(updates=True), 0
    for limit, size in enumerate([*sizes, len(rows)], 20):
        touched = set(kept.add(rows[at : at + size], at))
        at += size
        slots, _, _, ends = (a.tolist() for a in kept.table.ended(limit))
        assert ends == sorted(ends)
        assert all(end <= limit for end in ends)
        _, _, _, all_ends, given_ = kept.table.export()
        assert (given_ | (all_ends > limit)).all()
        open_slots = set(kept.rows)
        exported = dict(zip(kept.table.export()[0].tolist(), all_ends.tolist(), strict=True))
        assert {s for s in touched & open_slots if exported[s] <= limit} <= set(slots)
        assert kept.table.ended(limit)[0].tolist() == []


def test_a_late_row_joins_two_sessions() -> None:
    kept = Kept()
    kept.add([(0, 10), (0, 20), (0, 11)], 0)
    assert len(kept.table) == 2
    kept.add([(0, 15), (0, 40)], 3)
    assert kept.close(30) == {(0, 10, 25): [0, 1, 2, 3]}
    assert kept.close(100) == {(0, 40, 45): [4]}


def test_bounds_of_open_sessions() -> None:
    table = SessionTable(GAP)
    slots, _, _ = table.assign(np.array([0, 1, 0]), np.array([10, 20, 12]))
    starts, ends = table.bounds(slots)
    assert (starts.tolist(), ends.tolist()) == ([10, 20, 10], [17, 25, 17])
    table.close(17)
    for slot in (slots[0], -1, 2):
        with pytest.raises(ValueError, match=f"slot {slot} has no open session"):
            table.bounds(np.array([slot]))


def test_sessions_that_touch_are_one_and_a_gap_more_is_two() -> None:
    kept = Kept()
    kept.add([(0, 0), (0, GAP), (1, 0), (1, GAP + 1)], 0)
    assert sorted(kept.close(100)) == [(0, 0, 2 * GAP), (1, 0, GAP), (1, GAP + 1, 2 * GAP + 1)]


def test_a_slot_is_not_used_again_before_it_could_be_folded() -> None:
    table = SessionTable(GAP)
    groups, times = np.zeros(4, np.int64), np.array([0, 10, 5, 1000])
    slots, merged, into = (a.tolist() for a in table.assign(groups, times))
    assert (merged, into) == ([slots[1]], [slots[0]])
    assert slots[3] not in slots[:3]


def test_the_end_of_time_is_no_wrap() -> None:
    table = SessionTable(GAP)
    table.assign(np.array([0]), np.array([LAST]))
    assert [a.tolist() for a in table.close(LAST)] == [[0], [0], [LAST], [LAST]]


def test_what_does_not_fit_is_refused() -> None:
    table, two = SessionTable(GAP), np.zeros(2, np.int64)
    for refused, message in (
        (lambda: SessionTable(0), "gap_us must be positive, got 0"),
        (lambda: table.assign(two, two[:1]), "2 groups need as many times, got 1"),
        (lambda: table.assign(two - 1, two), "groups must be in"),
        (lambda: table.assign(two + 2**40, two), "got 1099511627776"),
        (lambda: table.restore(two, two, two - 1, [True] * 2), "session 0 ends at -1, before it"),
        (lambda: table.restore(two, two, two[:1], [True]), "2 sessions need as many ends"),
    ):
        with pytest.raises(ValueError, match=message):
            refused()
