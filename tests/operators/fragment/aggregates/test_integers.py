"""Covariance and correlation of integers beside exact fractions, up to the ends of their types."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.fragment.aggregates import moments
from fabric.operators.fragment.aggregates.integers import are_small
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import Aggregate, StageInput
from tests.support.sampled import SOAK

AGGS = tuple(
    Alias(Agg(name, Column("x"), (Column("y"),)), name)
    for name in ("covar_samp", "covar_pop", "corr")
)


def exact(pairs: list[tuple[int, int]]) -> tuple[float | None, ...]:
    if not pairs:
        return None, None, None
    n = len(pairs)
    mean = [Fraction(sum(pair[i] for pair in pairs), n) for i in (0, 1)]
    away = [[pair[i] - mean[i] for i in (0, 1)] for pair in pairs]
    c2, m2_x, m2_y = (
        sum((d[a] * d[b] for d in away), Fraction()) for a, b in ((0, 1), (0, 0), (1, 1))
    )
    corr = float(c2) / math.sqrt(float(m2_x) * float(m2_y)) if m2_x * m2_y else None
    return float(c2 / (n - 1)) if n > 1 else None, float(c2 / n), corr


COLUMNS = {
    "narrow": (pa.int32(), 2**31 - 1),
    "small": (pa.int64(), 9),
    "sums fit": (pa.int64(), 500_000_000),
    "products fit": (pa.int64(), 3_036_000_000),
    "unsigned": (pa.uint64(), 3_036_000_000),
}
"""Types, and the largest magnitude in them of which products fit."""


@st.composite
def columns(draw: st.DrawFn, n_rows: int) -> pa.Array:
    dtype, most = draw(st.sampled_from(list(COLUMNS.values())))
    least = 0 if pa.types.is_unsigned_integer(dtype) else -most
    ends = st.sampled_from([least, least + 1, 0, 1, most - 1, most])
    value = st.none() | ends | st.integers(least, most)
    return pa.array(draw(st.lists(value, min_size=n_rows, max_size=n_rows)), dtype)


@st.composite
def pairs(draw: st.DrawFn) -> pa.Table:
    n_rows = draw(st.integers(0, 25))
    return pa.table({"x": draw(columns(n_rows)), "y": draw(columns(n_rows))})


@settings(deadline=None, max_examples=60 if SOAK else 30)
@given(table=pairs(), cut=st.integers(0, 25))
def test_they_are_exact(in_phases: Callable[..., pa.Table], table: pa.Table, cut: int) -> None:
    node = Aggregate(StageInput(0, table.schema), (), AGGS)
    rows = zip(*table.to_pydict().values(), strict=True)
    want = exact([(a, b) for a, b in rows if a is not None and b is not None])
    for parts in ([table], [table.slice(0, cut), table.slice(cut)]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(moments, "co_moments", None)  # no lists
            (found,) = in_phases(node, parts).to_pylist()
        for got, value in zip(found.values(), want, strict=True):
            near = value if value is None else pytest.approx(value, rel=1e-9, abs=1e-6)
            assert got == near


@settings(deadline=None, max_examples=60 if SOAK else 30)
@given(
    rows=st.lists(st.tuples(*[st.sampled_from([-(2**63), 2**63 - 1, 0, -1, 1])] * 2), max_size=20),
    cut=st.integers(0, 20),
)
def test_the_ends_of_int64_are_collected(
    in_phases: Callable[..., pa.Table], rows: list[tuple[int, int]], cut: int
) -> None:
    """Products of these don't fit: floats of 53 bits must do, but no sum may wrap."""
    x, y = ([row[i] for row in rows] for i in (0, 1))
    table = pa.table({"x": pa.array(x, pa.int64()), "y": pa.array(y, pa.int64())})
    node = Aggregate(StageInput(0, table.schema), (), AGGS)
    want = exact(rows)
    for parts in ([table], [table.slice(0, cut), table.slice(cut)]):
        (found,) = in_phases(node, parts).to_pylist()
        for got, value in zip(found.values(), want, strict=True):
            slack = 1e-9 if got is found["corr"] else 2.0**126 * 1e-9
            near = value if value is None else pytest.approx(value, rel=1e-9, abs=slack)
            assert got == near


def test_many_groups_beside_exact_fractions(in_phases: Callable[..., pa.Table]) -> None:
    rng = np.random.default_rng(11)
    for most in (20, 1_000_000, 3_036_000_000):
        values = {name: rng.integers(-most, most + 1, 3000) for name in "xy"}
        table = pa.table({"g": rng.integers(0, 300, 3000), **values})
        node = Aggregate(StageInput(0, table.schema), (Column("g"),), AGGS)
        found = in_phases(node, [table.slice(0, 1000), table.slice(1000)])
        for row in found.to_pylist():
            own = table.filter(pc.equal(table["g"], row["g"]))
            want = exact(list(zip(own["x"].to_pylist(), own["y"].to_pylist(), strict=True)))
            got = row["covar_samp"], row["covar_pop"], row["corr"]
            assert got == tuple(w if w is None else pytest.approx(w, rel=1e-9) for w in want)


def test_which_types_fit() -> None:
    assert are_small([pa.int32(), pa.uint16()])
    assert not are_small([pa.int32(), pa.uint32()])
    assert not are_small([pa.int64(), pa.int8()])
    assert not are_small([pa.float32(), pa.int8()])
