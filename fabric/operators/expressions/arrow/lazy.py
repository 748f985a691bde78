"""Evaluate only what Spark evaluates: branches, right sides, and arguments behind a null.

One job: the forms that look at some rows only. A part that can't raise is computed on every row,
which is cheaper; of a part that can, only errors on the rows where Spark would look count.

    and       right side where the left is not false
    or        right side where the left is not true
    coalesce  an argument where all earlier ones are null
    case      a condition where no earlier one was true, a value where its condition was
    others    an argument where all earlier ones are not null
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import methodcaller

import pyarrow as pa
import pyarrow.compute as pc

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import Datum, Kernel, Order, as_array
from fabric.operators.expressions.arrow.frame import Frame, spread

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


class Where:
    """Evaluates a part on some rows of a frame.

    If most rows are wanted, all are tried first, which costs no copying: errors are the only thing
    that rows too many can do. Once that failed, the wanted rows are copied out from then on.
    """

    def __init__(self, part: Compiled) -> None:
        self.part = part
        self._hopeful = True

    def __call__(self, frame: Frame, wanted: pa.Array) -> Datum:
        """Values right where `wanted` is true, anything elsewhere."""
        n_wanted = wanted.true_count
        if self.part.total or n_wanted == frame.n_rows:
            return self.part.run(frame)
        if self._hopeful and n_wanted * 2 > frame.n_rows:
            try:
                return self.part.run(frame)
            except ExpressionError:
                self._hopeful = False
        values = self.part.array(frame.filter(wanted, self.part.columns))
        return spread(values, wanted)


def all_columns(parts: Sequence[Compiled]) -> frozenset[int]:
    """What any of the parts reads."""
    return frozenset[int]().union(*(part.columns for part in parts))


def short_circuit(left: Compiled, right: Compiled, *, stop: bool) -> Run:
    """AND (`stop` False) or OR (`stop` True) of two booleans by Kleene's logic."""
    combine: Kernel = pc.or_kleene if stop else pc.and_kleene
    if right.total:
        return lambda frame: combine(left.run(frame), right.run(frame))
    where = Where(right)

    def run(frame: Frame) -> Datum:
        decided = left.array(frame)
        goes_on = pc.fill_null(pc.invert(decided) if stop else decided, True)
        return combine(decided, where(frame, goes_on))

    return run


def coalesce(args: Sequence[Compiled]) -> Run:
    """The first value of each row that is not null; all `args` are of one type."""
    first, *others = args
    parts = [Where(arg) for arg in others]

    def run(frame: Frame) -> Datum:
        result = first.array(frame)
        for part in parts:
            if not result.null_count:
                break
            value = part(frame, pc.is_null(result))
            result = pc.if_else(pc.is_valid(result), result, value)
        return result

    return run


def case(branches: Sequence[tuple[Compiled, Compiled]], otherwise: Compiled) -> Run:
    """CASE WHEN; the first true condition wins. All values are of one type."""
    parts = [(Where(test), Where(value)) for test, value in branches]
    last = Where(otherwise)

    def run(frame: Frame) -> Datum:
        rest = pa.repeat(pa.scalar(True), frame.n_rows)
        taken: list[tuple[pa.Array, Datum]] = []
        for test, value in parts:
            true = pc.and_(rest, pc.fill_null(test(frame, rest), False))
            taken.append((true, value(frame, true)))
            rest = pc.and_not(rest, true)
        result = last(frame, rest)
        for true, values in reversed(taken):
            result = pc.if_else(true, values, result)
        return result

    return run


def call(
    args: Sequence[Compiled], kernel: Kernel, order: Order = "left", array: int | None = None
) -> Run:
    """Apply a kernel to arguments that are evaluated from the left or the right, up to a null."""
    places = range(len(args)) if order != "right" else reversed(range(len(args)))
    sequence = [(place, Where(args[place])) for place in places]
    guarded = order != "all" and any(not where.part.total for _, where in sequence[1:])

    def run(frame: Frame) -> Datum:
        if guarded:
            values = _guarded(sequence, frame)
        else:
            values = list(map(methodcaller("run", frame), args))
        if array is not None:
            values[array] = as_array(values[array], frame.n_rows)
        return applied(kernel, values)

    return run


def _guarded(sequence: Sequence[tuple[int, Where]], frame: Frame) -> list[Datum]:
    """The values of the arguments, each where the ones before it in `sequence` are not null."""
    seen: dict[int, Datum] = {}
    valid = pa.repeat(pa.scalar(True), frame.n_rows)
    for place, where in sequence:
        seen[place] = value = where(frame, valid)
        if value.null_count if isinstance(value, pa.Array) else not value.is_valid:
            valid = pc.and_(valid, pc.is_valid(value))
    return [seen[place] for place in range(len(sequence))]


def applied(kernel: Kernel, values: Sequence[Datum]) -> Datum:
    """Call a kernel with at least one array, as all kernels expect."""
    if any(isinstance(value, pa.Array) for value in values):
        return kernel(*values)
    return kernel(*(pa.repeat(value, 1) for value in values))[0]
