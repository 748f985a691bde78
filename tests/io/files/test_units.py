"""Cutting files: every unit once, in order, in about equal parts."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.io.files import Unit, file_splits

SIZES = st.lists(st.integers(0, 100), max_size=30)


@settings(deadline=None)
@given(sizes=SIZES, n_pieces=st.integers(1, 40))
def test_every_unit_once(sizes, n_pieces):
    splits = file_splits("x", [Unit(n, n * 8) for n in sizes], n_pieces)
    assert sum(split.n_rows for split in splits) == sum(sizes)
    assert sum(split.n_bytes for split in splits) == 8 * sum(sizes)
    assert len(splits) <= max(1, n_pieces)
    if len(splits) == 1 and min(n_pieces, len(sizes)) <= 1:
        assert (splits[0].begin, splits[0].end) == (0, 0)
        return
    edges = [(split.begin, split.end) for split in splits]
    assert edges[0][0] == 0
    assert edges[-1][1] == len(sizes)
    assert all(a[1] == b[0] and a[0] < a[1] for a, b in pairwise(edges))


def test_equal_units_make_equal_parts():
    splits = file_splits("x", [Unit(10, 1)] * 12, 4)
    assert [split.n_rows for split in splits] == [30] * 4
