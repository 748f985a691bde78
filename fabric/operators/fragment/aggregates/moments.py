"""Variance, skewness, kurtosis, covariance and correlation.

One job: their forms. A state is a count, means and sums of powers of deviations, which merge
without losing digits (Chan's formulas); sums of squares would lose them far from zero. Variances
are DataFusion's own; pairs of integers whose products fit are added up (`integers.py`); the others
collect their values and are computed by the `moments` kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import datafusion
import numpy as np
import pyarrow as pa
from datafusion import functions as f

from fabric._cython.kernels.segments import co_moments, moments
from fabric.operators.fragment.aggregates import integers
from fabric.operators.fragment.aggregates.parts import (
    F64,
    I64,
    Bound,
    Build,
    Form,
    Found,
    Part,
    Parts,
    function,
)
from fabric.operators.fragment.aggregates.segments import (
    Bools,
    Floats,
    Ints,
    floats,
    kept_offsets,
    reduced,
    segment_ids,
    segments,
    valid,
)

ONE = ("mean", "m2", "m3", "m4")
TWO = ("mean_x", "mean_y", "m2_x", "m2_y", "c2")
Compute = Callable[..., pa.Array]
Answer = tuple[Floats, Bools]
"""A number a group, and where it is undefined."""
Finish = Callable[..., Answer]


def _struct(kinds: tuple[str, ...]) -> pa.DataType:
    return pa.struct([("count", I64), *((kind, F64) for kind in kinds)])


def _made(kinds: tuple[str, ...], count: Ints, sums: list[Floats]) -> pa.Array:
    arrays = [pa.array(count), *(pa.array(column) for column in sums)]
    return pa.StructArray.from_arrays(arrays, fields=list(_struct(kinds)))


def moments_of_values(lists: pa.Array) -> pa.Array:
    """The moments of lists of numbers."""
    values, offsets = segments(lists)
    offsets = kept_offsets(valid(values), offsets) if values.null_count else offsets
    sums = moments(floats(values.drop_null()), offsets)
    return _made(ONE, np.diff(offsets), [sums[:, i].copy() for i in range(4)])


def moments_of_pairs(x_lists: pa.Array, y_lists: pa.Array) -> pa.Array:
    """The co-moments of lists of pairs; a pair with a null is left out."""
    (x, offsets), (y, _) = segments(x_lists), segments(y_lists)
    if x.null_count or y.null_count:
        kept = valid(x) & valid(y)
        offsets, mask = kept_offsets(kept, offsets), pa.array(kept)
        x, y = x.filter(mask), y.filter(mask)
    sums = co_moments(floats(x), floats(y), offsets)
    return _made(TWO, np.diff(offsets), [sums[:, i].copy() for i in range(5)])


def _flat(count: pa.Array, *lists: pa.Array) -> tuple[Floats, Ints, list[Floats]]:
    """States of tasks that had values: counts, where each group's are, and the other columns."""
    counts, offsets = segments(count)
    numbers = floats(counts)
    some = numbers > 0
    columns = [floats(segments(column)[0].fill_null(0.0))[some] for column in lists]
    return numbers[some], kept_offsets(some, offsets), columns


def _centre(n: Floats, mean: Floats, offsets: Ints, total: Floats) -> tuple[Floats, Floats]:
    """The mean of each group, and how far the mean of each state is from it."""
    ids = segment_ids(offsets)
    with np.errstate(all="ignore"):
        centre = reduced(np.add, n * mean, offsets) / np.maximum(total, 1)
        centre += reduced(np.add, n * (mean - centre[ids]), offsets) / np.maximum(total, 1)
        return centre, mean - centre[ids]


def merge_one(*lists: pa.Array) -> pa.Array:
    """The moments of lists of states: a column a kind, the count first."""
    n, offsets, (mean, *higher) = _flat(*lists)
    m2, m3, m4 = (*higher, np.zeros_like(n), np.zeros_like(n))[:3]
    total = reduced(np.add, n, offsets)
    centre, d = _centre(n, mean, offsets, total)
    with np.errstate(all="ignore"):
        m4 = m4 + 4 * d * m3 + 6 * d**2 * m2 + n * d**4
        m3 = m3 + 3 * d * m2 + n * d**3
        sums = [reduced(np.add, column, offsets) for column in (m2 + n * d**2, m3, m4)]
    return _made(ONE, total.astype(np.int64), [centre, *sums])


def merge_two(*lists: pa.Array) -> pa.Array:
    """The co-moments of lists of states: a column a kind, the count first."""
    n, offsets, (mean_x, mean_y, m2_x, m2_y, c2) = _flat(*lists)
    total = reduced(np.add, n, offsets)
    centre_x, dx = _centre(n, mean_x, offsets, total)
    centre_y, dy = _centre(n, mean_y, offsets, total)
    with np.errstate(all="ignore"):
        columns = (m2_x + n * dx**2, m2_y + n * dy**2, c2 + n * dx * dy)
        sums = [reduced(np.add, column, offsets) for column in columns]
    return _made(TWO, total.astype(np.int64), [centre_x, centre_y, *sums])


