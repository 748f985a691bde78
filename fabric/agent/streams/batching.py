"""How many rows go through a chain at once: sizes of sources, and when to take from rings.

`BatchSize`, pure: as many as its task is through with in `TARGET_S`, so that barriers and other
orders, which are heard between two batches, never wait for long, whatever a row costs.
`next_due_s`, pure: when what gathers behind a batch is taken.
"""

from __future__ import annotations

import math

ROWS_MAX = 1 << 16
"""It lies in the cache."""
ROWS_MIN = 256
TARGET_S = 0.1


class BatchSize:
    """Follows what batches take: at once when it is too long, by doubling when it is short.

    >>> size = BatchSize()
    >>> size.took(65_536, 0.8)
    >>> size.rows
    8192
    >>> size.took(8_192, 0.01)
    >>> size.rows
    16384
    """

    def __init__(self) -> None:
        self.rows = ROWS_MAX

    def took(self, n_rows: int, seconds: float) -> None:
        """A batch of so many rows was worked on, waits for room included, for so long."""
        fits = n_rows * TARGET_S / seconds if seconds > 0 else ROWS_MAX
        if fits < self.rows and seconds <= TARGET_S:
            return  # few rows tell little of what many take
        self.rows = int(min(max(fits, ROWS_MIN), 2 * self.rows, ROWS_MAX))


def next_due_s(taken_s: float, gather_s: float) -> float:
    """When to take again what came after `taken_s`: at most `gather_s` later.

    At steps of the clock that all tasks of a host share, a quarter behind those at which sources
    deal out: their rows are there by then, of all producers, and go through the chain together.

    >>> next_due_s(0.101, 0.02), next_due_s(0.104, 0.02), next_due_s(0.106, 0.02)
    (0.105, 0.105, 0.125)
    """
    behind_s = gather_s / 4
    return (math.floor((taken_s - behind_s) / gather_s + 1e-9) + 1) * gather_s + behind_s
