"""Functions over frames of sorted rows: by folds, by counts before a place, by places.

One job: `folded`: for each row the answer, or the states that the aggregate's form makes it of.
`fold` combines overlapping frames without subtracting what leaves: blocks of 1, 2, 4, ... rows are
combined once, beginning at every row; a frame of n rows is put together from the blocks that n's
bits say. O(rows log frame) for any frames, exact as far as the combination is: NaN and infinities
stay in the frames they are in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as t

from fabric.operators.fragment.aggregates.segments import (
    Bools,
    Floats,
    Ints,
    floats,
    order_keys,
    valid,
)
from fabric.operators.fragment.over.frames import Frames
from fabric.operators.fragment.over.inputs import PLACED
from fabric.plan.expr import Agg, Literal
from fabric.plan.functions.aggregates import CO_MOMENTS, MOMENTS

State = Sequence[Any]
"""Columns of numbers, one value a row or frame."""
Combine = Callable[[State, State], State]


def fold(combine: Combine, empty: Sequence[Any], rows: State, begin: Ints, end: Ints) -> State:
    """The state of each frame ``begin:end``, from a state a row.

    >>> frames = np.array([0, 0, 1]), np.array([1, 3, 1])
    >>> (total,) = fold(added, [0.0], [np.array([1.0, 2.0, 4.0])], *frames)
    >>> total.tolist()
    [1.0, 7.0, 0.0]
    """
    found = [np.full(len(begin), v, r.dtype) for v, r in zip(empty, rows, strict=True)]
    place, length = begin.copy(), end - begin
    level, blocks = 0, rows
    longest = int(length.max(initial=0))
    with np.errstate(all="ignore"):
        while longest >> level:
            having = np.flatnonzero((length >> level) & 1)
            before = [column[having] for column in found]
            after = [column[place[having]] for column in blocks]
            for column, values in zip(found, combine(before, after), strict=True):
                column[having] = values
            place[having] += 1 << level
            if longest >> (level + 1):
                step = 1 << level
                blocks = combine([c[:-step] for c in blocks], [c[step:] for c in blocks])
            level += 1
    return found


def added(a: State, b: State) -> State:
    """Sums."""
    return [x + y for x, y in zip(a, b, strict=True)]


def largest(a: State, b: State) -> State:
    """Maxima."""
    return [np.maximum(x, y) for x, y in zip(a, b, strict=True)]


def smallest(a: State, b: State) -> State:
    """Minima."""
    return [np.minimum(x, y) for x, y in zip(a, b, strict=True)]


def moments(a: State, b: State) -> State:
    """Count, mean and the second to fourth power sums of deviations (Pébay, 2008)."""
    na, ma, a2, a3, a4 = a
    nb, mb, b2, b3, b4 = b
    n = na + nb
    safe = np.maximum(n, 1)
    d = np.where((na > 0) & (nb > 0), mb - ma, 0.0)
    r, both = d / safe, na * nb
    mean = np.where(na > 0, ma + np.where(nb > 0, r * nb, 0.0), mb)
    m2 = a2 + b2 + d * r * both
    m3 = a3 + b3 + d * r * r * both * (na - nb) + 3 * r * (na * b2 - nb * a2)
    m4 = (
        a4 + b4 + d * r**3 * both * (na * na - both + nb * nb)
        + 6 * r * r * (na * na * b2 + nb * nb * a2) + 4 * r * (na * b3 - nb * a3)
    )  # fmt: skip
    return [n, mean, m2, m3, m4]


def co_moments(a: State, b: State) -> State:
    """Count, both means, both second power sums and the sum of products of deviations."""
    na, xa, ya, xxa, yya, xya = a
    nb, xb, yb, xxb, yyb, xyb = b
    n = na + nb
    weight = na * nb / np.maximum(n, 1)
    some = (na > 0) & (nb > 0)
    dx, dy = np.where(some, xb - xa, 0.0), np.where(some, yb - ya, 0.0)
    share = nb / np.maximum(n, 1)
    return [
        n,
        np.where(na > 0, xa + dx * share, xb),
        np.where(na > 0, ya + dy * share, yb),
        xxa + xxb + dx * dx * weight,
        yya + yyb + dy * dy * weight,
        xya + xyb + dx * dy * weight,
    ]


_ONE = ("count", "mean", "m2", "m3", "m4")
_TWO = ("count", "mean_x", "mean_y", "m2_x", "m2_y", "c2")
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Folded:
    """Columns by kind: states for the aggregate's form, or with `is_state` off the answer alone."""

    kinds: tuple[str, ...]
    columns: tuple[pa.Array, ...]
    is_state: bool = True


def answer(values: pa.Array) -> Folded:
    """What needs no form any more."""
    return Folded(("answer",), (values,), is_state=False)


