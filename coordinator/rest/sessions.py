"""Who has logged in to the pages.

One job: sessions: random names that a browser keeps as a cookie, and what the token allowed that it
logged in with. They are in this process's memory alone and end with it. The token itself is not
kept and never goes to a browser; its name says nothing, and is of no use to the API or to agents.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from dataclasses import dataclass

from fabric.security.tokens import Claims

SESSION_S = 12 * 3600.0
"""How long a session lasts at most; it ends with its token if that is sooner."""
SESSIONS_MAX, SESSIONS_OF_ONE = 1024, 64
"""So many there are at most, and of one subject; the oldest ends for a new one."""


@dataclass(frozen=True, slots=True)
class _Session:
    claims: Claims
    ends_s: float


class Sessions:
    """The open sessions; times are wall times.

    >>> from fabric.security.tokens import Claims
    >>> sessions = Sessions()
    >>> claims = Claims(scope="read", subject="ann", expires_s=1000.0, token_id="1")
    >>> name, seconds = sessions.open(claims, 400.0)
    >>> seconds, sessions.claims(name, 999.0) == claims, sessions.claims(name, 1000.0)
    (600.0, True, None)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, _Session] = {}  # the oldest first

    def open(self, claims: Claims, now_s: float) -> tuple[str, float]:
        """A new one for whoever showed the token of `claims`: its name, and how long it lasts."""
        name, ends_s = secrets.token_urlsafe(32), min(claims.expires_s, now_s + SESSION_S)
        with self._lock:
            self._open = {n: s for n, s in self._open.items() if now_s < s.ends_s}
            n_of = Counter(s.claims.subject for s in self._open.values())
            crowded = n_of[claims.subject] >= SESSIONS_OF_ONE
            if crowded or len(self._open) >= SESSIONS_MAX:
                found = (
                    n for n, s in self._open.items()
                    if not crowded or s.claims.subject == claims.subject
                )  # fmt: skip
                del self._open[next(found)]
            self._open[name] = _Session(claims, ends_s)
        return name, max(0.0, ends_s - now_s)

    def claims(self, name: str, now_s: float) -> Claims | None:
        """What the session `name` may do; None when there is none."""
        with self._lock:
            session = self._open.get(name)
        return session.claims if session is not None and now_s < session.ends_s else None

    def end(self, name: str) -> None:
        """Log out."""
        with self._lock:
            self._open.pop(name, None)
