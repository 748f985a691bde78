"""select_ranks beside sorting each segment."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.rank_select import select_ranks

SEGMENTS = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), max_size=12)


@given(SEGMENTS, st.floats(0, 1))
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
def test_what_does_not_fit_is_refused(offsets: list[int], ranks: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        select_ranks(np.zeros(3, np.int64), np.array(offsets, np.int64), np.array(ranks, np.int64))
