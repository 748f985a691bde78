"""Lists as sets: list_unique list_union list_intersect list_except.

One job: those four. A value stays where it came first; nulls are equal here, as are NaNs, and -0.0
comes out as 0.0.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.operators.expressions.arrow.bound import Bound, Datum, Implementation, Request
from fabric.operators.expressions.arrow.lists.codes import canonical, groups
from fabric.operators.expressions.arrow.lists.combine import joined
from fabric.operators.expressions.arrow.lists.view import Lists, either
from fabric.operators.expressions.arrow.rows import arrays


def _of(array: pa.Array) -> Lists:
    lists = Lists.of(array)
    return lists.with_values(canonical(lists.values))


def _distinct(lists: Lists) -> Lists:
    return lists.keep(groups(lists.rows, lists.values)[1])


def _unique(_: Request) -> Bound:
    return Bound(lambda values: _distinct(_of(values)).array(), array=0)


def _union(_: Request) -> Bound:
    def kernel(left: Datum, right: Datum) -> pa.Array:
        return _distinct(joined([_of(array) for array in arrays(left, right)])).array()

    return Bound(kernel)


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

    return lambda _: Bound(kernel)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "list_unique": _unique,
    "list_union": _union,
    "list_intersect": _by_membership(inside=True),
    "list_except": _by_membership(inside=False),
}
