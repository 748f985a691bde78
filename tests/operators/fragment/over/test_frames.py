"""Frames of sorted rows."""

import numpy as np
import pyarrow as pa
import pytest

from fabric.operators.fragment.over.frames import Layout, distances, frames
from fabric.plan.expr import Column, Frame, SortKey

LAYOUT = Layout.of(np.array([1, 2, 3, 4, 1, 2]), np.array([1, 1, 3, 4, 1, 1]))
KEY = SortKey(Column("o"))


def test_partitions_and_peers() -> None:
    assert LAYOUT.begin.tolist() == [0, 0, 0, 0, 4, 4]
    assert LAYOUT.end.tolist() == [4, 4, 4, 4, 6, 6]
    assert LAYOUT.peers_begin.tolist() == [0, 0, 2, 3, 4, 4]
    assert LAYOUT.peers_end.tolist() == [2, 2, 3, 4, 6, 6]


def test_no_rows() -> None:
    nothing = np.array([], np.int64)
    begin, end = frames(Layout.of(nothing, nothing), Frame("rows", -1, 1), True)
    assert len(begin) == len(end) == 0


@pytest.mark.parametrize(
    ("frame", "begin", "end"),
    [
        (None, [0, 0, 0, 0, 4, 4], [2, 2, 3, 4, 6, 6]),
        (Frame("rows", None, None), [0, 0, 0, 0, 4, 4], [4, 4, 4, 4, 6, 6]),
        (Frame("rows", -1, 0), [0, 0, 1, 2, 4, 4], [1, 2, 3, 4, 5, 6]),
        (Frame("rows", 1, 2), [1, 2, 3, 4, 5, 6], [3, 4, 4, 4, 6, 6]),
        (Frame("rows", None, -2), [0, 0, 0, 0, 4, 4], [0, 0, 1, 2, 4, 4]),
        (Frame("rows", -(2**70), 2**70), [0, 0, 0, 0, 4, 4], [4, 4, 4, 4, 6, 6]),
        (Frame("range", 0, None), [0, 0, 2, 3, 4, 4], [4, 4, 4, 4, 6, 6]),
        (Frame("range", 0, 0), [0, 0, 2, 3, 4, 4], [2, 2, 3, 4, 6, 6]),
    ],
)
def test_rows_and_peers(frame: Frame | None, begin: list[int], end: list[int]) -> None:
    found = frames(LAYOUT, frame, True)
    assert [each.tolist() for each in found] == [begin, end]


def test_without_an_order_the_frame_is_the_partition() -> None:
    assert frames(LAYOUT, None, False)[1].tolist() == [4, 4, 4, 4, 6, 6]


def test_distances_up_and_down() -> None:
    up = pa.array([None, None, 1, 3, 5, 5], pa.int64())
    begin, end = distances(LAYOUT, Frame("range", -2, 0), up, KEY)
    assert begin.tolist() == [0, 0, 2, 2, 4, 4]
    assert end.tolist() == [2, 2, 3, 4, 6, 6]
    down = SortKey(Column("o"), descending=True)
    begin, end = distances(
        LAYOUT, Frame("range", -2, -1), pa.array([9.0, 9.0, 7.0, 5.5, float("nan"), 5.0]), down
    )
    assert begin.tolist()[:4] == [0, 0, 0, 2]
    assert end.tolist()[:4] == [0, 0, 2, 3]


@pytest.mark.parametrize(
    ("distance", "begin"),
    [
        (2**63, [1, 2]), (2**64, [2, 2]), (2**63 - 1, [1, 2]), (2**64 - 1, [1, 2]),
        (-(2**63) - 1, [0, 1]), (-(2**64), [0, 0]), (-(2**64) + 1, [0, 0]),
    ],
)  # fmt: skip
def test_distances_that_no_key_has(distance: int, begin: list[int]) -> None:
    layout = Layout.of(np.array([1, 2]), np.array([1, 2]))
    key = pa.array([-(2**63), 2**63 - 1], pa.int64())
    found = distances(layout, Frame("range", distance, None), key, KEY)
    assert [each.tolist() for each in found] == [begin, [2, 2]]
