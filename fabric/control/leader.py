"""How clients and agents find the coordinator that leads.

Only one of several coordinators over one database answers; the others say where the leader is, or
that nobody leads yet. `Addresses` is the list of candidates. `Search` belongs to one call: it says
whether a call that failed is made again, where and when. A call is made again when that can do no
harm: a standby refused it, it never left, or making it twice is the same as once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import grpc

from fabric.config import TLS
from fabric.control import control_pb2 as pb
from fabric.control.rpc import broke_off, from_rpc
from fabric.errors import ConfigError, FabricError, NotLeaderError


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


PAUSE_S = 0.05
PAUSE_S_MAX = 1.0
NowS = Callable[[], float]


class Search:
    """One call's. `known` says that somebody answers there: then it goes on for `find_s`.

    Otherwise each address is tried once, and that a standby refuses shows that somebody is there.
    """

    def __init__(
        self, addresses: Addresses, find_s: float, *, known: bool, repeatable: bool, now_s: NowS
    ) -> None:
        self._addresses, self._find_s, self._known = addresses, find_s, known
        self._repeatable, self._now_s = repeatable, now_s
        self._began_s: float | None = None
        self._n_failed = 0
        self._pause_s = PAUSE_S

    def next(self, error: grpc.RpcError | FabricError) -> float:
        """Seconds until the next try, at the current one of the addresses; or the call's error."""
        failure = error
        if isinstance(error, grpc.RpcError):
            failure = from_rpc(error, self._addresses.current)
            if not isinstance(failure, NotLeaderError) and not (
                self._repeatable and broke_off(error)
            ):
                raise failure from None
        self._known |= isinstance(failure, NotLeaderError)
        if self._is_over():
            raise failure from None
        if isinstance(failure, NotLeaderError):
            self._addresses.follow(failure)
        else:
            self._addresses.next()
        pause_s, self._pause_s = self._pause_s, min(PAUSE_S_MAX, 1.5 * self._pause_s)
        return pause_s

    def _is_over(self) -> bool:
        now_s = self._now_s()
        if self._began_s is None:
            self._began_s = now_s
        self._n_failed += 1
        if self._known:
            return now_s - self._began_s > self._find_s
        return self._n_failed >= len(self._addresses)


def is_repeatable(request: Any) -> bool:
    """Whether a request may be made twice although it should be done once.

    >>> is_repeatable(pb.SubmitRequest(client_key="k")), is_repeatable(pb.SubmitRequest())
    (True, False)
    """
    match request:
        case pb.SubmitRequest():
            return bool(request.client_key)
        case pb.RestartRequest():
            return False
        case pb.DatasetRequest():
            kind = request.WhichOneof("kind")
            return kind != "drop" and (kind != "begin" or bool(request.begin.idempotency_key))
        case _:
            return True
