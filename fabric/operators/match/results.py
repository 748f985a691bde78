"""The rows that matches put out: one of each, or all of theirs, with measures.

One job: `Results`. All matches of a call are put out together: a measure's terms are found in each
match by their numbers, and then read and evaluated as columns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fabric.operators.match.search import Found, Partition, Program
from fabric.operators.match.values import Groups, Rows, Values, chosen, placed
from fabric.operators.streams.accumulators import as_type
from fabric.operators.streams.columns import Ints
from fabric.plan.nodes import Match
from fabric.plan.pattern_terms import Term


class _Row(NamedTuple):
    """A row to put out: as of row `as_of` of a match, -1 where it has none."""

    partition: Partition
    found: Found
    as_of: int


class Results:
    """The rows of `output` that matches put out, from rows of `source`."""

    def __init__(self, node: Match, program: Program, source: pa.Schema, output: pa.Schema) -> None:
        self._node, self._program, self._output = node, program, output
        self._measures = {
            name: Values(split, source) for name, split in node.columns(source).items()
        }
        self._copied = [name for name in output.names if name not in self._measures]

    def of(self, rows: Rows, found: Sequence[tuple[Partition, Found]]) -> pa.RecordBatch:
        """The rows of matches, one after the other."""
        made = [row for partition, each in found for row in self._rows_of(partition, each)]
        places = [row.found.begin + max(row.as_of, 0) for row in made]
        numbers = np.array(
            [row.partition.numbers[place] for row, place in zip(made, places, strict=True)],
            np.int64,
        )
        copied = rows.take(numbers, self._copied) if self._copied else None
        matched = np.array([row.found.positions is not None for row in made], np.bool_)
        some = [row for row in made if row.found.positions is not None]
        columns = []
        for field in self._output:
            if field.name not in self._measures:
                assert copied is not None
                columns.append(copied.column(field.name))
                continue
            values = placed(self._measured(self._measures[field.name], rows, some), matched)
            columns.append(as_type(values, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._output)

    def _rows_of(self, partition: Partition, found: Found) -> list[_Row]:
        positions = found.positions
        if self._node.per_match == "one" or not positions:
            if positions == () and self._node.per_match == "all_omit_empty":
                return []
            return [_Row(partition, found, len(positions or ()) - 1)]
        excluded = self._program.automaton.excluded
        return [_Row(partition, found, n) for n, at in enumerate(positions) if not excluded[at]]

    def _measured(self, values: Values, rows: Rows, made: Sequence[_Row]) -> pa.Array:
        asked = {name: self._asked(term, made) for name, term in values.terms.items()}
        return values.of(rows, len(made), asked)

    def _asked(self, term: Term, made: Sequence[_Row]) -> Ints | Groups | pa.Array:
        """What a term is of, for each row that is put out."""
        if term.kind == "number":
            return pa.array([row.found.number for row in made], pa.int64())
        if term.kind == "classifier":
            return pa.array([self._classifier(term, row) for row in made], pa.string())
        rows_of = self._finder(term)
        if term.kind == "aggregate":
            places = [self._places(term, row, rows_of(row)) for row in made]
            groups = np.repeat(np.arange(len(made)), [len(each) for each in places])
            numbers = [
                row.partition.numbers[place]
                for row, mine in zip(made, places, strict=True) for place in mine
            ]  # fmt: skip
            return Groups(groups, np.array(numbers, np.int64))
        found = np.full(len(made), -1, np.int64)
        for n, row in enumerate(made):
            for place in self._places(term, row, rows_of(row)):
                found[n] = row.partition.numbers[place]
        return found

    def _places(self, term: Term, row: _Row, rows: Sequence[int]) -> tuple[int, ...]:
        if not term.final and self._node.per_match != "one":
            rows = rows[: bisect_right(rows, row.as_of)]
        return chosen(term, rows, row.found.begin, len(row.partition.numbers))

    def _finder(self, term: Term) -> Callable[[_Row], Sequence[int]]:
        """The rows of a match, counted from its first, that are of the variables of a term."""
        if term.variables is None:
            return lambda row: range(len(row.found.positions or ()))
        wanted = frozenset().union(*(self._program.variables[name] for name in term.variables))
        variable, known = self._program.automaton.variable, dict[int, list[int]]()

        def rows_of(row: _Row) -> Sequence[int]:
            rows = known.get(id(row.found))
            if rows is None:
                positions = row.found.positions or ()
                rows = [n for n, at in enumerate(positions) if variable[at] in wanted]
                known[id(row.found)] = rows
            return rows

        return rows_of

    def _classifier(self, term: Term, row: _Row) -> str | None:
        rows = self._finder(term)(row)
        if not term.final and self._node.per_match != "one":
            rows = rows[: bisect_right(rows, row.as_of)]
        if not rows or row.found.positions is None:
            return None
        automaton = self._program.automaton
        return automaton.names[automaton.variable[row.found.positions[rows[-1]]]]


def history_of(node: Match, source: pa.Schema) -> int:
    """How many rows before a match its conditions and measures may read."""
    parts = (*node.conditions(source).values(), *node.columns(source).values())
    return max((-term.shift for split in parts for term in split.terms.values()), default=0)
