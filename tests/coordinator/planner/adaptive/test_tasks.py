"""Even ranges: all of it, in order, none empty."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.planner.adaptive.tasks import even, mib


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 12))
def test_ranges_hold_everything_once_and_have_weight(weights: list[int], n: int) -> None:
    found = even(weights, n)
    assert 1 <= len(found) <= n
    assert (found[0][0], found[-1][1]) == (0, len(weights))
    assert all(a[1] == b[0] for a, b in pairwise(found))
    if sum(weights):
        assert all(sum(weights[begin:end]) for begin, end in found)
        most = sum(weights) / n + 2 * max(weights)
        assert all(sum(weights[begin:end]) <= most for begin, end in found)


def test_bytes_for_people() -> None:
    assert [mib(n) for n in (0, 1023, 1024, 3 << 19, 5 << 30)] == [
        "0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "5,120.0 MiB",
    ]  # fmt: skip
