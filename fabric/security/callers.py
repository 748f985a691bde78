"""Who calls: for events, for the log, and for what belongs to somebody.

One job: `Caller`, which the gates of gRPC, HTTP and Flight make of a token they have checked;
`calling`, which says so for as long as the call is worked on, in its thread or task; `who`, which
asks. `Refusals` has the log say who was refused, without letting a crowd of such calls fill it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from urllib.parse import unquote

from fabric.errors import AuthError
from fabric.security.tokens import Claims, KnownError

PEER_KEY = "fabric-caller-bin"
"""Metadata of an agent's call: whom it calls for."""
TEXT_MAX = 256
REFUSALS_SHOWN, REFUSALS_S = 5, 10.0
"""So many refused calls have a line of their own in so long; the others are counted."""


@dataclass(frozen=True, slots=True)
class Caller:
    """What the token says that was shown, and where the call came from.

    >>> ann = Claims(scope="submit", subject="ann", expires_s=0.0, token_id="1")
    >>> str(Caller(ann, "10.0.0.7:40112"))
    'ann from 10.0.0.7:40112'
    """

    claims: Claims
    peer: str = ""
    asks_for: str = ""
    """Whom an agent says that it asks for; of others it counts for nothing."""

    @property
    def subject(self) -> str:
        """Who wants it."""
        return (self.asks_for if self.claims.is_agent else "") or self.claims.subject

    def __str__(self) -> str:
        by = f" by {self.claims.subject}" if self.subject != self.claims.subject else ""
        shown = f"{self.subject[:TEXT_MAX]}{by}{f' from {self.peer}' if self.peer else ''}"
        return shown[: 2 * TEXT_MAX]


_CURRENT: ContextVar[Caller | None] = ContextVar("caller", default=None)


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """`caller` is who calls, in this thread or task, until the end of the block."""
    token = _CURRENT.set(caller)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def called_by(caller: Caller) -> None:
    """`caller` is who calls, for the rest of this task."""
    _CURRENT.set(caller)


def current() -> Caller | None:
    """Who calls; None in a program of its own, such as an embedded session."""
    return _CURRENT.get()


def who() -> str:
    """Who calls, in words; "" when nobody does."""
    caller = _CURRENT.get()
    return str(caller) if caller is not None else ""


def peer_of(name: str) -> str:
    """A peer as gRPC names it, as host and port.

    >>> peer_of("ipv4:10.0.0.7:40112"), peer_of("ipv6:%5B::1%5D:40112"), peer_of("unix:")
    ('10.0.0.7:40112', '[::1]:40112', 'a Unix socket')
    """
    kind, _, rest = name.partition(":")
    if kind in ("ipv4", "ipv6"):
        return unquote(rest)
    return "a Unix socket" if kind == "unix" else name[:TEXT_MAX]


class Refusals:
    """Writes refused calls to a log: a line each, and the number of those in a crowd."""

    def __init__(
        self, log: Callable[[str, Mapping[str, str | int]], None], within_s: float = REFUSALS_S
    ) -> None:
        self._log, self._within_s = log, within_s
        self._lock = threading.Lock()
        self._n = 0
        self._timer: threading.Timer | None = None

    def add(self, method: str, error: AuthError | str, peer: str) -> None:
        """A call of `method` was refused with `error`; may be called by any thread."""
        with self._lock:
            self._n += 1
            if self._timer is None:
                self._timer = threading.Timer(self._within_s, self.settle)
                self._timer.name, self._timer.daemon = "refused calls", True
                self._timer.start()
            if self._n > REFUSALS_SHOWN:
                return
        why = error.message if isinstance(error, AuthError) else error
        subject = error.subject if isinstance(error, KnownError) else ""
        named = " from ".join(part for part in (subject or "somebody", peer) if part)
        self._log("call refused", {"method": method[:80], "who": named[:TEXT_MAX], "error": why})

    def settle(self) -> None:
        """Write down how many had no line; the next refused call has one again."""
        with self._lock:
            timer, self._timer = self._timer, None
            more, self._n = self._n - REFUSALS_SHOWN, 0
        if timer is not None:
            timer.cancel()
        if more > 0:
            self._log("more calls refused", {"n": more, "within_s": round(self._within_s)})