def _variance(bound: Bound) -> list[Part]:
    """DataFusion's variance, which is 0 of one value, be it NaN; the mean, which knows better."""
    parts: list[tuple[str, Build]] = [("count", f.count), ("variance", f.var_pop), ("mean", f.avg)]
    if bound.is_partial:
        parts.append(("smallest", f.min))  # the mean of equal values, exactly
    return [bound.part(kind, build, dtype=F64) for kind, build in parts]


def _collected(n_columns: int, bound: Bound) -> list[Part]:
    return [bound.part(f"values_{i}", f.array_agg, i, dtype=F64) for i in range(n_columns)]


def _pairs(bound: Bound) -> list[Part]:
    if bound.fit or integers.are_small([bound.type(0), bound.type(1)]):
        return integers.parts(bound)
    return _collected(2, bound)


def _of_integers(*columns: pa.Array) -> pa.Array:
    """The co-moments of sums of integers."""
    return _made(TWO, *integers.moments_of(*columns))


def _derived(
    kinds: tuple[str, ...], compute: Compute, merge: Compute, _: Bound, found: Found
) -> Mapping[str, datafusion.Expr]:
    """One struct of all moments; a variance from rows needs none."""
    if "variance" in found:
        return {}
    lists = [kind for kind in found.names if kind.startswith("values_")]
    chosen, run = (lists, compute) if lists else (["count", *kinds], merge)
    if "xy" in found:
        chosen, run = [kind for kind in integers.KINDS if kind in found], _of_integers
    types = [found.type(kind) for kind in chosen]
    output = _struct(TWO if kinds == TWO else ONE)
    return {"moments": function(run, types, output, *(found[kind] for kind in chosen))}


def _moment(found: Found, kind: str) -> datafusion.Expr:
    """One number of what is known about the values."""
    if "moments" in found:
        return f.get_field(found["moments"], datafusion.lit(kind))
    if kind == "count":
        return found[kind]
    one = found["count"] == datafusion.lit(1)
    if kind == "m2":
        of_many = found["variance"] * found["count"].cast(F64)
        return f.when(one, found["mean"] * datafusion.lit(0.0)).otherwise(of_many)
    if kind == "mean":
        equal = found["variance"] == datafusion.lit(0.0)
        return f.when(equal & ~one, found["smallest"]).otherwise(found["mean"])
    return found[kind]


def _states(kinds: tuple[str, ...], _: Bound, found: Found) -> Mapping[str, datafusion.Expr]:
    return {kind: _moment(found, kind) for kind in ("count", *kinds)}


def _result(kinds: tuple[str, ...], finish: Finish, _: Bound, found: Found) -> datafusion.Expr:
    """`finish` of the count and the moments `kinds`; null where it says so."""

    def compute(count: pa.Array, *columns: pa.Array) -> pa.Array:
        numbers = [floats(column.fill_null(0.0)) for column in columns]
        with np.errstate(all="ignore"):
            answer, undefined = finish(floats(count), *numbers)
        return pa.array(answer, F64, mask=undefined)

    columns = [_moment(found, kind) for kind in kinds]
    count = f.coalesce(_moment(found, "count"), datafusion.lit(0))
    return function(compute, [I64, *[F64] * len(kinds)], F64, count, *columns)


RESULTS: dict[str, tuple[int, tuple[str, ...], Finish]] = {
    "var": (1, ("m2",), lambda n, m2: (m2 / (n - 1), n < 2)),
    "std": (1, ("m2",), lambda n, m2: (np.sqrt(m2 / (n - 1)), n < 2)),
    "var_pop": (1, ("m2",), lambda n, m2: (m2 / n, n < 1)),
    "std_pop": (1, ("m2",), lambda n, m2: (np.sqrt(m2 / n), n < 1)),
    "skewness": (1, ("m2", "m3"), lambda n, m2, m3: (
        np.sqrt(n) * m3 / np.sqrt(m2 * m2 * m2), (n < 1) | (m2 == 0)
    )),
    "kurtosis": (1, ("m2", "m4"), lambda n, m2, m4: (
        n * m4 / (m2 * m2) - 3.0, (n < 1) | (m2 == 0)
    )),
    "covar_samp": (2, ("c2",), lambda n, c2: (c2 / (n - 1), n < 2)),
    "covar_pop": (2, ("c2",), lambda n, c2: (c2 / n, n < 1)),
    "corr": (2, ("m2_x", "m2_y", "c2"), lambda n, m2_x, m2_y, c2: (
        c2 / np.sqrt(m2_x * m2_y), (n < 2) | (m2_x * m2_y == 0)
    )),
}  # fmt: skip
"""How many columns each takes, the moments its result is made of, and how."""


def _form(name: str) -> Form:
    n_columns, kinds, finish = RESULTS[name]
    rows: Parts
    states: tuple[str, ...]
    compute: Compute
    merge: Compute
    compute, merge = moments_of_values, merge_one
    if n_columns == 2:
        rows, states, compute, merge = _pairs, TWO, moments_of_pairs, merge_two
    elif kinds == ("m2",):
        rows, states = _variance, ONE[:2]
    else:
        rows, states = partial(_collected, 1), ONE
    return Form(
        rows=rows,
        merged=lambda bound: [bound.merging(kind, f.array_agg) for kind in ("count", *states)],
        derived=partial(_derived, states, compute, merge),
        states=partial(_states, states),
        result=partial(_result, kinds, finish),
    )


FORMS = {name: _form(name) for name in RESULTS}
