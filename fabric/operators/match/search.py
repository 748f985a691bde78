"""Which rows of one partition match a pattern: a search that goes on as rows come.

    rows      1  2  3  4  5  …             threads, preferred first: each is a way to match the
    start        ▲                         rows since the start, and stands at a position that the
    threads      └──────► A B ·            next row has to be of
                   └────► A · C

One job: `Program`, what a pattern asks of a search, and `Partition`, the rows of one key with the
search over them. All ways to match from one start advance row by row, side by side, in order of
preference (Pike's virtual machine); a thread that is complete ends those that are less preferred.
Two threads at one position are one if conditions can't tell them apart: if the rows that conditions
read are the same. Where conditions look at their own row alone, a step from one list of positions
to the next is remembered, so that a row costs a look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from fabric.errors import DataError
from fabric.plan.faults import quoted
from fabric.plan.nodes import Match
from fabric.plan.nodes.match import NEXT_ROW, SKIP_PAST
from fabric.plan.row_automaton import MATCH, MATCH_AT_END

THREADS_MAX = 10_000
"""Ways to match from one start that are followed at once."""
_STEPS_MAX = 50_000
_Step = tuple[tuple[int, ...], tuple[int, ...], int]
"""Where threads stand, which thread each came from, and the one that is complete, or -1."""
Lanes = tuple[tuple[int, ...], ...]
"""For each `Lane` the rows that it keeps, counted from the start."""
Holds = Callable[["Partition", int, int, Lanes], bool]
"""Whether the row at a place of the partition is of a variable; lanes have the rows that were
matched before, and this one."""


class Lane(NamedTuple):
    """Rows that conditions read: the first or last `n` of some variables, or all."""

    variables: frozenset[int]
    keeps: Literal["first", "last", "all"]
    n: int = 0

    def with_row(self, rows: tuple[int, ...], row: int) -> tuple[int, ...]:
        """What is kept when `row` comes behind `rows`."""
        if self.keeps == "first":
            return rows if len(rows) >= self.n else (*rows, row)
        return (*rows, row) if self.keeps == "all" else (*rows, row)[-self.n :]


class Found(NamedTuple):
    """What a search came to at place `begin` of its partition.

    A match has the `positions` of its rows, perhaps none, and its `number`; so has one that was
    begun and not completed in time, with `is_timeout`. Positions None: the row is in no match.
    """

    begin: int
    positions: tuple[int, ...] | None
    number: int = 0
    is_timeout: bool = False


class Program:
    """What the pattern of a node asks of a search.

    `holds` is asked about variables that are `dependent`: their conditions read what was matched
    before, of which `lanes` keep what they need.
    """

    def __init__(
        self, node: Match, *, lanes: Sequence[Lane] = (), dependent: frozenset[int] = frozenset(),
        holds: Holds | None = None,
    ) -> None:  # fmt: skip
        self.node, self.automaton = node, node.automaton
        self.lanes, self.dependent, self.holds = tuple(lanes), dependent, holds
        self.within_us = node.within_us
        self.tells_unmatched = node.per_match == "all_with_unmatched"
        names = node.names
        numbers = {name: n for n, name in enumerate(self.automaton.names)}
        self.variables = {
            name: frozenset(numbers[one] for one in members) for name, members in names.items()
        }
        """The numbers of the variables that each name means."""
        self._to = self.variables.get(node.after.partition(" ")[2], frozenset())
        self._steps: dict[tuple[tuple[int, ...], int, bool], _Step] = {}
        self.begins = tuple(
            -1 if MATCH in entries else self._mask(entries)
            for entries in (self.automaton.first, self.automaton.inside)
        )
        """A row can begin a match, where it is the first of its partition or not, if it is of one
        of these variables."""
        of_match = any(MATCH_AT_END in entries for entries in self.automaton.follow)
        self.asks_for_last = of_match

    def _mask(self, entries: Sequence[int]) -> int:
        return sum(1 << n for n in {self.automaton.variable[at] for at in entries})

    def step(self, state: tuple[int, ...], mask: int, is_last: bool) -> _Step:
        """What becomes of threads at the positions `state` with a row of the variables `mask`."""
        key = (state, mask, is_last)
        known = self._steps.get(key)
        if known is None:
            if len(self._steps) >= _STEPS_MAX:
                self._steps.clear()
            known = self._steps[key] = self._stepped(*key)
        return known

    def _stepped(self, state: tuple[int, ...], mask: int, is_last: bool) -> _Step:
        targets: dict[int, int] = {}
        variable, follow = self.automaton.variable, self.automaton.follow
        for thread, at in enumerate(state):
            if not mask >> variable[at] & 1:
                continue
            for target in follow[at]:
                if target == MATCH or (target == MATCH_AT_END and is_last):
                    return tuple(targets), tuple(targets.values()), thread
                if target >= 0:
                    targets.setdefault(target, thread)
        return tuple(targets), tuple(targets.values()), -1

    def next_start(self, found: Found) -> int:
        """Where the search goes on after a match."""
        positions, after = found.positions, self.node.after
        if not positions or after == NEXT_ROW:
            return found.begin + 1
        if after == SKIP_PAST:
            return found.begin + len(positions)
        variable = self.automaton.variable
        rows = [row for row, at in enumerate(positions) if variable[at] in self._to]
        if not rows:
            raise self._no_way("the match has no such row")
        row = rows[0] if after.startswith("to_first") else rows[-1]
        if row == 0:
            raise self._no_way("that is the row where the match began, so it would be found again")
        return found.begin + row

    def _no_way(self, why: str) -> DataError:
        return DataError(
            f"match {quoted(self.node.pattern)} can't go on with after={quoted(self.node.after)}: "
            f'{why}; write: after="next_row", or let every match have a row there'
        )


class Partition:
    """The rows of one key, in order, and the search over them.

    `numbers` are those of the rows where they are kept, `times` of them in microseconds, `masks`
    the variables that each may be of. Rows before place `start` are history.
    """

    __slots__ = (
        "_at", "_best", "_covered", "_has_best", "_lanes", "_paths", "_state", "group",
        "holds_cache", "is_begun", "masks", "n_matches", "numbers", "start", "times",
        "watched_until",
    )  # fmt: skip

    def __init__(self, numbers: Any, times: list[int], masks: list[int], *, group: int = 0) -> None:
        self.numbers, self.times, self.masks, self.group = numbers, times, masks, group
        self.start, self.is_begun, self.n_matches = 0, False, 0
        self.watched_until: int | None = None
        """The deadline that somebody waits for, of those who have many partitions."""
        self._covered, self._at = -1, 0
        self._state: tuple[int, ...] = ()
        self._paths: list[Any] = []
        self._lanes: list[Lanes] = []
        self._has_best = False
        self._best: Any = None
        self.holds_cache: dict[Any, Any] = {}
        """What `Holds` remembers while places stay the same."""

    def advance(self, program: Program, *, reached: int, ended: bool) -> list[Found]:
        """Search on in the rows that are there.

        `reached`: no earlier row will come, in microseconds. `ended`: no row will come.
        """
        found: list[Found] = []
        while self.is_begun or self._begin(program, found):
            is_over = self._feed(program, ended)
            if self._state and not is_over and not ended:
                if not program.within_us or self.deadline(program) >= reached:
                    return found
                is_over = True
            self._resolve(program, found, is_over)
        return found

    def deadline(self, program: Program) -> int:
        """The time after which no row is of the match that was begun."""
        return self.times[self.start] + program.within_us

    def drop_history(self, n_kept: int) -> list[int]:
        """Forget rows before the start but `n_kept`; returns their numbers."""
        n = self.start - n_kept
        if n <= 0:
            return []
        gone: list[int] = self.numbers[:n]
        for rows in (self.numbers, self.times, self.masks):
            del rows[:n]
        self.start, self._at = self.start - n, self._at - n
        self.holds_cache.clear()
        return gone

    # ---- inside

    def _begin(self, program: Program, found: list[Found]) -> bool:
        """Begin at the next row that can be the first of a match; False: there is none."""
        start, n, masks = self.start, len(self.masks), self.masks
        first, inside = program.begins
        if start == 0 < n and not masks[0] & first and first >= 0:
            self._unmatched(program, found, 0)
            start = 1
        if start > 0 and inside >= 0:
            while start < n and not masks[start] & inside:
                self._unmatched(program, found, start)
                start += 1
        self.start = self._at = start
        if start >= n:
            return False
        entries = program.automaton.inside if start else program.automaton.first
        self._has_best = MATCH in entries
        self._best = None
        self._state = tuple(at for at in entries if at >= 0)
        self._paths = [None] * len(self._state)
        self._lanes = [((),) * len(program.lanes)] * len(self._state)
        self.is_begun = True
        return True

    def _feed(self, program: Program, ended: bool) -> bool:
        """Match rows until no thread is left; True: the next row comes too late for them all."""
        masks, times, within, n = self.masks, self.times, program.within_us, len(self.masks)
        last = n - 1 if ended and program.asks_for_last else -1
        limit = self.deadline(program) if within else 0
        at = self._at
        while self._state and at < n:
            if within and times[at] > limit:
                self._at = at
                return True
            if program.dependent:
                self._step(program, at, at == last)
            else:
                state, paths = self._state, self._paths
                self._state, sources, best = program.step(state, masks[at], at == last)
                if best >= 0:
                    self._has_best, self._best = True, (paths[best], state[best])
                self._paths = [(paths[source], state[source]) for source in sources]
            at += 1
        self._at = at
        return False

    def _step(self, program: Program, at: int, is_last: bool) -> None:
        """Match the row at `at` where conditions read what was matched before."""
        variable, follow = program.automaton.variable, program.automaton.follow
        holds, mask, row = program.holds, self.masks[at], at - self.start
        assert holds is not None
        states: list[int] = []
        paths: list[Any] = []
        lanes: list[Lanes] = []
        seen: set[tuple[int, Lanes]] = set()
        for state, path, known in zip(self._state, self._paths, self._lanes, strict=True):
            number = variable[state]
            if not mask >> number & 1:
                continue
            now = tuple(
                lane.with_row(rows, row) if number in lane.variables else rows
                for lane, rows in zip(program.lanes, known, strict=True)
            )
            if number in program.dependent and not holds(self, at, number, now):
                continue
            there = (path, state)
            for target in follow[state]:
                if target == MATCH or (target == MATCH_AT_END and is_last):
                    self._has_best, self._best = True, there
                    self._state, self._paths, self._lanes = tuple(states), paths, lanes
                    return
                if target >= 0 and (target, now) not in seen:
                    seen.add((target, now))
                    states.append(target)
                    paths.append(there)
                    lanes.append(now)
        self._state, self._paths, self._lanes = tuple(states), paths, lanes
        if len(states) > THREADS_MAX:
            raise DataError(
                f"match {quoted(program.node.pattern)}: from one row there are more than "
                f"{THREADS_MAX:,} ways to match, as conditions read what was matched before; let "
                "the conditions of variables exclude each other, or give a shorter within"
            )

    def _resolve(self, program: Program, found: list[Found], is_over: bool) -> None:
        """Note what came of the start, and go to the next one."""
        begin = self.start
        if self._has_best:
            self.n_matches += 1
            match = Found(begin, _positions(self._best), self.n_matches)
            found.append(match)
            self.start = program.next_start(match)
            self._covered = max(self._covered, begin + len(match.positions or ()) - 1)
        else:
            if is_over and self._state:
                partial = _positions(self._paths[0])
                found.append(Found(begin, partial, is_timeout=True))
            self._unmatched(program, found, begin)
            self.start = begin + 1
        self.is_begun, self._state, self._paths, self._lanes = False, (), [], []

    def _unmatched(self, program: Program, found: list[Found], at: int) -> None:
        if program.tells_unmatched and at > self._covered:
            found.append(Found(at, None))


def _positions(path: Any) -> tuple[int, ...]:
    found = []
    while path is not None:
        path, position = path
        found.append(position)
    return tuple(reversed(found))
