"""Aggregates of floats and conditions over frames, by folds.

One job: `folded`: for each row the answer, or the states that the aggregate's form makes it of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import types as t

from fabric.operators.fragment.aggregates.segments import Bools, Floats, Ints
from fabric.operators.fragment.windows import folds
from fabric.operators.fragment.windows.folds import Combine, fold

_ONE = ("count", "mean", "m2", "m3", "m4")
_TWO = ("count", "mean_x", "mean_y", "m2_x", "m2_y", "c2")
_MOMENTS = ("var", "std", "var_pop", "std_pop", "skewness", "kurtosis")
_CO_MOMENTS = ("covar_samp", "covar_pop", "corr")


@dataclass(frozen=True, slots=True)
class Folded:
    """Columns by kind: states for the aggregate's form, or with `is_state` off the answer alone."""

    kinds: tuple[str, ...]
    columns: tuple[pa.Array, ...]
    is_state: bool = True


def folded(
    function: str, args: Sequence[pa.Array], begin: Ints, end: Ints, dtype: pa.DataType
) -> Folded | None:
    """`function` of `args` over each frame ``begin:end``; None where no fold does it."""
    if function in ("bool_and", "bool_or"):
        return _condition(function, args[0], begin, end)
    if function in _MOMENTS:
        return _moments(folds.moments, _ONE, args, begin, end)
    if function in _CO_MOMENTS:
        return _moments(folds.co_moments, _TWO, args, begin, end)
    if t.is_decimal(dtype) or function not in _PLAIN:
        return None
    return _PLAIN[function](args[0], begin, end, dtype)


def _valid(values: pa.Array) -> Bools:
    found: Bools = values.is_valid().to_numpy(zero_copy_only=False)
    return found


def _floats(values: pa.Array, missing: float) -> Floats:
    numbers = values.cast(pa.float64()).fill_null(missing)
    found: Floats = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _counts(mask: Bools, begin: Ints, end: Ints) -> Ints:
    """How many rows of `mask` each frame has."""
    before = np.append(0, np.cumsum(mask, dtype=np.int64))
    found: Ints = before[end] - before[begin]
    return found


def _one(
    combine: Combine, values: pa.Array, missing: float, begin: Ints, end: Ints
) -> tuple[Floats, Ints]:
    """The fold of one column of numbers, and how many were not null."""
    (found,) = fold(combine, [missing], [_floats(values, missing)], begin, end)
    return found, _counts(_valid(values), begin, end)


def _sum(values: pa.Array, begin: Ints, end: Ints, _: pa.DataType) -> Folded | None:
    if not (t.is_floating(values.type) or t.is_null(values.type)):
        return None
    total, count = _one(folds.added, values, 0.0, begin, end)
    return Folded(("sum",), (pa.array(total, mask=count == 0),))


def _mean(values: pa.Array, begin: Ints, end: Ints, _: pa.DataType) -> Folded:
    total, count = _one(folds.added, values, 0.0, begin, end)
    return Folded(("count", "sum"), (pa.array(count), pa.array(total, mask=count == 0)))


def _smallest(values: pa.Array, begin: Ints, end: Ints, dtype: pa.DataType) -> Folded | None:
    if not t.is_floating(values.type):
        return None
    return _answer(*_one(folds.smallest, values, np.nan, begin, end), dtype)


def _largest(values: pa.Array, begin: Ints, end: Ints, dtype: pa.DataType) -> Folded | None:
    if not t.is_floating(values.type):
        return None
    return _answer(*_one(folds.largest, values, -np.inf, begin, end), dtype)


def _answer(found: Floats, count: Ints, dtype: pa.DataType) -> Folded:
    """Numbers as they are, without a negative zero."""
    answer = pa.array(found + 0.0, mask=count == 0).cast(dtype)
    return Folded(("answer",), (answer,), is_state=False)


def _condition(function: str, values: pa.Array, begin: Ints, end: Ints) -> Folded:
    """True where there is a true value (bool_or), or no false one (bool_and)."""
    flags = values.cast(pa.bool_())
    true: Bools = flags.fill_null(False).to_numpy(zero_copy_only=False)
    n_valid, n_true = _counts(_valid(flags), begin, end), _counts(true, begin, end)
    answer = n_true > 0 if function == "bool_or" else n_true == n_valid
    return Folded(("answer",), (pa.array(answer, mask=n_valid == 0),), is_state=False)


def _moments(
    combine: Combine, kinds: tuple[str, ...], args: Sequence[pa.Array], begin: Ints, end: Ints
) -> Folded:
    """Moments; of two columns those of the rows that have both."""
    some = np.logical_and.reduce([_valid(values) for values in args])
    columns = [some.astype(np.float64)]
    columns += [np.where(some, _floats(values, 0.0), 0.0) for values in args]
    columns += [np.zeros(len(some)) for _ in range(len(kinds) - len(columns))]
    # a row's own deviations are 0, but of NaN and infinity, which have none
    for place in range(1 + len(args), len(kinds)):
        columns[place] = sum((columns[1 + i] * 0.0 for i in range(len(args))), columns[place])
    found = fold(combine, [0.0] * len(kinds), columns, begin, end)
    arrays = [pa.array(found[0].astype(np.int64)), *map(pa.array, found[1:])]
    return Folded(("moments",), (pa.StructArray.from_arrays(arrays, names=kinds),))


Plain = Callable[[pa.Array, Ints, Ints, pa.DataType], Folded | None]


_PLAIN: dict[str, Plain] = {"sum": _sum, "mean": _mean, "min": _smallest, "max": _largest}
