"""Co-moments of integers whose products fit in 64 bits, from sums.

One job: `parts` and `moments_of`. Sums of products of such integers are exact: DataFusion's wrap at
2^64, and a float sum beside each says how often it did; none is needed where no sum can be so large
(`sum_bounds.py`). So covariance and correlation need no lists, and are exact up to the division.
"""

from __future__ import annotations

from collections.abc import Sequence

import datafusion
import numpy as np
import pyarrow as pa
from datafusion import functions as f
from numpy.typing import NDArray
from pyarrow import types as t

from fabric.operators.fragment.aggregates.parts import F64, I64, Bound, Part
from fabric.operators.fragment.aggregates.segments import Floats, Ints
from fabric.operators.fragment.sum_bounds import Fit

SUMS = ("x", "y", "xx", "yy", "xy")
NEAR = ("near_xx", "near_yy", "near_xy")
KINDS = ("count", *SUMS, *NEAR)
_SAFE = float(1 << 61)
_WRAP = 2.0**64


def are_small(dtypes: Sequence[pa.DataType]) -> bool:
    """Whether products of these types fit in 64 bits."""
    return all(t.is_integer(d) and d.bit_width + (not t.is_signed_integer(d)) <= 32 for d in dtypes)


def parts(bound: Bound) -> list[Part]:
    """Sums over the rows where both are there."""
    x, y = (bound.value(i).cast(I64) for i in (0, 1))
    null = datafusion.lit(pa.scalar(None, I64))
    both_x = f.when(y.is_not_null(), x).otherwise(null)
    both_y = f.when(x.is_not_null(), y).otherwise(null)
    values = {"x": both_x, "y": both_y, "xx": both_x * x, "yy": both_y * y, "xy": x * y}
    found = [
        bound.part(kind, f.sum, value=value, dtype=I64, tag=kind) for kind, value in values.items()
    ]
    counts = bound.part("count", f.count, value=values["xy"], dtype=I64, tag="xy")
    if bound.fit is Fit.SUMS:
        return [counts, *found]
    near = [
        bound.part(f"near_{kind}", f.sum, value=values[kind], dtype=F64, tag=kind)
        for kind in ("xx", "yy", "xy")
    ]
    return [counts, *found, *near]


def moments_of(*columns: pa.Array) -> tuple[Ints, list[Floats]]:
    """Counts, means of x and y, and sums of products of deviations: xx, yy, xy.

    `columns` are `KINDS`, or those without `NEAR` where no sum wrapped.
    """
    n, x, y, *sums = (column.fill_null(0).to_numpy() for column in columns)
    products = sums[:3]
    near = sums[3:] or [product.astype(np.float64) for product in products]
    some = np.maximum(n, 1)
    pairs = ((x, x), (y, y), (x, y))
    deviations = [
        _deviation(some, product, a, b, about)
        for product, (a, b), about in zip(products, pairs, near, strict=True)
    ]
    return n, [x / some, y / some, *deviations]


def _deviation(n: Ints, product: Ints, a: Ints, b: Ints, near: Floats) -> Floats:
    """``product − a b / n``, from the exact ``n product − a b``."""
    with np.errstate(over="ignore"):
        whole: NDArray[np.int64] = n * product - a * b
    found: Floats = whole / n
    wide = np.maximum(n * np.abs(near), np.abs(a.astype(np.float64) * b)) >= _SAFE
    if wide.any():
        wraps = np.rint((near[wide] - product[wide].astype(np.float64)) / _WRAP)
        m, low, s, u = (column[wide].astype(object) for column in (n, product, a, b))
        high = wraps.astype(np.int64).astype(object) * (1 << 64)
        found[wide] = (m * (low + high) - s * u) / m
    return found
