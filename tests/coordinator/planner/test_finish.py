"""Splits dealt to tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.planner.finish import deal
from fabric.plan.sources import Split


@given(weights=st.lists(st.integers(0, 50), max_size=30), n_tasks=st.integers(1, 8))
def test_every_split_once_in_order_and_fairly(weights: list[int], n_tasks: int) -> None:
    splits = [Split("f", i, i + 1, n_bytes=w) for i, w in enumerate(weights)]
    blocks = deal(splits, n_tasks)
    assert len(blocks) == n_tasks
    assert [split for block in blocks for split in block] == splits
    whole, largest = sum(max(1, w) for w in weights), max([1, *weights])
    for block in blocks:
        assert sum(max(1, s.n_bytes) for s in block) <= whole / n_tasks + largest


def test_equal_splits_are_dealt_evenly() -> None:
    splits = [Split("f", i, i + 1) for i in range(8)]
    assert [len(block) for block in deal(splits, 4)] == [2, 2, 2, 2]
