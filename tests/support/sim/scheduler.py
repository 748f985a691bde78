"""Simulated time: what happens next, and the one source of chance.

One job: `Scheduler`, a queue of steps by time. Two steps of the same time happen in the order in
which they were asked for, so a run depends on the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

Step = Callable[[], None]
STOP_EVERY = 16


class Scheduler:
    """Runs steps one after another; `now` is simulated seconds since the start.

    >>> scheduler, seen = Scheduler(1), []
    >>> scheduler.after(2.0, lambda: seen.append(scheduler.now))
    >>> scheduler.after(1.0, lambda: seen.append(scheduler.now))
    >>> scheduler.run_until(10.0)
    >>> seen, scheduler.now
    ([1.0, 2.0], 10.0)
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = 0.0
        self.n_steps = 0
        self._queue: list[tuple[float, int, Step]] = []
        self._n_asked = 0

    def after(self, delay_s: float, step: Step) -> None:
        """Do `step` once `delay_s` have passed."""
        self._n_asked += 1
        heappush(self._queue, (self.now + delay_s, self._n_asked, step))

    def run_until(self, end_s: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until `end_s`, or until `stop` says so; it is asked now and then."""
        while self._queue and self._queue[0][0] <= end_s:
            self.now, _, step = heappop(self._queue)
            self.n_steps += 1
            step()
            if self.n_steps % STOP_EVERY == 0 and stop():
                return
        self.now = end_s

    def chance(self, probability: float) -> bool:
        """Whether something of that probability happens now."""
        return self.rng.random() < probability
