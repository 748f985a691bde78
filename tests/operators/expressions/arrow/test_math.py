"""The quantiles of Poisson's distribution, beside sums of exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from fabric.operators.expressions.arrow.bound import Request
from fabric.operators.expressions.arrow.math import IMPLEMENTATIONS, poisson

QUANTILES = [0.0, 1e-12, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999999]


def oracle(quantile: float, mean: Fraction) -> int:
    """The least number of which at most so many are more likely than `quantile`."""
    wanted = Fraction(quantile) * Fraction(math.exp(mean))
    term, total, number = Fraction(1), Fraction(1), 0
    while total <= wanted:
        number += 1
        term *= mean / number
        total += term
    return number


@pytest.mark.parametrize("mean", [0.0, 0.001, 0.5, 1.0, 7.25, 60.0])
def test_beside_exact_sums(mean: float) -> None:
    found = poisson(pa.array(QUANTILES), pa.scalar(mean)).to_pylist()
    assert found == [oracle(quantile, Fraction(mean)) for quantile in QUANTILES]


def test_large_means_are_near_the_normal_distribution() -> None:
    mean = 1e8
    counts = poisson(pa.array([0.022750131948, 0.5, 0.977249868052]), pa.scalar(mean)).to_pylist()
    assert [round((count - mean) / math.sqrt(mean), 2) for count in counts] == [-2.0, 0.0, 2.0]


def test_null_and_outside() -> None:
    quantiles = pa.array([None, 0.5, -0.1, 1.0, float("nan"), 0.5, 0.5])
    means = pa.array([1.0, None, 1.0, 1.0, 1.0, -1.0, float("inf")])
    assert poisson(quantiles, means).null_count == 7


def test_random_numbers_differ_by_row_and_call() -> None:
    request = Request("random", (pa.string(), pa.int64()), (None, (1,)), pa.float64())
    draw = IMPLEMENTATIONS["random"](request).kernel
    rows = pa.repeat(pa.scalar("same", pa.string()), 10_000)
    first, second = (draw(rows, pa.scalar(1)).to_numpy() for _ in range(2))
    assert 0 <= first.min() < 0.01
    assert 0.99 < first.max() < 1
    assert len(np.unique(np.concatenate([first, second]))) > 19_990
