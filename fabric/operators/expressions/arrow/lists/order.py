"""Lists in order: list_sort list_min list_max.

One job: those three. NaN is the largest value; of equal values (0.0 and -0.0) the first is first.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.operators.expressions.arrow.bound import Bound, Datum, Implementation, Request
from fabric.operators.expressions.arrow.lists.codes import codes
from fabric.operators.expressions.arrow.lists.view import Lists, Numbers


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

    return lambda _: Bound(kernel, array=0)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "list_sort": _sort,
    "list_min": _extreme(np.minimum),
    "list_max": _extreme(np.maximum),
}
