"""Lists of the values of other lists, as they stand.

One job: list_concat concat_list list_flatten list_append list_prepend list_drop_nulls list_reverse.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fabric.operators.expressions.arrow.bound import Bound, Datum, Implementation, Request
from fabric.operators.expressions.arrow.lists.view import (
    Lists,
    check_total,
    count,
    either,
)
from fabric.operators.expressions.arrow.rows import arrays


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


def _concat(_: Request) -> Bound:
    def kernel(*values: Datum) -> pa.Array:
        return joined([Lists.of(array) for array in arrays(*values)]).array()

    return Bound(kernel)


def _single(values: pa.Array) -> Lists:
    return Lists(values, np.ones(len(values), np.int64))


def _concat_list(request: Request) -> Bound:
    """Single values are values of the list, null too; a list that is null makes all of it null."""
    nested = [dtype == request.result for dtype in request.operands]

    def kernel(*values: Datum) -> pa.Array:
        parts = zip(arrays(*values), nested, strict=True)
        return joined([Lists.of(array) if one else _single(array) for array, one in parts]).array()

    return Bound(kernel)


def _append(_: Request) -> Bound:
    """A null at the end is a value; a null list stays null."""

    def kernel(values: Datum, value: Datum) -> pa.Array:
        array, one = arrays(values, value)
        return joined([Lists.of(array), _single(one)]).array()

    return Bound(kernel, order="all")


def _prepend(_: Request) -> Bound:
    def kernel(values: Datum, value: Datum) -> pa.Array:
        array, one = arrays(values, value)
        return joined([_single(one), Lists.of(array)]).array()

    return Bound(kernel, order="all")


def _flatten(_: Request) -> Bound:
    """A list of lists as one list; null when one of the lists is."""

    def kernel(values: pa.Array) -> pa.Array:
        outer = Lists.of(values)
        broken = count(outer.rows[outer.missing], len(outer.sizes)) > 0
        outer = outer.nulled(broken)
        inner = Lists.of(outer.values)
        sizes = count(np.repeat(outer.rows, inner.sizes), len(outer.sizes))
        return Lists(inner.values, sizes, outer.null).array()

    return Bound(kernel, array=0)


def _drop_nulls(_: Request) -> Bound:
    def kernel(values: pa.Array) -> pa.Array:
        lists = Lists.of(values)
        return lists.keep(~lists.missing).array()

    return Bound(kernel, array=0)


def _reverse(_: Request) -> Bound:
    def kernel(values: pa.Array) -> pa.Array:
        lists = Lists.of(values)
        return lists.take(lists.ends[lists.rows] - 1 - lists.places).array()

    return Bound(kernel, array=0)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "list_concat": _concat,
    "concat_list": _concat_list,
    "list_append": _append,
    "list_prepend": _prepend,
    "list_flatten": _flatten,
    "list_drop_nulls": _drop_nulls,
    "list_reverse": _reverse,
}
