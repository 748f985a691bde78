"""The session a frame runs on when it names none: the newest open one, else an embedded one.

One job: keep the open sessions of this process. `fabric.connect` adds one, `Session.close` takes it
away; what is still open when the interpreter ends is closed then.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fabric.errors import PlanError

if TYPE_CHECKING:
    from fabric.clients.session.session import Session

_lock = threading.RLock()
_open: list[Session] = []


def default_session() -> Session:
    """The newest open session; an embedded one is started when there is none."""
    from fabric.clients.session.connect import connect

    with _lock:
        return _open[-1] if _open else connect()


def opened(session: Session) -> None:
    """`session` is the newest now."""
    with _lock:
        if not _open:
            atexit.register(_leave)
        _open.append(session)


def closed(session: Session) -> None:
    """`session` is open no more."""
    with _lock:
        if session in _open:
            _open.remove(session)


def common_session(frames: Iterable[Any]) -> Session | None:
    """The one session that `frames` name, None when they name none; two different are refused."""
    named = {id(frame._session): frame._session for frame in frames if frame._session is not None}
    if len(named) > 1:
        raise PlanError(
            f"these frames belong to different sessions: {', '.join(map(repr, named.values()))}; "
            "write one side with write_dataset and read it in the other session"
        )
    return next(iter(named.values()), None)


def close_all() -> None:
    """Close every session of this process."""
    while True:
        with _lock:
            if not _open:
                return
            session = _open[-1]
        session.close()


def _leave() -> None:
    """The program ends, and who started work and did not wait for it should know."""
    with _lock:
        sessions = list(_open)
    for session in sessions:
        session.leaving()
    close_all()
