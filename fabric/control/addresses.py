"""The coordinators that one may find the leader among.

One job: `Addresses`: where to look next. Only one of several coordinators over one database
answers; the others say where it is, or that nobody leads yet.
"""

from __future__ import annotations

import threading

from fabric.config import TLS
from fabric.errors import ConfigError, NotLeaderError


class Addresses:
    """A list such as ``a:6123,b:6123``; `current` is where the leader was last, or may be.

    >>> addresses = Addresses("a:6123, b:6123")
    >>> addresses.current, addresses.next()
    ('a:6123', 'b:6123')
    """

    def __init__(self, text: str) -> None:
        self._lock = threading.Lock()
        self._known = [part.strip() for part in text.split(",") if part.strip()]
        if not self._known:
            raise ConfigError(f"{text!r} is not a coordinator's address; write host:port,host:port")
        self._current = self._known[0]

    def __str__(self) -> str:
        return ",".join(self._known)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def current(self) -> str:
        """Where to look."""
        with self._lock:
            return self._current

    def next(self) -> str:
        """The leader is not at `current`: the one after that in the list, over and over."""
        with self._lock:
            known, at = self._known, self._current
            self._current = known[(known.index(at) + 1) % len(known)] if at in known else known[0]
            return self._current

    def follow(self, error: NotLeaderError) -> str:
        """Go where a standby says that the leader is; from TLS to TLS only."""
        told = error.leader
        with self._lock:
            same = told.startswith(TLS) == self._current.startswith(TLS)
            if told and told != self._current and (told in self._known or same):
                self._current = told
                return told
        return self.next()
