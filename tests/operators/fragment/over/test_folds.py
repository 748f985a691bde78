"""Folds of frames: against the same frames one by one."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.fragment.over import folds

VALUES = st.lists(st.sampled_from([0.0, 1.0, -3.5, 1e17, math.inf, math.nan]), max_size=40)


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = np.array(draw(VALUES), np.float64)
    places = st.integers(0, len(values))
    pairs = [sorted(pair) for pair in draw(st.lists(st.tuples(places, places), max_size=10))]
    begin, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return values, begin, end


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_sums_keep_what_does_not_leave(case: tuple[np.ndarray, ...]) -> None:
    values, begin, end = case
    (found,) = folds.fold(folds.added, [0.0], [values], begin, end)
    with np.errstate(invalid="ignore"):
        expected = [values[a:b].sum() for a, b in zip(begin, end, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=64)


@settings(max_examples=50, deadline=None)
@given(case=cases())
def test_extremes_of_integers(case: tuple[np.ndarray, ...]) -> None:
    values, begin, end = case
    rows = np.nan_to_num(values, posinf=9).astype(np.int64)
    (found,) = folds.fold(folds.largest, [-(2**63)], [rows], begin, end)
    assert found.dtype == np.int64
    assert found.tolist() == [
        int(rows[a:b].max(initial=-(2**63))) for a, b in zip(begin, end, strict=True)
    ]


@settings(max_examples=50, deadline=None)
@given(case=cases())
def test_moments_are_those_of_the_rows(case: tuple[np.ndarray, ...]) -> None:
    values, begin, end = case
    values = np.where(np.abs(values) < 100, values, 2.5)
    other = values[::-1] * 2 + 1
    ones, zeros = np.ones(len(values)), np.zeros(len(values))
    one = folds.fold(folds.moments, [0.0] * 5, [ones, values, zeros, zeros, zeros], begin, end)
    two = folds.fold(
        folds.co_moments, [0.0] * 6, [ones, values, other, zeros, zeros, zeros], begin, end
    )
    for i, (a, b) in enumerate(zip(begin, end, strict=True)):
        x, y = values[a:b], other[a:b]
        dx, dy = (x - x.mean(), y - y.mean()) if a < b else (x, y)
        expected = [len(x), x.mean() if a < b else 0.0, *((dx**k).sum() for k in (2, 3, 4))]
        np.testing.assert_allclose([column[i] for column in one], expected, atol=1e-9)
        expected = [(dx * dx).sum(), (dy * dy).sum(), (dx * dy).sum()]
        np.testing.assert_allclose([column[i] for column in two[3:]], expected, atol=1e-9)
