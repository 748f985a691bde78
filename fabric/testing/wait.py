"""Waiting for other threads and processes in a test: a condition with a deadline, never a guess."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Return as soon as `condition` holds; `AssertionError` when it does not within `timeout_s`.

    >>> wait_until(lambda: True)
    """
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{condition} did not hold within {timeout_s} s")
        time.sleep(0.005)
