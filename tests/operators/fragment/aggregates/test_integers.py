"""Covariance and correlation of integers beside exact fractions, up to the ends of the type."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.fragment.aggregates.integers import are_small
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import Aggregate, StageInput

ENDS = [-(2**31), 2**31 - 1, 2**31 - 2, 0, 1]
NUMBERS = st.none() | st.sampled_from(ENDS) | st.integers(-9, 9)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=25)
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


@settings(deadline=None, max_examples=60)
@given(rows=PAIRS, cut=st.integers(0, 25))
def test_they_are_exact(
    in_phases: Callable[..., pa.Table], rows: list[tuple[int | None, int | None]], cut: int
) -> None:
    x, y = ([row[i] for row in rows] for i in (0, 1))
    table = pa.table({"x": pa.array(x, pa.int32()), "y": pa.array(y, pa.int32())})
    node = Aggregate(StageInput(0, table.schema), (), AGGS)
    want = exact([(a, b) for a, b in rows if a is not None and b is not None])
    for parts in ([table], [table.slice(0, cut), table.slice(cut)]):
        (found,) = in_phases(node, parts).to_pylist()
        for got, value in zip(found.values(), want, strict=True):
            near = value if value is None else pytest.approx(value, rel=1e-9, abs=1e-6)
            assert got == near


def test_which_types_fit() -> None:
    assert are_small([pa.int32(), pa.uint16()])
    assert not are_small([pa.int32(), pa.uint32()])
    assert not are_small([pa.int64(), pa.int8()])
    assert not are_small([pa.float32(), pa.int8()])
