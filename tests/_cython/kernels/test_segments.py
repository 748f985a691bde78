"""Moments of segments beside exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.segments import (
    N_REGISTERS,
    co_moments,
    merge_registers,
    moments,
    register_codes,
    select_ranks,
)

VALUES = st.floats(-1e3, 1e3).map(lambda value: value + 1e6)
PAIRS = st.lists(st.lists(st.tuples(VALUES, VALUES), max_size=12), max_size=8)


def exact(x: list[float], y: list[float], a: int, b: int) -> float:
    """The sum of products of powers of deviations."""
    mean_x, mean_y = sum(map(Fraction, x)) / len(x), sum(map(Fraction, y)) / len(y)
    pairs = zip(map(Fraction, x), map(Fraction, y), strict=True)
    return float(sum((p - mean_x) ** a * (q - mean_y) ** b for p, q in pairs))


@given(PAIRS)
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


def test_moments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="x has 2 values, y has 1"):
        co_moments(np.zeros(2), np.zeros(1), np.array([0, 1]))
    with pytest.raises(ValueError, match="there are 2 values"):
        moments(np.zeros(2), np.array([0, 3]))


LISTS = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), max_size=12)


@given(LISTS, st.floats(0, 1))
def test_it_picks_what_sorting_would(segments: list[list[int]], share: float) -> None:
    keys = np.array([key for segment in segments for key in segment], np.int64)
    offsets = np.cumsum([0, *map(len, segments)]).astype(np.int64)
    ranks = np.array([int(share * (len(s) - 1)) if s else -1 for s in segments], np.int64)
    before = keys.copy()
    at, after = select_ranks(keys, offsets, ranks)
    assert (keys == before).all()
    for i, (begin, end) in enumerate(pairwise(offsets)):
        ordered = sorted(keys[begin:end].tolist())
        if not ordered:
            assert at[i] == after[i] == 0
            continue
        assert at[i] == ordered[ranks[i]]
        assert after[i] == ordered[min(ranks[i] + 1, len(ordered) - 1)]


@pytest.mark.parametrize(
    ("offsets", "ranks", "message"),
    [
        ([0, 4], [0], "there are 3 values"),
        ([-1, 3], [0], "offsets run from -1"),
        ([0, 2, 1, 3], [0, 0, 0], "offset 2 is smaller"),
        ([0, 3], [0, 0], "1 segments need as many ranks, got 2"),
        ([], [], "at least one entry"),
    ],
)
def test_ranks_that_do_not_fit_are_refused(
    offsets: list[int], ranks: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        select_ranks(np.zeros(3, np.int64), np.array(offsets, np.int64), np.array(ranks, np.int64))


HASHES = st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=30), max_size=8)


def code(value: int) -> int:
    rest = value // N_REGISTERS
    return (value % N_REGISTERS) << 8 | (53 - rest.bit_length() + 1)


@given(HASHES)
def test_each_segment_keeps_the_longest_run_of_each_register(segments: list[list[int]]) -> None:
    flat = np.array([value for segment in segments for value in segment], np.uint64)
    codes = register_codes(flat)
    assert codes.tolist() == [code(int(value)) for value in flat]
    offsets = np.cumsum([0, *map(len, segments)]).astype(np.int64)
    merged, bounds = merge_registers(codes, offsets)
    for segment, (begin, end) in zip(segments, pairwise(bounds), strict=True):
        longest: dict[int, int] = {}
        for one in map(code, segment):
            longest[one >> 8] = max(longest.get(one >> 8, 0), one & 0xFF)
        want = sorted(index << 8 | run for index, run in longest.items())
        assert sorted(merged[begin:end].tolist()) == want
    again, _ = merge_registers(merged, bounds)
    assert sorted(again.tolist()) == sorted(merged.tolist())


def test_registers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="there are 1 values"):
        merge_registers(np.ones(1, np.int32), np.array([0, 2]))
