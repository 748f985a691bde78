"""top_rows beside sorting each group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.top_rows import top_rows
from fabric.testing.arrays import examples

SMALL = st.integers(-3, 3)
ROWS = st.lists(st.tuples(st.integers(0, 4), SMALL | st.integers(-(2**63), 2**63 - 1)), max_size=80)


@examples(1)
@given(ROWS, st.integers(1, 9))
def test_it_marks_what_sorting_would(rows: list[tuple[int, int]], n: int) -> None:
    codes = np.array([code for code, _ in rows], np.int64)
    keys = np.array([key for _, key in rows], np.int64)
    mask = top_rows(codes, keys, 5, n)
    for code in range(5):
        own = sorted(keys[codes == code].tolist(), reverse=True)
        bound = own[n - 1] if len(own) >= n else -(2**63)
        assert (mask[codes == code] == (keys[codes == code] >= bound)).all()


@pytest.mark.parametrize(
    ("codes", "n_groups", "n", "message"),
    [
        ([0, 1], 2, 1, "2 codes need as many keys, got 3"),
        ([0, 1, 2], 2, 1, "a code is not from 0 below 2"),
        ([0, -1, 1], 2, 1, "a code is not from 0 below 2"),
        ([0, 0, 0], 1, 0, "not 0 of 1"),
        ([0, 0, 0], -1, 1, "not 1 of -1"),
    ],
)
def test_what_does_not_fit_is_refused(
    codes: list[int], n_groups: int, n: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        top_rows(np.array(codes, np.int64), np.zeros(3, np.int64), n_groups, n)
