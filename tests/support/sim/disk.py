"""A simulated disk that loses what was not synced.

One job: `File`, bytes that are appended and synced. After a crash a file ends somewhere between
what was synced and what was written, in the middle of a record as well.
"""

from __future__ import annotations

from random import Random


class File:
    """One file that is only appended to; it outlives the process that writes it."""

    def __init__(self) -> None:
        self.full = self.away = False
        """Whether writes are refused; whether nobody can tell if they were made."""
        self._data = bytearray()
        self._n_synced = 0

    def append(self, data: bytes) -> None:
        """Write; nobody promises that it stays."""
        self._data += data

    def sync(self) -> None:
        """What was written stays."""
        self._n_synced = len(self._data)

    def read(self) -> bytes:
        """Everything, as the process sees it."""
        return bytes(self._data)

    def truncate(self, size: int) -> None:
        """Cut it off, and sync."""
        del self._data[size:]
        self.sync()

    def crash(self, rng: Random) -> None:
        """The machine stops: any part of what was not synced is gone."""
        n_unsynced = len(self._data) - self._n_synced
        if n_unsynced:
            kept = rng.choice((0, rng.randrange(n_unsynced + 1), n_unsynced))
            self.truncate(self._n_synced + kept)
