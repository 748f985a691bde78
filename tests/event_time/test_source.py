"""Splits of one task: their promise, idle ones, alignment, what a restore brings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import ConfigError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.event_time.source import SourceWatermarks, WatermarkAlignment
from fabric.event_time.watermarks import Bounded

SPLITS = st.dictionaries(
    st.sampled_from("abcd"), st.lists(st.integers(0, 100), max_size=20), min_size=1
)


@given(SPLITS, st.data())
def test_no_row_is_behind_the_tasks_watermark_by_what_it_carries(
    splits: dict[str, list[int]], data: st.DataObject
) -> None:
    """Without idle splits the operator's watermark never exceeds w(r) of a row still to come."""
    source, at = SourceWatermarks(splits, Bounded(10)), dict.fromkeys(splits, 0)
    reached = source.watermark
    while left := [split for split in splits if at[split] < len(splits[split])]:
        split = data.draw(st.sampled_from(left))
        size = data.draw(st.integers(1, 5))
        times = np.array(splits[split][at[split] : at[split] + size])
        before = source.watermark
        rows = source.row_watermarks(split, times, None, now_us=0)
        at[split] += size
        assert (rows.watermarks >= before).all()
        assert source.watermark >= reached
        reached = source.watermark
        if at[split] >= len(splits[split]) and data.draw(st.booleans()):
            source.on_end(split)
    for split in splits:
        source.on_end(split)
    assert source.watermark == END_OF_TIME


def test_more_tasks_than_splits() -> None:
    assert SourceWatermarks([]).watermark == IDLE
    assert SourceWatermarks(["a"]).watermark == BEGINNING


def test_a_split_without_rows_holds_until_it_is_idle() -> None:
    source = SourceWatermarks(["a", "b"], Bounded(0), idle_us=100)
    source.on_time(0)
    source.row_watermarks("a", np.array([50]), None, now_us=60)
    source.on_time(99)
    assert source.watermark == BEGINNING
    source.on_time(100)
    assert source.watermark == 50
    source.row_watermarks("a", np.array([], np.int64), None, now_us=159)  # no rows: still quiet
    source.on_time(160)
    assert source.watermark == IDLE
    source.row_watermarks("b", np.array([20]), None, now_us=161)
    assert source.watermark == 50  # back behind the others: the task does not go back
    source.row_watermarks("a", np.array([70]), None, now_us=162)
    source.row_watermarks("b", np.array([60]), None, now_us=163)
    assert source.watermark == 60


def test_without_a_bound_no_split_is_idle() -> None:
    source = SourceWatermarks(["a"])
    source.on_time(0)
    source.on_time(10**15)
    assert source.watermark == BEGINNING


def test_a_split_ahead_waits_and_is_not_idle_meanwhile() -> None:
    source = SourceWatermarks(["a", "b"], Bounded(0), idle_us=100, drift_us=10)
    source.on_time(0)
    source.row_watermarks("a", np.array([50]), None, now_us=0)
    assert source.held_back() == frozenset()
    source.row_watermarks("b", np.array([10]), None, now_us=0)
    assert source.held_back() == {"a"}
    source.on_time(90)
    source.row_watermarks("b", np.array([40]), None, now_us=95)
    assert source.held_back() == frozenset()
    source.on_time(150)
    assert source.watermark == 40
    source.on_time(195)
    assert source.watermark == IDLE


def test_a_split_found_later_joins_and_does_not_set_back() -> None:
    source = SourceWatermarks(["a"], Bounded(0))
    source.row_watermarks("a", np.array([50]), None, now_us=0)
    source.add("b")
    source.add("b")
    assert source.watermark == 50
    source.row_watermarks("a", np.array([90]), None, now_us=0)
    assert source.watermark == 50
    source.row_watermarks("b", np.array([80]), None, now_us=0)
    assert source.watermark == 80


def test_a_restore_takes_its_own_splits_and_goes_on() -> None:
    old = SourceWatermarks(["a", "b"], Bounded(5))
    old.row_watermarks("a", np.array([50]), None, now_us=0)
    old.row_watermarks("b", np.array([70]), None, now_us=0)
    new = SourceWatermarks(["b", "c"], Bounded(5))
    new.restore(old.state())
    assert new.row_watermarks("b", np.array([1]), None, now_us=0).watermarks.tolist() == [65]
    assert new.watermark == BEGINNING
    new.on_end("c")
    assert new.watermark == 65


def test_a_row_after_the_end_of_its_split_changes_nothing() -> None:
    source = SourceWatermarks(["a", "b"], Bounded(0))
    source.on_end("a")
    source.row_watermarks("b", np.array([5]), None, now_us=0)
    source.row_watermarks("a", np.array([1]), None, now_us=0)
    assert source.watermark == 5


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(0, 100)), st.integers(0, 30))
def test_alignment_never_holds_all_back(times: dict[str, int], drift: int) -> None:
    held = WatermarkAlignment(drift).held_back(times)
    assert held == {split for split, time in times.items() if time > min(times.values()) + drift}
    assert not times or len(held) < len(times)


def test_alignment_knows_who_holds_nobody_back_and_who_is_elsewhere() -> None:
    alignment = WatermarkAlignment(10)
    times = {"new": BEGINNING, "idle": IDLE, "ended": END_OF_TIME, "a": 50, "b": 55}
    assert alignment.held_back(times) == frozenset()
    assert alignment.held_back(times, least=41) == {"b"}
    assert alignment.held_back(times, least=IDLE) == frozenset()
    with pytest.raises(ConfigError, match="drift_us must not be negative, got -1"):
        WatermarkAlignment(-1)
