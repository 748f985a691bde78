"""A clock that a test moves by hand."""

from __future__ import annotations

from threading import Lock


class ManualClock:
    """Time stands still until `advance`; both clocks move together.

    Examples
    --------
    >>> clock = ManualClock()
    >>> clock.advance(2.5)
    >>> clock.monotonic_s(), clock.wall_s()
    (2.5, 1700000002.5)
    """

    def __init__(self, monotonic_s: float = 0.0, wall_s: float = 1_700_000_000.0) -> None:
        self._lock = Lock()
        self._monotonic_s, self._wall_s = monotonic_s, wall_s

    def monotonic_s(self) -> float:
        """Seconds since the clock was made, if it was made at 0; see `fabric.clock.Clock`.

        >>> ManualClock(monotonic_s=2.0).monotonic_s()
        2.0
        """
        with self._lock:
            return self._monotonic_s

    def wall_s(self) -> float:
        """Seconds since 1970-01-01 UTC; see `fabric.clock.Clock`.

        >>> ManualClock(wall_s=60.0).wall_s()
        60.0
        """
        with self._lock:
            return self._wall_s

    def advance(self, seconds: float) -> None:
        """Move both clocks on; a negative step is a `ValueError`.

        >>> clock = ManualClock()
        >>> clock.advance(0.5)
        >>> clock.monotonic_s()
        0.5
        """
        if seconds < 0:
            raise ValueError(f"a clock can't go back, got {seconds}")
        with self._lock:
            self._monotonic_s += seconds
            self._wall_s += seconds

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator would; `monotonic_s` stays.

        >>> clock = ManualClock(wall_s=60.0)
        >>> clock.jump_wall(-5)
        >>> clock.wall_s(), clock.monotonic_s()
        (55.0, 0.0)
        """
        with self._lock:
            self._wall_s += seconds
