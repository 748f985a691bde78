"""Functions over frames of stored rows: by folds, by counts before a place, by places.

One job: `folded`: for each row the answer, or the states that the aggregate's form makes it of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from fabric.operators.fragment.windows import folds
from fabric.operators.fragment.windows.bounds import Frames
from fabric.operators.fragment.windows.folds import Combine, fold
from fabric.operators.fragment.windows.native import PLACED
from fabric.plan.expr import Agg, Literal

_ONE = ("count", "mean", "m2", "m3", "m4")
_TWO = ("count", "mean_x", "mean_y", "m2_x", "m2_y", "c2")
_MOMENTS = ("var", "std", "var_pop", "std_pop", "skewness", "kurtosis")
_CO_MOMENTS = ("covar_samp", "covar_pop", "corr")
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
    if name in _MOMENTS:
        return _moments(folds.moments, _ONE, args, frames)
    if name in _CO_MOMENTS:
        return _moments(folds.co_moments, _TWO, args, frames)
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
    (near,) = fold(folds.added, [0.0], [_numbers(values, 0.0)], *frames)
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
    combine = folds.smallest if name == "min" else folds.largest
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
