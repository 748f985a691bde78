"""Evaluate only what Spark evaluates: branches, right sides, and arguments behind a null.

One job: the forms that look at some rows only. A part that can't raise is computed on every row,
which is cheaper; a part that can is computed on just the rows where Spark would.

    and       right side where the left is not false
    or        right side where the left is not true
    coalesce  an argument where all earlier ones are null
    case      a condition where no earlier one was true, a value where its condition was
    others    an argument where all earlier ones are not null
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from fabric.operators.expressions.arrow.bound import Datum, Kernel, Order, as_array
from fabric.operators.expressions.arrow.frame import Frame, all_rows, merge, rows_where, spread

Run = Callable[[Frame], Datum]


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression for one schema. `total`: no value raises; `columns`: indices it reads.

    `dtype` is flat (`frame.flat_type`).
    """

    run: Run
    dtype: pa.DataType
    total: bool
    columns: frozenset[int]

    def array(self, frame: Frame) -> pa.Array:
        """One value per row of the frame."""
        if frame.n_rows == 0:
            return pa.nulls(0, self.dtype)
        return as_array(self.run(frame), frame.n_rows)


class Undecided:
    """Rows of a frame that no branch has taken yet, and the values of those taken."""

    def __init__(self, frame: Frame, columns: frozenset[int]) -> None:
        self.frame = frame
        self._columns = columns
        self._rows = all_rows(frame.n_rows)
        self._pieces: list[pa.Array] = []
        self._places: list[pa.Array] = []

    def settle(self, mask: pa.Array, values: Callable[[pa.Array], pa.Array]) -> None:
        """Rows where `mask` is true get ``values(their indices in self.frame)``."""
        chosen = rows_where(mask)
        if len(chosen) == 0:
            return
        self._pieces.append(values(chosen))
        self._places.append(self._rows.take(chosen))
        left = rows_where(pc.invert(pc.fill_null(mask, False)))
        self.frame = self.frame.take(left, self._columns)
        self._rows = self._rows.take(left)

    def settle_rest(self, values: pa.Array) -> pa.Array:
        """All rows still undecided get `values`; returns the values of every row."""
        return merge([*self._pieces, values], [*self._places, self._rows])


def all_columns(parts: Sequence[Compiled]) -> frozenset[int]:
    """What any of the parts reads."""
    return frozenset[int]().union(*(part.columns for part in parts))


def short_circuit(left: Compiled, right: Compiled, *, stop: bool) -> Run:
    """AND (`stop` False) or OR (`stop` True) of two booleans by Kleene's logic."""
    combine: Kernel = pc.or_kleene if stop else pc.and_kleene
    if right.total:
        return lambda frame: combine(left.run(frame), right.run(frame))

    def run(frame: Frame) -> Datum:
        decided = left.array(frame)
        rows = rows_where(pc.fill_null(pc.invert(decided) if stop else decided, True))
        if len(rows) == frame.n_rows:
            return combine(decided, right.array(frame))
        if len(rows) == 0:
            return decided
        value = right.array(frame.take(rows, right.columns))
        return combine(decided, spread(value, rows, frame.n_rows))

    return run


def coalesce(args: Sequence[Compiled]) -> Run:
    """The first value of each row that is not null; all `args` are of one type."""
    columns = all_columns(args)

    def run(frame: Frame) -> Datum:
        if all(arg.total for arg in args[1:]):
            return _first_valid([arg.run(frame) for arg in args], frame.n_rows)
        undecided = Undecided(frame, columns)
        for arg in args[:-1]:
            values = arg.array(undecided.frame)
            undecided.settle(pc.is_valid(values), values.take)
        return undecided.settle_rest(args[-1].array(undecided.frame))

    return run


def _first_valid(values: Sequence[Datum], n_rows: int) -> Datum:
    result = as_array(values[0], n_rows)
    for value in values[1:]:
        if not result.null_count:
            break
        result = pc.if_else(pc.is_valid(result), result, value)
    return result


def case(branches: Sequence[tuple[Compiled, Compiled]], otherwise: Compiled) -> Run:
    """CASE WHEN; the first true condition wins. All values are of one type."""
    parts = [*(part for branch in branches for part in branch), otherwise]
    columns = all_columns(parts)
    if all(part.total for part in parts[1:]):
        return lambda frame: _case_everywhere(branches, otherwise, frame)

    def run(frame: Frame) -> Datum:
        undecided = Undecided(frame, columns)
        for condition, value in branches:
            rest = undecided.frame
            undecided.settle(condition.array(rest), partial(_on_rows, value, rest))
        return undecided.settle_rest(otherwise.array(undecided.frame))

    return run


def _on_rows(value: Compiled, frame: Frame, rows: pa.Array) -> pa.Array:
    return value.array(frame.take(rows, value.columns))


def _case_everywhere(
    branches: Sequence[tuple[Compiled, Compiled]], otherwise: Compiled, frame: Frame
) -> Datum:
    result = otherwise.array(frame)
    for condition, value in reversed(branches):
        test = pc.fill_null(condition.array(frame), False)
        result = pc.if_else(test, value.run(frame), result)
    return result


def call(
    args: Sequence[Compiled], kernel: Kernel, order: Order = "left", array: int | None = None
) -> Run:
    """Apply a kernel to arguments that are evaluated from the left or the right, up to a null."""
    places = range(len(args)) if order != "right" else reversed(range(len(args)))
    sequence = [(place, args[place]) for place in places]
    guarded = order != "all" and any(not arg.total for _, arg in sequence[1:])

    def run(frame: Frame) -> Datum:
        values = _guarded(sequence, frame) if guarded else [arg.run(frame) for arg in args]
        if array is not None:
            values[array] = as_array(values[array], frame.n_rows)
        return applied(kernel, values)

    return run


def _guarded(sequence: Sequence[tuple[int, Compiled]], frame: Frame) -> list[Datum]:
    """The values of the arguments, each where the ones before it in `sequence` are not null."""
    seen: dict[int, Datum] = {}
    for place, arg in sequence:
        seen[place] = arg.run(frame) if arg.total else _where_valid(arg, seen.values(), frame)
    return [seen[place] for place in range(len(sequence))]


def _where_valid(arg: Compiled, seen: Iterable[Datum], frame: Frame) -> Datum:
    """`arg` on the rows where nothing seen is null; null elsewhere."""
    valid: Datum = pa.scalar(True)
    for value in seen:
        if value.null_count if isinstance(value, pa.Array) else not value.is_valid:
            valid = pc.and_(valid, pc.is_valid(value))
    if isinstance(valid, pa.Scalar):
        return arg.run(frame) if valid.as_py() else pa.scalar(None, arg.dtype)
    rows = rows_where(valid)
    return spread(arg.array(frame.take(rows, arg.columns)), rows, frame.n_rows)


def applied(kernel: Kernel, values: Sequence[Datum]) -> Datum:
    """Call a kernel with at least one array, as all kernels expect."""
    if any(isinstance(value, pa.Array) for value in values):
        return kernel(*values)
    return kernel(*(pa.repeat(value, 1) for value in values))[0]
