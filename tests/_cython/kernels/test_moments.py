"""Moments of segments beside exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.moments import co_moments, moments

VALUES = st.floats(-1e3, 1e3).map(lambda value: value + 1e6)
SEGMENTS = st.lists(st.lists(st.tuples(VALUES, VALUES), max_size=12), max_size=8)


def exact(x: list[float], y: list[float], a: int, b: int) -> float:
    """The sum of products of powers of deviations."""
    mean_x, mean_y = sum(map(Fraction, x)) / len(x), sum(map(Fraction, y)) / len(y)
    pairs = zip(map(Fraction, x), map(Fraction, y), strict=True)
    return float(sum((p - mean_x) ** a * (q - mean_y) ** b for p, q in pairs))


@given(SEGMENTS)
def test_sums_are_exact_but_for_the_last_digits(
    segments: list[list[tuple[float, float]]],
) -> None:
    flat = [pair for segment in segments for pair in segment]
    x, y = (np.array([pair[i] for pair in flat], np.float64) for i in (0, 1))
    offsets = np.cumsum([0, *map(len, segments)]).astype(np.int64)
    one, two = moments(x, offsets), co_moments(x, y, offsets)
    for i, (begin, end) in enumerate(pairwise(offsets)):
        if begin == end:
            assert not one[i].any()
            assert not two[i].any()
            continue
        a, b = x[begin:end].tolist(), y[begin:end].tolist()
        near = {"rel": 1e-9, "abs": 1e-3}
        assert one[i, 0] == two[i, 0] == pytest.approx(float(sum(map(Fraction, a)) / len(a)))
        assert one[i, 1:3].tolist() == [pytest.approx(exact(a, b, p, 0), **near) for p in (2, 3)]
        assert one[i, 3] == pytest.approx(exact(a, b, 4, 0), rel=1e-7, abs=1e-3)
        products = [(2, 0), (0, 2), (1, 1)]
        assert two[i, 2:].tolist() == [pytest.approx(exact(a, b, *p), **near) for p in products]


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_what_is_not_finite_goes_through(odd: float) -> None:
    values, offsets = np.array([1.0, odd, 2.0]), np.array([0, 2, 3])
    first, second = moments(values, offsets).tolist()
    assert math.isnan(first[1])
    assert second == [2.0, 0.0, 0.0, 0.0]
    assert np.isnan(co_moments(values, values[::-1].copy(), offsets)[0, 2:]).any()


def test_equal_values_have_no_variance() -> None:
    values = np.full(7, 0.1)
    assert moments(values, np.array([0, 3, 7]))[:, 1:].tolist() == [[0.0] * 3] * 2


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="x has 2 values, y has 1"):
        co_moments(np.zeros(2), np.zeros(1), np.array([0, 1]))
    with pytest.raises(ValueError, match="there are 2 values"):
        moments(np.zeros(2), np.array([0, 3]))
