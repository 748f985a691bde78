"""Event time of a task that reads splits: their rows' watermarks, idle ones, and alignment.

One job: `SourceWatermarks`, which brings `SplitWatermark`, `TaskWatermark` and `WatermarkAlignment`
together behind the calls of an operator. Watermark alignment: splits that run ahead wait for the
others, so that less must be kept for windows. Processing time comes in as an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabric.errors import ConfigError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.event_time.watermarks import (
    DEFAULT,
    RowTimes,
    SplitWatermark,
    Strategy,
    TaskWatermark,
    Times,
)

State = Mapping[str, tuple[int, int]]


class SourceWatermarks:
    """How far event time has come in a task's splits.

    Parameters
    ----------
    splits
        All the task will read, known before the first row: one that has sent nothing yet holds the
        watermark back. A task without splits is idle.
    strategy, future_us
        See `SplitWatermark`.
    idle_us
        A split without rows for so long (processing time) is idle: it holds nobody back until its
        next row. None: never. One that is held back for its drift is not idle.
    drift_us
        See `WatermarkAlignment`; None: splits are read as they come.

    Examples
    --------
    >>> from fabric.event_time.watermarks import Bounded
    >>> source = SourceWatermarks(["a", "b"], Bounded(5), idle_us=1_000)
    >>> source.on_time(0)
    >>> _ = source.row_watermarks("a", np.array([100]), None, now_us=10)
    >>> source.on_time(1_005)
    >>> source.watermark
    95
    """

    def __init__(
        self,
        splits: Iterable[str],
        strategy: Strategy = DEFAULT,
        *,
        future_us: int | None = None,
        idle_us: int | None = None,
        drift_us: int | None = None,
    ) -> None:
        self._splits = {split: SplitWatermark(strategy, future_us) for split in splits}
        self._strategy, self._future_us, self._idle_us = strategy, future_us, idle_us
        self._alignment = None if drift_us is None else WatermarkAlignment(drift_us)
        self._task = TaskWatermark(self._splits)
        self._times = {split: each.watermark for split, each in self._splits.items()}
        self._quiet_since: dict[str, int] = {}
        self.slowest_elsewhere_us = END_OF_TIME
        """The watermark of the slowest split that other tasks read, where that is known."""

    @property
    def watermark(self) -> int:
        """The least over the splits that are neither idle nor ended; see `TaskWatermark`."""
        return self._task.current

    def add(self, split: str) -> None:
        """One more split, found while the task runs; one that is known already stays."""
        if split not in self._splits:
            self._splits[split] = SplitWatermark(self._strategy, self._future_us)
            self._task.add(split)
            self._times[split] = self._splits[split].watermark

    def row_watermarks(
        self, split: str, times: Times, valid: NDArray[np.uint8] | None, now_us: int
    ) -> RowTimes:
        """See `SplitWatermark.row_watermarks`; the task's watermark is as after the last row."""
        found = self._splits[split].row_watermarks(times, valid, now_us)
        if len(times):
            self._quiet_since[split] = now_us
            self._say(split, self._splits[split].watermark)
        return found

    def on_time(self, now_us: int) -> None:
        """It is `now_us`: splits that have been quiet for long enough are idle."""
        if self._idle_us is None:
            return
        held = self.held_back()
        for split, time in self._times.items():
            since = self._quiet_since.setdefault(split, now_us)
            if split in held:
                self._quiet_since[split] = now_us
            elif time not in (IDLE, END_OF_TIME) and now_us - since >= self._idle_us:
                self._say(split, IDLE)

    def on_end(self, split: str) -> None:
        """A split has no more rows."""
        self._say(split, END_OF_TIME)

    def held_back(self) -> frozenset[str]:
        """The splits to be left alone until others caught up."""
        if self._alignment is None:
            return frozenset()
        return self._alignment.held_back(self._times, self.slowest_elsewhere_us)

    def slowest(self) -> int | None:
        """The slowest split, for `slowest_elsewhere_us` of other tasks; None without alignment."""
        return None if self._alignment is None else slowest(self._times.values())

    def state(self) -> State:
        """What a snapshot keeps, by split."""
        return {split: each.state() for split, each in self._splits.items()}

    def restore(self, state: State) -> None:
        """Go on from what snapshots kept; splits of other tasks are left out."""
        for split in self._splits.keys() & state.keys():
            self._splits[split].restore((state[split][0], state[split][1]))
            self._say(split, self._splits[split].watermark)

    def _say(self, split: str, time_us: int) -> None:
        if self._times[split] != END_OF_TIME:
            self._times[split] = time_us
            self._task.update(split, time_us)


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """No split is read while its watermark is more than `drift_us` ahead of the slowest one.

    Splits that are idle, have ended or have had no row yet hold nobody back: they may never have
    one. The slowest split of all is never held back, so something can always be read.

    >>> sorted(WatermarkAlignment(10).held_back({"a": 100, "b": 85, "c": 90, "d": IDLE}))
    ['a']
    """

    drift_us: int

    def __post_init__(self) -> None:
        if self.drift_us < 0:
            raise ConfigError(f"drift_us must not be negative, got {self.drift_us}")

    def held_back(self, times: Mapping[str, int], least: int = END_OF_TIME) -> frozenset[str]:
        """The splits of `times` (watermarks by split) to be left alone until others caught up.

        `least` is the watermark of the slowest split elsewhere, where that is known.
        """
        moving = {split: time for split, time in times.items() if _is_moving(time)}
        last = slowest([least, *moving.values()])
        return frozenset(s for s, time in moving.items() if time - self.drift_us > last)


def slowest(times: Iterable[int]) -> int:
    """The least watermark of splits that hold others back; `END_OF_TIME` where none does.

    >>> slowest([85, IDLE, 100]), slowest([IDLE]) == END_OF_TIME
    (85, True)
    """
    return min(filter(_is_moving, times), default=END_OF_TIME)


def _is_moving(time: int) -> bool:
    return time not in (BEGINNING, IDLE, END_OF_TIME)
