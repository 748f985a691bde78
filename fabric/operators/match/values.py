"""What conditions and measures of a pattern read: values of rows by number, batch by batch.

    terms      last("A.price")   count("B")        rows of each match, found by their numbers
                   │ take            │ accumulate
    batch      ────┴─────────────────┴────         one column a term, one row a match
    outer      col(…) - 1 > …                      evaluated as any expression is

One job: `Values`, an expression over its terms, and `Conditions`, those of a pattern's variables;
measures are in `results.py`. A condition that looks at its own row, and at rows that
lie a number of rows from there, is evaluated for all rows that come at once; one that reads what
was matched before is evaluated for the next rows at once as well, as long as it reads the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.take import take
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.expressions.predicates import can_raise
from fabric.operators.match.search import Lane, Lanes, Partition, Program
from fabric.operators.streams.accumulators import Aggregates, RowGroups, as_type
from fabric.operators.streams.columns import Bools, Ints
from fabric.plan.expr import Call, Expr, columns_of
from fabric.plan.nodes import Match
from fabric.plan.pattern_terms import Split, Term

_ROWS = "__rows"
_AHEAD, _AHEAD_MAX = 16, 1_024
_CACHE_MAX = 1_000


class Rows(Protocol):
    """Where rows are kept."""

    def take(self, numbers: Ints, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """The rows with these numbers, in that order."""


class Groups(NamedTuple):
    """Rows by number, and the group that each is aggregated in."""

    groups: Ints
    numbers: Ints


Asked = Mapping[str, "Ints | Groups | pa.Array"]
"""By term: row numbers, -1 where there is none; rows to aggregate; or the values themselves."""


class Values:
    """An expression over its terms, of rows with the columns `source`."""

    def __init__(self, split: Split, source: pa.Schema) -> None:
        self.terms = split.terms
        self._types = split.schema
        self._schema = pa.schema([*split.schema, (_ROWS, pa.null())])
        self._outer = compile_expr(split.outer, self._schema)
        self._columns = {
            name: sorted(columns_of(term.value)) or source.names[:1]
            for name, term in split.terms.items() if term.value is not None
        }  # fmt: skip
        narrow = {
            name: pa.schema([source.field(each) for each in columns])
            for name, columns in self._columns.items()
        }
        self._inner = {
            name: compile_expr(term.value, narrow[name]) for name, term in split.terms.items()
            if term.kind == "row" and term.value is not None
        }  # fmt: skip
        self._aggregates = {
            name: Aggregates([term.value], narrow[name]) for name, term in split.terms.items()
            if term.kind == "aggregate" and term.value is not None
        }  # fmt: skip

    def of(self, rows: Rows, n: int, asked: Asked) -> pa.Array:
        """`n` values."""
        columns = []
        for field in self._types:
            given = asked[field.name]
            if isinstance(given, Groups):
                values = self._aggregated(field.name, rows, n, given)
            elif isinstance(given, np.ndarray):
                values = self._taken(field.name, rows, given)
            else:
                values = given
            columns.append(as_type(values, field.type))
        batch = pa.RecordBatch.from_arrays([*columns, pa.nulls(n)], schema=self._schema)
        found = self._outer(batch)
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def _taken(self, name: str, rows: Rows, numbers: Ints) -> pa.Array:
        there = numbers >= 0
        return placed(self._inner[name](rows.take(numbers[there], self._columns[name])), there)

    def _aggregated(self, name: str, rows: Rows, n: int, given: Groups) -> pa.Array:
        found = self._aggregates[name].fresh()
        found.resize(n)
        found.update(RowGroups(given.groups), rows.take(given.numbers, self._columns[name]))
        (values,) = found.results(np.arange(n))
        return values


def placed(values: pa.Array, there: Bools) -> pa.Array:
    """`values` where `there` is true, in order, and null elsewhere.

    >>> placed(pa.array([7, 8]), np.array([True, False, True])).to_pylist()
    [7, None, 8]
    """
    if there.all():
        return values
    padded = pa.concat_arrays([values, pa.nulls(1, values.type)])
    places = np.where(there, np.cumsum(there) - 1, len(values))
    return take(padded, places.astype(np.uint32))


# ---- conditions


def is_own(term: Term, variable: str) -> bool:
    """Whether a term of the condition of `variable` is of the row that is looked at, or one that
    lies a number of rows from there."""
    mine = term.variables is None or variable in term.variables
    return term.kind == "row" and mine and not term.from_first and term.offset == 0


@dataclass(frozen=True, slots=True)
class _Dependent:
    """A condition that reads what was matched before: the lane of each term that does (None: of all
    rows of the match), by its name."""

    values: Values
    lanes: Mapping[str, int | None]
    mine: frozenset[str]
    """Terms that the row that is looked at is among the rows of."""


class Conditions:
    """The conditions of a pattern over rows of `source`; `program` has its search."""

    def __init__(self, node: Match, source: pa.Schema) -> None:
        found = node.conditions(source)
        names = node.automaton.names
        self._own: dict[int, Values] = {}
        self._dependent: dict[int, _Dependent] = {}
        self._lanes: list[Lane] = []
        numbers = {name: number for number, name in enumerate(names)}
        for name, split in found.items():
            own, rest = _parts(split, name)
            if own is not None:
                self._own[numbers[name]] = Values(own, source)
            if rest is not None:
                self._dependent[numbers[name]] = self._bound(rest, name, numbers, source)
        self.always = sum(1 << n for n in range(len(names)) if n not in self._own)
        self.shifts = {
            term.shift for values in self._own.values() for term in values.terms.values()
        }
        """How far from a row those lie that conditions of its own read."""
        self.rows: Rows | None = None
        """Where the rows of partitions are kept."""
        self.program = Program(
            node, lanes=self._lanes, dependent=frozenset(self._dependent), holds=self._holds
        )

    def masks(self, n: int, shifted: Mapping[int, Ints]) -> list[int]:
        """The variables that each of `n` rows may be of, as bits.

        `shifted` has, by each of `shifts`, the numbers of the rows that lie so far from them.
        """
        assert self.rows is not None
        found = np.full(n, self.always, np.int64)
        for number, values in self._own.items():
            asked = {name: shifted[term.shift] for name, term in values.terms.items()}
            found |= _true(values.of(self.rows, n, asked)).astype(np.int64) << number
        masks: list[int] = found.tolist()
        return masks

    def _bound(
        self, split: Split, variable: str, numbers: Mapping[str, int], source: pa.Schema
    ) -> _Dependent:
        lanes: dict[str, int | None] = {}
        mine = set[str]()
        for name, term in split.terms.items():
            if is_own(term, variable):
                continue
            if term.variables is None or variable in term.variables:
                mine.add(name)
            if term.variables is None:
                lanes[name] = None
                continue
            members = frozenset(numbers[each] for each in term.variables)
            lane = Lane(members, "first" if term.from_first else "last", term.offset + 1)
            if term.kind == "aggregate":
                lane = Lane(members, "all")
            if lane not in self._lanes:
                self._lanes.append(lane)
            lanes[name] = self._lanes.index(lane)
        return _Dependent(Values(split, source), lanes, frozenset(mine))

    def _holds(self, partition: Partition, at: int, number: int, known: Lanes) -> bool:
        """See `Holds`: whether the row at place `at` is of a variable that is dependent."""
        condition, start = self._dependent[number], partition.start
        asked: dict[str, tuple[int, ...]] = {}
        reads_itself = False
        for name, lane in condition.lanes.items():
            term = condition.values.terms[name]
            rows = range(at - start + 1) if lane is None else known[lane]
            places = chosen(term, rows, start, len(partition.numbers))
            if name in condition.mine:
                is_row = term.kind == "row"
                stays = is_row and term.from_first and term.offset < len(rows) - 1
                moves = is_row and not term.from_first
                if moves and places == (at - term.offset + term.shift,):
                    continue  # a row that lies as far from the next row as from this one
                reads_itself |= not stays
            asked[name] = places
        key = (number, *asked.items())
        first, results, n_ahead = partition.holds_cache.get(key, (at, (), _AHEAD // 2))
        if not first <= at < first + len(results):
            n_ahead = 1 if reads_itself else min(2 * n_ahead, _AHEAD_MAX)
            n = min(n_ahead, len(partition.numbers) - at)
            results, first = self._evaluated(condition, partition, at, n, asked), at
            if len(partition.holds_cache) >= _CACHE_MAX:
                partition.holds_cache.clear()
            partition.holds_cache[key] = first, results, n_ahead
        return bool(results[at - first])

    def _evaluated(
        self, condition: _Dependent, partition: Partition, at: int, n: int,
        asked: Mapping[str, tuple[int, ...]],
    ) -> list[bool]:  # fmt: skip
        """The condition of rows `at` to ``at + n``, where all read the same of the match."""
        assert self.rows is not None
        given: dict[str, Ints | Groups | pa.Array] = {}
        numbers, end = partition.numbers, len(partition.numbers)
        for name, term in condition.values.terms.items():
            if name not in asked:
                begin = at - term.offset + term.shift
                places = range(begin, begin + n)
                given[name] = np.array([numbers[p] if 0 <= p < end else -1 for p in places])
                continue
            rows = np.array([numbers[place] for place in asked[name]], np.int64)
            if term.kind == "aggregate":
                groups = np.repeat(np.arange(n), len(rows))
                given[name] = Groups(groups, np.tile(rows, n))
            else:
                given[name] = np.full(n, rows[0] if len(rows) else -1)
        found: list[bool] = _true(condition.values.of(self.rows, n, given)).tolist()
        return found


def chosen(term: Term, rows: Sequence[int], start: int, end: int) -> tuple[int, ...]:
    """The places in the partition that a term is of, where `rows`, counted from the start, are
    those that were matched to its variables."""
    if term.kind == "aggregate":
        return tuple(start + row for row in rows)
    place = term.offset if term.from_first else len(rows) - 1 - term.offset
    if not 0 <= place < len(rows):
        return ()
    found = start + rows[place] + term.shift
    return (found,) if 0 <= found < end else ()


def _true(values: pa.Array) -> Bools:
    """Which values are true; null is not."""
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.bool_)
    found: Bools = values.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _parts(split: Split, variable: str) -> tuple[Split | None, Split | None]:
    """What of a condition can be said of rows as they come, and what of the match alone."""
    conjuncts = _conjuncts(split.outer)
    if any(can_raise(each, split.schema) for each in conjuncts):
        conjuncts = [split.outer]  # which may be so written that what raises is not reached
    own = [
        each for each in conjuncts
        if all(is_own(split.terms[name], variable) for name in columns_of(each))
    ]  # fmt: skip
    rest = [each for each in conjuncts if not any(each is one for one in own)]
    return _joined(own, split), _joined(rest, split)


def _conjuncts(expr: Expr) -> list[Expr]:
    if isinstance(expr, Call) and expr.function == "and":
        return [part for arg in expr.args for part in _conjuncts(arg)]
    return [expr]


def _joined(conjuncts: Sequence[Expr], split: Split) -> Split | None:
    if not conjuncts:
        return None
    outer = conjuncts[0]
    for each in conjuncts[1:]:
        outer = Call("and", (outer, each))
    names = columns_of(outer)
    terms = {name: term for name, term in split.terms.items() if name in names}
    schema = pa.schema([field for field in split.schema if field.name in names])
    return Split(outer, terms, schema)
