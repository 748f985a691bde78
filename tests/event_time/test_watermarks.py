"""What rows carry does not depend on batches; custom strategies; what they may not do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import ConfigError, UserError
from fabric.event_time import BEGINNING
from fabric.event_time.watermarks import (
    FUTURE,
    GOOD,
    MISSING,
    Bounded,
    Custom,
    Monotonic,
    SplitWatermark,
    Strategy,
)

TIMES = st.lists(st.integers(-1000, 1000), max_size=30)
CUTS = st.lists(st.integers(1, 6), max_size=30)
EVERY_SEVENTH = Custom(lambda times, greatest: np.where(times % 7 == 0, greatest, BEGINNING))
STRATEGIES = [
    Bounded(20),
    Monotonic(),
    Custom(lambda times, greatest: greatest - 20),
    EVERY_SEVENTH,
]


def run(
    split: SplitWatermark, times: list[int], cuts: list[int]
) -> tuple[list[int], list[int], int]:
    watermarks, kinds, at = [], [], 0
    for size in [*cuts, len(times)]:
        rows = split.row_watermarks(np.array(times[at : at + size], np.int64))
        at += size
        watermarks += rows.watermarks.tolist()
        kinds += rows.kinds.tolist()
        again = SplitWatermark(split._strategy, split._future_us)
        again.restore(split.state())
        split = again
    return watermarks, kinds, split.watermark


@given(TIMES, CUTS, st.sampled_from(STRATEGIES), st.sampled_from([None, 50]))
def test_batches_and_restores_change_nothing(
    times: list[int], cuts: list[int], strategy: Strategy, future: int | None
) -> None:
    whole = run(SplitWatermark(strategy, future), times, [])
    assert run(SplitWatermark(strategy, future), times, cuts) == whole
    watermarks, _, last = whole
    assert watermarks == sorted(watermarks)
    assert not watermarks or watermarks[-1] <= last


@given(TIMES, CUTS)
def test_strategies_that_say_the_same_agree(times: list[int], cuts: list[int]) -> None:
    custom, bounded = STRATEGIES[2], STRATEGIES[0]
    assert run(SplitWatermark(custom), times, cuts) == run(SplitWatermark(bounded), times, [])
    assert run(SplitWatermark(Monotonic()), times, cuts) == run(
        SplitWatermark(Bounded(0)), times, []
    )


def test_a_custom_strategy_by_marks_in_the_stream() -> None:
    split = SplitWatermark(EVERY_SEVENTH)
    rows = split.row_watermarks(np.array([3, 14, 20, 7, 22]))
    assert rows.watermarks.tolist() == [BEGINNING, BEGINNING, 14, 14, 20]
    assert split.watermark == 20


def test_a_custom_strategy_never_runs_ahead_or_back() -> None:
    ahead = SplitWatermark(Custom(lambda times, greatest: greatest + 1000))
    assert ahead.row_watermarks(np.array([5, 6])).watermarks.tolist() == [BEGINNING, 5]
    back = SplitWatermark(Custom(lambda times, greatest: times))
    assert back.row_watermarks(np.array([5, 2, 3])).watermarks.tolist() == [BEGINNING, 5, 5]
    assert back.row_watermarks(np.array([1])).watermarks.tolist() == [5]


def test_a_custom_strategy_sees_no_bad_times() -> None:
    seen = []
    split = SplitWatermark(
        Custom(lambda times, greatest: seen.append(times.tolist()) or greatest), future_us=10
    )
    rows = split.row_watermarks(np.array([5, 0, 99, 6]), np.array([1, 0, 1, 1], np.uint8))
    assert rows.kinds.tolist() == [GOOD, MISSING, FUTURE, GOOD]
    assert seen == [[5, 5, 15, 6]]
    assert rows.n_bad == 2


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda times, greatest: 1 / 0, "failed: ZeroDivisionError: division by zero"),
        (lambda times, greatest: greatest[:1], r"returned int64 of shape \(1,\); return int64"),
        (lambda times, greatest: greatest * 1.0, "returned float64 of shape"),
        (lambda times, greatest: None, "returned object"),
    ],
)
def test_a_custom_strategy_that_fails_moves_nothing(function: object, message: str) -> None:
    split = SplitWatermark(Custom(function))
    with pytest.raises(UserError, match=message):
        split.row_watermarks(np.array([5, 6]))
    assert split.state() == (BEGINNING, BEGINNING)


def test_a_first_row_is_compared_with_the_clock() -> None:
    split = SplitWatermark(Bounded(0), future_us=10)
    assert split.row_watermarks(np.array([500]), now_us=100).kinds.tolist() == [FUTURE]
    assert split.watermark == BEGINNING
    assert split.row_watermarks(np.array([110]), now_us=100).kinds.tolist() == [GOOD]
    assert split.row_watermarks(np.array([120]), now_us=0).kinds.tolist() == [GOOD]


def test_a_real_gap_is_caught_up_with() -> None:
    split = SplitWatermark(Bounded(0), future_us=100)
    kinds = split.row_watermarks(np.array([0, 250, 251, 252, 253])).kinds
    assert kinds.tolist() == [GOOD, FUTURE, FUTURE, GOOD, GOOD]


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(ConfigError, match="bound_us must not be negative, got -1"):
        Bounded(-1)
