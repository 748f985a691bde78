"""One value from all values of a list: list_sum list_mean list_any list_all list_join.

One job: those five. Floats are added from the left, so that the last bit is the same everywhere.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    arrays,
    from_numpy,
    simple,
    to_numpy,
)
from fabric.operators.expressions.arrow.lists.view import Lists, Numbers, count, flags

_SURE = float(1 << 62)


def _sum(request: Request) -> Bound:
    """Nulls count nothing; the sum of no values is 0."""
    result = request.result

    def kernel(values: pa.Array) -> pa.Array:
        lists = Lists.of(values)
        lists = lists.keep(~lists.missing)
        if t.is_decimal(result):
            return pa.array(_exact_sums(lists, result), result, mask=lists.null)
        if t.is_floating(result):
            return pa.array(_float_sums(lists), result, mask=lists.null)
        return pa.array(_integer_sums(lists), result, mask=lists.null)

    return Bound(kernel, array=0)


def _float_sums(lists: Lists) -> Any:
    """`bincount` adds one value after the other."""
    return np.bincount(lists.rows, to_numpy(lists.values.cast(pa.float64())), len(lists.sizes))


def _integer_sums(lists: Lists) -> Numbers:
    numbers = to_numpy(lists.values.cast(pa.int64()))
    n_rows = len(lists.sizes)
    if np.bincount(lists.rows, np.abs(numbers.astype(np.float64)), n_rows).max(initial=0) < _SURE:
        sums = np.zeros(n_rows, np.int64)
        np.add.at(sums, lists.rows, numbers)
        return sums
    return np.array(_exact_sums(lists, pa.int64()), np.int64)


def _exact_sums(lists: Lists, dtype: pa.DataType) -> list[Any]:
    """Sums in Python's numbers; a sum on the way that does not fit is an error."""
    values = lists.values.to_pylist()
    zero: Any = Decimal(0) if t.is_decimal(dtype) else 0
    pairs = zip(lists.starts.tolist(), lists.ends.tolist(), strict=True)
    sums = [list(accumulate(values[a:b], initial=zero)) for a, b in pairs]
    try:
        for row in sums:
            pa.array(row, dtype)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise ExpressionError(f"overflow: the sum of a list does not fit {dtype}") from error
    return [row[-1] for row in sums]


def _mean(values: pa.Array) -> pa.Array:
    """The mean of what is not null; null when nothing is."""
    lists = Lists.of(values)
    lists = lists.keep(~lists.missing)
    empty = lists.sizes == 0
    means = _float_sums(lists) / np.where(empty, 1, lists.sizes)
    return pa.array(means, pa.float64(), mask=empty)


def _quantifier(*, stop: bool) -> Implementation:
    """`stop` if one value is, else not `stop`; nulls are left out."""

    def kernel(values: pa.Array) -> pa.Array:
        lists = Lists.of(values)
        n_rows = len(lists.sizes)
        true = flags(pc.fill_null(lists.values, not stop))
        found = count(lists.rows[true == stop], n_rows) > 0
        return pa.array(found if stop else ~found, mask=lists.null)

    return simple(kernel, array=0)


def _join(values: Datum, separator: Datum, *instead: Datum) -> pa.Array:
    """Strings with a separator between them; nulls are left out or, with a third one, written."""
    array, between, *written = arrays(values, separator, *instead)
    lists = Lists.of(array)
    unknown = flags(pc.is_null(between))
    if written:
        unknown |= flags(pc.is_null(written[0]))
        shown = written[0].take(from_numpy(lists.rows, pa.int64()))
        lists = lists.with_values(pc.coalesce(lists.values, pc.fill_null(shown, "")))
    lists = lists.keep(~lists.missing).nulled(unknown)
    return pc.binary_join(lists.array(), between)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "list_sum": _sum,
    "list_mean": simple(_mean, array=0),
    "list_any": _quantifier(stop=True),
    "list_all": _quantifier(stop=False),
    "list_join": simple(_join),
}
