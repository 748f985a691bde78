"""Single calls, each timed by itself: the 50th and 99th percentile in microseconds.

The clock's own cost (about 0.05 µs) is in the figures. A case has no peer: rows are calls.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable

import numpy as np

from bench.harness import Answer

CALLS = 1_000
SAMPLES_MAX = 1_000_000


class Latency:
    """Calls `operation` with 0, 1, 2, … `check` gives what the answer's checksum is, or raises."""

    def __init__(self, operation: Callable[[int], object], check: Callable[[], str]) -> None:
        self._operation, self._check = operation, check
        self._next = 0
        self._taken_ns = array("q")

    def work(self) -> object:
        operation, clock, first = self._operation, time.perf_counter_ns, self._next
        taken = array("q", bytes(8 * CALLS))
        for i in range(CALLS):
            start = clock()
            operation(first + i)
            taken[i] = clock() - start
        self._next += CALLS
        if len(self._taken_ns) < SAMPLES_MAX:
            self._taken_ns.extend(taken)
        return None

    def answer(self) -> Answer:
        taken_us = np.frombuffer(self._taken_ns, np.int64)[CALLS:] / 1e3  # the first round warms
        p50, p99 = (round(float(np.percentile(taken_us, p)), 3) for p in (50, 99))
        return Answer(CALLS, self._check(), {"p50_us": p50, "p99_us": p99})

    def close(self) -> None:
        self._operation = lambda i: None
