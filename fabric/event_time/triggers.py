"""What a trigger decides: which windows give a result now.

One job: pure decisions over arrays of windows. When a window closes is `windows.py`'s to say.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabric.event_time import BEGINNING
from fabric.plan.event_windows import Trigger

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def shown_after_rows(trigger: Trigger, n_unshown: Ints, ends: Ints | None, reached: int) -> Bools:
    """Which windows give a result because rows came.

    `n_unshown` counts each window's rows that are in no result yet, `ends` where windows have one,
    `reached` is the operator's watermark: one that has ended gives each update at once where the
    trigger says so.

    >>> unshown, ends = np.array([3, 1]), np.array([20, 10])
    >>> shown_after_rows(Trigger(count=3, late="each"), unshown, ends, 15).tolist()
    [True, True]
    """
    shown = np.zeros(len(n_unshown), np.bool_)
    if trigger.count is not None:
        shown |= n_unshown >= trigger.count
    if trigger.late == "each" and ends is not None:
        shown |= (ends <= reached) & (n_unshown > 0)
    return shown


def is_early(trigger: Trigger, told_us: int, now_us: int) -> bool:
    """Whether open windows give what they have, `told_us` being when they last did.

    Early results come at whole multiples of the interval, so that all tasks agree on when.

    >>> trigger = Trigger(early_us=100)
    >>> is_early(trigger, 150, 199), is_early(trigger, 150, 200), is_early(Trigger(), 0, 10**9)
    (False, True, False)
    """
    every = trigger.early_us
    if every is None:
        return False
    return told_us == BEGINNING or now_us // every > told_us // every
