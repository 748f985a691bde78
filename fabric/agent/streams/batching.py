"""How many rows a source hands out at once.

One job: `BatchSize`, pure: as many as its task is through with in `TARGET_S`, so that barriers and
other orders, which are heard between two batches, never wait for long, whatever a row costs.
"""

from __future__ import annotations

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
