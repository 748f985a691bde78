"""Backlog for other threads and processes in a test: a condition with a deadline, never a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float = 60.0) -> T:
    """What `condition` says as soon as it is true; `AssertionError` when not within `timeout_s`.

    That is no measure of speed: it is long, so that a machine busy with other things is enough.

    >>> wait_until(lambda: 3)
    3
    """
    deadline_s = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{condition} did not hold within {timeout_s} s")
        time.sleep(0.005)
    return found