def folded(agg: Agg, args: Sequence[pa.Array], frames: Frames, dtype: pa.DataType) -> Folded | None:
    """`agg` of `args` over each frame; None where none of the ways here does it."""
    name = agg.function
    if name in PLACED or name in ("first_value", "last_value", "nth_value"):
        return answer(_placed(agg, args[0], frames))
    if name == "count":
        some = valid(args[0]) if args else None
        return answer(pa.array(_counts(some, frames)))
    if name in ("count_if", "bool_and", "bool_or"):
        return answer(_condition(name, args[0], frames))
    if name in ("min", "max"):
        return answer(_extreme(name, args[0], frames, dtype))
    if name in MOMENTS:
        return _moments(moments, _ONE, args, frames)
    if name in CO_MOMENTS:
        return _moments(co_moments, _TWO, args, frames)
    if name in ("sum", "mean") and not t.is_decimal(dtype):
        return _sum(name, args[0], frames)
    return None


def _counts(mask: Bools | None, frames: Frames) -> Ints:
    """How many rows of `mask` (None: of all) each frame has."""
    begin, end = frames
    if mask is None:
        return end - begin
    before = _before(mask)
    found: Ints = before[end] - before[begin]
    return found


def _before(mask: Bools) -> Ints:
    """How many rows of `mask` lie before each place."""
    found: Ints = np.append(0, np.cumsum(mask, dtype=np.int64))
    return found


def _numbers(values: pa.Array, missing: float) -> Floats:
    return floats(values.cast(pa.float64()).fill_null(missing))


def _sum(name: str, values: pa.Array, frames: Frames) -> Folded:
    """Sums as the form wants them: integers exactly, with the floats that show overflow beside."""
    count = _counts(valid(values), frames)
    (near,) = fold(added, [0.0], [_numbers(values, 0.0)], *frames)
    total = pa.array(near, mask=count == 0)
    if name == "mean":
        return Folded(("count", "sum"), (pa.array(count), total))
    if not t.is_integer(values.type):
        return Folded(("sum",), (total,))
    whole = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    before = np.append(0, np.cumsum(whole))  # wraps, and the difference wraps back
    exact = pa.array(before[frames[1]] - before[frames[0]], mask=count == 0)
    return Folded(("sum", "sum_f64"), (exact, total))


def _extreme(name: str, values: pa.Array, frames: Frames, dtype: pa.DataType) -> pa.Array:
    """The smallest or largest: NaN is the largest, zeros have no sign."""
    some = valid(values)
    keys, back = order_keys(values.drop_null())
    combine = smallest if name == "min" else largest
    missing = _INT64.max if name == "min" else _INT64.min
    rows = np.full(len(values), missing, np.int64)
    rows[some] = keys
    (found,) = fold(combine, [missing], [rows], *frames)
    known = _counts(some, frames) > 0
    place = pa.array(np.cumsum(known) - 1, mask=~known)
    return back(found[known]).cast(dtype).take(place)


def _condition(name: str, values: pa.Array, frames: Frames) -> pa.Array:
    """True where there is a true value (bool_or), or no false one (bool_and); or how many."""
    flags = values.cast(pa.bool_())
    n_true = _counts(flags.fill_null(False).to_numpy(zero_copy_only=False), frames)
    if name == "count_if":
        return pa.array(n_true)
    n_valid = _counts(valid(flags), frames)
    found = n_true > 0 if name == "bool_or" else n_true == n_valid
    return pa.array(found, mask=n_valid == 0)


def _placed(agg: Agg, values: pa.Array, frames: Frames) -> pa.Array:
    """The first, last or n-th value of each frame, nulls passed over where that is asked for."""
    name, skips = PLACED.get(agg.function, (agg.function, False))
    args = [arg.value for arg in agg.args if isinstance(arg, Literal)]
    nth = args.pop(0) if name == "nth_value" else 1
    skips = args[0] if args else skips
    begin, end = frames
    places = np.arange(len(values))
    if skips:
        some = valid(values)
        places, before = places[some], _before(some)
        begin, end = before[begin], before[end]
    wanted = end - 1 if name == "last_value" else begin + nth - 1
    inside = (wanted >= begin) & (wanted < end)
    rows = np.append(places, 0)[np.where(inside, wanted, len(places))]
    return values.take(pa.array(rows, mask=~inside))


def _moments(
    combine: Combine, kinds: tuple[str, ...], args: Sequence[pa.Array], frames: Frames
) -> Folded:
    """Moments; of two columns those of the rows that have both."""
    some = np.logical_and.reduce([valid(values) for values in args])
    means = [np.where(some, _numbers(values, 0.0), 0.0) for values in args]
    with np.errstate(invalid="ignore"):
        # a row's own deviations are 0, but of NaN and infinity, which have none
        own = sum((mean * 0.0 for mean in means), np.zeros(len(some)))
    rows = [some.astype(np.float64), *means, *[own] * (len(kinds) - len(means) - 1)]
    found = fold(combine, [0.0] * len(kinds), rows, *frames)
    arrays = [pa.array(found[0].astype(np.int64)), *map(pa.array, found[1:])]
    return Folded(("moments",), (pa.StructArray.from_arrays(arrays, names=kinds),))
