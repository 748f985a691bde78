"""TopRows beside sorting each group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.top_rows import TopRows
from tests.support.arrays import examples

SMALL = st.integers(-3, 3)
ENDS = st.sampled_from([-(2**63), 2**63 - 1])
ROWS = st.lists(st.tuples(st.integers(0, 4), SMALL | ENDS), max_size=80)


@examples(1)
@given(ROWS, st.integers(1, 9), st.integers(0, 80))
def test_it_marks_what_sorting_all_so_far_would(
    rows: list[tuple[int, int]], n: int, cut: int
) -> None:
    top = TopRows(n)
    codes = np.array([code for code, _ in rows], np.uint32)
    keys = np.array([key for _, key in rows], np.int64)
    for part, end in ((slice(0, cut), cut), (slice(cut, None), len(rows))):
        mask = top.among(codes[part], keys[part], int(codes[:end].max(initial=0)) + 1)
        for code in range(5):
            own = sorted(keys[:end][codes[:end] == code].tolist(), reverse=True)
            bound = own[n - 1] if len(own) >= n else -(2**63)
            here = codes[part] == code
            assert (mask[here] == (keys[part][here] >= bound)).all()


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([0, 1], "2 codes need as many keys, got 3"),
        ([0, 1, 2], "a code is not from 0 below 2"),
        ([0, 2**32 - 1, 1], "a code is not from 0 below 2"),
    ],
)
def test_what_does_not_fit_is_refused_and_not_seen(codes: list[int], message: str) -> None:
    top = TopRows(1)
    with pytest.raises(ValueError, match=message):
        top.among(np.array(codes, np.uint32), np.full(3, 9), 2)
    assert top.among(np.zeros(1, np.uint32), np.array([-5]), 2).all()


def test_no_rows_wanted_is_refused() -> None:
    with pytest.raises(ValueError, match="not 0"):
        TopRows(0)
