"""Medians and quantiles.

One job: their forms. Exact ones pick the values around the position (n − 1) q with the
`select_ranks` kernel and interpolate as Spark does, or as the third argument says. The approximate
one picks the value whose rank is q n rounded up; a task sends at most `SAMPLE` values of a group,
evenly spaced in rank, so an answer's rank is off by less than 1/`SAMPLE` of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import datafusion
import numpy as np
import pyarrow as pa
from datafusion import functions as f

from fabric._cython.kernels.segments import select_ranks
from fabric.operators.fragment.aggregates.parts import F64, I64, Bound, Form, Found, Part, function
from fabric.operators.fragment.aggregates.segments import (
    Bools,
    Floats,
    Ints,
    floats,
    lists_of,
    offsets_of,
    order_keys,
    reduced,
    segment_ids,
    segments,
    without_nulls,
)
from fabric.plan.expr import Expr, Literal
from fabric.plan.literals import scalar_of

SAMPLE = 10_000


def interpolated(fraction: float, how: str, lists: pa.Array) -> pa.Array:
    """The quantile of each list; `how` is one of `INTERPOLATIONS`."""
    values, offsets = without_nulls(*segments(lists))
    lengths = np.diff(offsets)
    position = (lengths - 1) * fraction
    low = np.floor(position)
    keys, back = order_keys(values)
    at, after = select_ranks(keys, offsets, low.astype(np.int64))
    some = lengths > 0
    lower, higher = floats(back(at[some])), floats(back(after[some]))
    share = _share(position, low, how)[some]
    exact = (share == 0) | (at == after)[some]
    answer = np.zeros(len(lengths))
    with np.errstate(all="ignore"):
        answer[some] = np.where(exact, lower, (1 - share) * lower + share * higher)
    return pa.array(answer, F64, mask=~some)


def _share(position: Floats, low: Floats, how: str) -> Floats:
    """The weight of the value after `position`; the one before it has the rest."""
    match how:
        case "nearest":
            return np.floor(position + 0.5) - low
        case "lower":
            return np.zeros(len(position))
        case "higher":
            return np.ceil(position) - low
        case "midpoint":
            return (np.ceil(position) - low) / 2
    return position - low


def method_of(args: Sequence[Expr]) -> tuple[float, str]:
    """The fraction and the interpolation that follow the input of ``quantile`` and ``median``."""
    given = [scalar_of(arg).as_py() for arg in args if isinstance(arg, Literal)]
    return float(given[0] if given else 0.5), given[1] if len(given) > 1 else "linear"


def _values(bound: Bound) -> list[Part]:
    return [bound.part("values", f.array_agg, dtype=F64)]


def _exact(bound: Bound, found: Found) -> datafusion.Expr:
    compute = partial(interpolated, *method_of(bound.args[1:]))
    return function(compute, [found.type("values")], F64, found["values"])


def _approximate_values(bound: Bound) -> list[Part]:
    parts = [bound.part("values", f.array_agg)]
    return [*parts, bound.part("count", f.count)] if bound.is_partial else parts


def _approximate_merged(bound: Bound) -> list[Part]:
    return [bound.merging("values", f.array_agg), bound.merging("count", f.array_agg)]


def _approximate(bound: Bound, found: Found) -> datafusion.Expr:
    fraction = bound.constant(1)
    if "count" in found:
        types = [found.type("values"), found.type("count")]
        compute = partial(_weighted, fraction)
        return function(compute, types, bound.dtype, found["values"], found["count"])
    compute = partial(_ranked, fraction)
    return function(compute, [found.type("values")], bound.dtype, found["values"])


def _ranked(fraction: float, lists: pa.Array) -> pa.Array:
    """The value whose rank, from 1, is `fraction` of the rows rounded up."""
    values, offsets = without_nulls(*segments(lists))
    lengths = np.diff(offsets)
    rank = np.maximum(np.ceil(fraction * lengths), 1).astype(np.int64) - 1
    keys, back = order_keys(values)
    at, _ = select_ranks(keys, offsets, rank)
    return _where(lengths > 0, back(at[lengths > 0]))


def _where(some: Bools, values: pa.Array) -> pa.Array:
    """`values` one after another where `some`, null elsewhere."""
    places = np.cumsum(some) - 1
    return values.take(pa.array(places, I64, mask=~some))


def _thinned(lists: pa.Array) -> pa.Array:
    """Lists of at most `SAMPLE` values, evenly spaced in rank."""
    values, offsets = without_nulls(*segments(lists))
    lengths = np.diff(offsets)
    if not (lengths > SAMPLE).any():
        return lists_of(values, offsets, lists.type)
    keys, _ = order_keys(values)
    pieces = [_spaced(keys, begin, end) for begin, end in pairwise(offsets)]
    chosen = values.take(pa.array(np.concatenate(pieces)))
    return lists_of(chosen, offsets_of(np.minimum(lengths, SAMPLE)), lists.type)


def _spaced(keys: Ints, begin: int, end: int) -> Ints:
    """Indices of at most `SAMPLE` of the keys from `begin` to `end`."""
    if end - begin <= SAMPLE:
        return np.arange(begin, end)
    order = np.argsort(keys[begin:end])
    ranks = ((np.arange(SAMPLE) + 0.5) * (end - begin) / SAMPLE).astype(np.int64)
    return order[ranks] + begin


def _weighted(fraction: float, lists: pa.Array, counts: pa.Array) -> pa.Array:
    """The quantile of states: every value stands for its task's rows divided by its values."""
    samples, groups = segments(lists)
    values, offsets = segments(samples)
    rows = floats(segments(counts)[0].fill_null(0))
    lengths = np.diff(offsets)
    weights = np.repeat(rows / np.maximum(lengths, 1), lengths)
    return weighted_ranks(fraction, values, weights, offsets[groups])


def weighted_ranks(fraction: float, values: pa.Array, weights: Floats, offsets: Ints) -> pa.Array:
    """Of each segment the value at which `fraction` of its weight is reached; null without any."""
    keys, _ = order_keys(values)
    ids = segment_ids(offsets)
    order = np.lexsort((keys, ids))
    total = reduced(np.add, weights, offsets)
    upto = np.cumsum(weights[order])
    upto -= np.append(0.0, upto)[offsets[:-1]][ids]
    reached = upto >= fraction * total[ids] * (1 - 1e-12)
    some = offsets[1:] > offsets[:-1]
    first = np.searchsorted(np.flatnonzero(reached), offsets[:-1][some])
    return _where(some, values.take(pa.array(order[np.flatnonzero(reached)[first]])))


def _approximate_states(_: Bound, found: Found) -> Mapping[str, datafusion.Expr]:
    dtype = found.type("values")
    return {
        "values": function(_thinned, [dtype], dtype, found["values"]),
        "count": f.coalesce(found["count"], datafusion.lit(0)),
    }


FORMS = {
    "median": Form(_values, _exact),
    "quantile": Form(_values, _exact),
    "approx_quantile": Form(
        _approximate_values, _approximate, _approximate_merged, _approximate_states
    ),
}
