"""Splits that run ahead wait for the others, so that less must be kept for windows.

One job: which splits are not to be read now. Pure: watermarks in, names out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fabric.errors import ConfigError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE


@dataclass(frozen=True, slots=True)
class Alignment:
    """No split is read while its watermark is more than `drift_us` ahead of the slowest one.

    Splits that are idle, have ended or have had no row yet hold nobody back: they may never have
    one. The slowest split of all is never held back, so something can always be read.

    >>> sorted(Alignment(10).held_back({"a": 100, "b": 85, "c": 90, "d": IDLE}))
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
