"""Lists made of the values of other lists: joined, in order, as sets; and their extremes.

list_concat concat_list list_flatten list_append list_prepend list_drop_nulls list_reverse keep the
values as they stand. In list_sort list_min list_max NaN is the largest value, and of equal values
(0.0 and -0.0) the first is first. In list_unique list_union list_intersect list_except a value
stays where it came first; nulls are equal there, as are NaNs, and -0.0 comes out as 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    arrays,
    simple,
)
from fabric.operators.expressions.arrow.lists.codes import canonical, codes, groups
from fabric.operators.expressions.arrow.lists.view import (
    Lists,
    Numbers,
    check_total,
    count,
    either,
)


def joined(parts: Sequence[Lists]) -> Lists:
    """The values of several lists one after the other; null where one of them is."""
    null = None
    for part in parts:
        null = either(null, part.null)
    if null is not None:
        parts = [part.nulled(null) for part in parts]
    sizes = np.sum([part.sizes for part in parts], axis=0)
    check_total(int(sizes.sum()))
    begin = np.cumsum(sizes) - sizes
    source = np.empty(int(sizes.sum()), np.int64)
    before = 0
    for part in parts:
        source[begin[part.rows] + part.places] = np.arange(len(part.values)) + before
        before += len(part.values)
        begin = begin + part.sizes
    values = pa.concat_arrays([part.values for part in parts]).take(pa.array(source))
    return Lists(values, sizes, null)


def _concat(*values: Datum) -> pa.Array:
    return joined([Lists.of(array) for array in arrays(*values)]).array()


def _single(values: pa.Array) -> Lists:
    return Lists(values, np.ones(len(values), np.int64))


def _concat_list(request: Request) -> Bound:
    """Single values are values of the list, null too; a list that is null makes all of it null."""
    nested = [dtype == request.result for dtype in request.operands]

    def kernel(*values: Datum) -> pa.Array:
        parts = zip(arrays(*values), nested, strict=True)
        return joined([Lists.of(array) if one else _single(array) for array, one in parts]).array()

    return Bound(kernel)


def _append(values: Datum, value: Datum) -> pa.Array:
    """A null at the end is a value; a null list stays null."""
    array, one = arrays(values, value)
    return joined([Lists.of(array), _single(one)]).array()


def _prepend(values: Datum, value: Datum) -> pa.Array:
    array, one = arrays(values, value)
    return joined([_single(one), Lists.of(array)]).array()


def _flatten(values: pa.Array) -> pa.Array:
    """A list of lists as one list; null when one of the lists is."""
    outer = Lists.of(values)
    broken = count(outer.rows[outer.missing], len(outer.sizes)) > 0
    outer = outer.nulled(broken)
    inner = Lists.of(outer.values)
    sizes = count(np.repeat(outer.rows, inner.sizes), len(outer.sizes))
    return Lists(inner.values, sizes, outer.null).array()


def _drop_nulls(values: pa.Array) -> pa.Array:
    lists = Lists.of(values)
    return lists.keep(~lists.missing).array()


def _reverse(values: pa.Array) -> pa.Array:
    lists = Lists.of(values)
    return lists.take(lists.ends[lists.rows] - 1 - lists.places).array()


def _order(lists: Lists, *, descending: bool, nulls_last: bool) -> Numbers:
    """The values of each row in order; ``~code`` turns the order of int64 round."""
    code = codes(lists.values)
    code = np.where(lists.missing, 0, ~code if descending else code)
    null = lists.missing if nulls_last else ~lists.missing
    return np.lexsort((code, null, lists.rows))


def _sort(request: Request) -> Bound:
    descending, nulls_last = request.constant(1), request.constant(2)

    def kernel(values: pa.Array, *_: Datum) -> pa.Array:
        lists = Lists.of(values)
        order = _order(lists, descending=bool(descending), nulls_last=bool(nulls_last))
        return lists.take(order).array()

    return Bound(kernel, array=0)


def _extreme(best: np.ufunc) -> Implementation:
    """The first value with the lowest or highest code that is not null; null when there is none."""

    def kernel(values: pa.Array) -> pa.Array:
        lists = Lists.of(values)
        lists = lists.keep(~lists.missing)
        code = codes(lists.values)
        absent = lists.sizes == 0
        wanted = np.zeros(len(absent), np.int64)
        wanted[~absent] = best.reduceat(code, lists.starts[~absent]) if len(code) else 0
        place = np.flatnonzero(code == wanted[lists.rows])
        rows = lists.rows[place]
        first = np.zeros(len(absent), np.int64)
        first[rows[::-1]] = place[::-1]
        return lists.values.take(pa.array(first, mask=absent))

    return simple(kernel, array=0)


def _of(array: pa.Array) -> Lists:
    lists = Lists.of(array)
    return lists.with_values(canonical(lists.values))


def _distinct(lists: Lists) -> Lists:
    return lists.keep(groups(lists.rows, lists.values)[1])


def _unique(values: pa.Array) -> pa.Array:
    return _distinct(_of(values)).array()


def _union(left: Datum, right: Datum) -> pa.Array:
    return _distinct(joined([_of(array) for array in arrays(left, right)])).array()


def _by_membership(*, inside: bool) -> Implementation:
    """The different values of the left list that are in the right one, or that are not."""

    def kernel(left: Datum, right: Datum) -> pa.Array:
        first, second = (_of(array) for array in arrays(left, right))
        null = either(first.null, second.null)
        rows = np.concatenate([first.rows, second.rows])
        group, new = groups(rows, pa.concat_arrays([first.values, second.values]))
        n_own = len(first.values)
        found = np.zeros(len(group), bool)
        found[group[n_own:]] = True
        kept = first.keep(new[:n_own] & (found[group[:n_own]] == inside))
        return (kept if null is None else kept.nulled(null)).array()

    return simple(kernel)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "list_concat": simple(_concat),
    "concat_list": _concat_list,
    "list_append": simple(_append, order="all"),
    "list_prepend": simple(_prepend, order="all"),
    "list_flatten": simple(_flatten, array=0),
    "list_drop_nulls": simple(_drop_nulls, array=0),
    "list_reverse": simple(_reverse, array=0),
    "list_sort": _sort,
    "list_min": _extreme(np.minimum),
    "list_max": _extreme(np.maximum),
    "list_unique": simple(_unique, array=0),
    "list_union": simple(_union),
    "list_intersect": _by_membership(inside=True),
    "list_except": _by_membership(inside=False),
}
