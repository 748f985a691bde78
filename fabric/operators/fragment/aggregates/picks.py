"""Aggregates that pick or keep whole values: first, last, any_value, min_by, max_by, collect.

One job: their forms. All collect values as lists and pick from those: DataFusion's own first_value
takes seconds where there are many groups, and knows no min_by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import datafusion
import numpy as np
import pyarrow as pa
from datafusion import functions as f

from fabric.operators.fragment.aggregates.counts import rows_of
from fabric.operators.fragment.aggregates.parts import Bound, Form, Found, Part, function
from fabric.operators.fragment.aggregates.segments import (
    Bools,
    Ints,
    kept_offsets,
    lists_of,
    order_keys,
    reduced,
    segment_ids,
    segments,
    taken,
    valid,
    without_nulls,
)

Pick = Callable[[Ints, Bools], Ints]
"""From offsets and a mask of the values to choose from: one index a segment, −1 for none."""


def _first_of(offsets: Ints, candidates: Bools) -> Ints:
    """The first candidate of each segment."""
    places = np.flatnonzero(candidates)
    after = np.searchsorted(places, offsets)
    found = np.append(places, 0)[after[:-1]]
    return np.where(after[1:] > after[:-1], found, -1)


def _last_of(offsets: Ints, candidates: Bools) -> Ints:
    """The last candidate of each segment."""
    places = np.flatnonzero(candidates)
    after = np.searchsorted(places, offsets)
    found = np.append(places, 0)[after[1:] - 1]
    return np.where(after[1:] > after[:-1], found, -1)


def _chosen(pick: Pick, among: Callable[[pa.Array], Bools], *lists: pa.Array) -> pa.Array:
    """Of the first column the value that `pick` takes `among` those of the last column."""
    values, offsets = segments(lists[0])
    index = pick(offsets, among(segments(lists[-1])[0]))
    return taken(values, index, index >= 0)


def _every(values: pa.Array) -> Bools:
    return np.ones(len(values), bool)


def _positive(counts: pa.Array) -> Bools:
    found: Bools = counts.fill_null(0).to_numpy(zero_copy_only=False) > 0
    return found


def _values(bound: Bound) -> list[Part]:
    return [bound.part("value", f.array_agg)]


def _values_and_count(bound: Bound) -> list[Part]:
    parts = _values(bound)
    return [*parts, rows_of(bound)] if bound.is_partial else parts


def _merged(kinds: tuple[str, ...], bound: Bound) -> list[Part]:
    return [bound.merging(kind, f.array_agg) for kind in kinds]


def _pick_row(pick: Pick, bound: Bound, found: Found) -> datafusion.Expr:
    """The value of one row; of states only those of tasks that had rows count."""
    merging = "count" in found and not bound.is_partial
    kinds = ["value", "count"] if merging else ["value"]
    compute = partial(_chosen, pick, _positive if merging else _every)
    return function(
        compute, [found.type(kind) for kind in kinds], bound.dtype,
        *(found[kind] for kind in kinds),
    )  # fmt: skip


def _pick_any(_: Bound, found: Found) -> datafusion.Expr:
    compute = partial(_chosen, _first_of, valid)
    dtype = found.type("value")
    return function(compute, [dtype], dtype.value_type, found["value"])


def _row_states(pick: Pick, bound: Bound, found: Found) -> Mapping[str, datafusion.Expr]:
    value = function(
        partial(_chosen, pick, _every), [found.type("value")], bound.type(), found["value"]
    )
    return {"value": value, "count": found["count"]}


def _row_form(pick: Pick) -> Form:
    return Form(
        rows=_values_and_count,
        merged=partial(_merged, ("value", "count")),
        states=partial(_row_states, pick),
        result=partial(_pick_row, pick),
    )


def _pairs(bound: Bound) -> list[Part]:
    return [bound.part("value", f.array_agg), bound.part("by", f.array_agg, 1)]


def _of_extreme(ufunc: np.ufunc, index: int, *lists: pa.Array) -> pa.Array:
    """Of column `index` a value in a row where the last column is smallest or largest."""
    by, offsets = segments(lists[-1])
    kept = valid(by)
    keys, _ = order_keys(by.drop_null())
    some = kept_offsets(kept, offsets)
    best = reduced(ufunc, keys, some)
    candidates = np.zeros(len(by), bool)
    candidates[np.flatnonzero(kept)[keys == best[segment_ids(some)]]] = True
    found = _first_of(offsets, candidates)
    return taken(segments(lists[index])[0], found, found >= 0)


def _picked_by(ufunc: np.ufunc, index: int, dtype: pa.DataType, found: Found) -> datafusion.Expr:
    types = [found.type("value"), found.type("by")]
    return function(partial(_of_extreme, ufunc, index), types, dtype, found["value"], found["by"])


def _by_states(ufunc: np.ufunc, bound: Bound, found: Found) -> Mapping[str, datafusion.Expr]:
    return {
        "value": _picked_by(ufunc, 0, bound.type(), found),
        "by": _picked_by(ufunc, 1, bound.type(1), found),
    }


def _by_form(ufunc: np.ufunc) -> Form:
    return Form(
        rows=_pairs,
        merged=partial(_merged, ("value", "by")),
        states=partial(_by_states, ufunc),
        result=lambda bound, found: _picked_by(ufunc, 0, bound.dtype, found),
    )


def _collect(bound: Bound, found: Found) -> datafusion.Expr:
    def compute(lists: pa.Array) -> pa.Array:
        return lists_of(*without_nulls(*segments(lists)), bound.dtype)

    return function(compute, [found.type("value")], bound.dtype, found["value"])


FORMS = {
    "first": _row_form(_first_of),
    "last": _row_form(_last_of),
    "any_value": Form(
        rows=_values,
        merged=partial(_merged, ("value",)),
        states=lambda bound, found: {"value": _pick_any(bound, found)},
        result=_pick_any,
    ),
    "min_by": _by_form(np.minimum),
    "max_by": _by_form(np.maximum),
    "collect": Form(rows=_values, result=_collect),
}
