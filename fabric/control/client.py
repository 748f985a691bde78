"""The control API over gRPC.

`GrpcControl` carries verbs to a coordinator elsewhere and raises `FabricError`s. It may be used
from any thread; at most `CALLS_MAX` calls are under way at a time. When the coordinator goes away,
or is none that leads, calls look for the leader by themselves (`leader.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.message import Message

from fabric.control import control_pb2 as pb
from fabric.control.api import ControlApi, Reply
from fabric.control.leader import Addresses, Search, is_repeatable
from fabric.control.rpc import CALLS_MAX, bearer, close_channel, connected, unary, watch
from fabric.errors import FabricError, PeerLostError
from fabric.security.callers import PEER_KEY, current

CONNECT_S = 3.0
CALL_S = 30.0
PLAN_S = 300.0
"""How long planning may take: the footers of many files are read."""
FIND_S = 30.0
"""How long a leader is looked for once somebody has answered."""
ROUND_S = 1.0
"""How long one of several addresses may take to connect to."""
WATCH_S = 10.0
"""How long one stream of a watch lasts: coordinators say something every second, and a stream that
got stuck on its way is noticed when it ends."""


class GrpcControl(ControlApi):
    """The coordinator at ``host:port``, or the leader of those at ``host:port,host:port``.

    See `ControlApi` for the calls, `open_channel` for TLS. A coordinator that never answered is
    not waited for: one that nobody started is told at once.
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        connect_s: float = CONNECT_S,
        find_s: float = FIND_S,
        watch_s: float = WATCH_S,
        tls_roots: bytes | None = None,
        insecure: bool = False,
    ) -> None:
        """`insecure`: send the token in the clear beyond this machine, too."""
        self.address, self._tls_roots, self._insecure = address, tls_roots, insecure
        self._addresses = Addresses(address)
        self._metadata = bearer(token)
        self._connect_s = connect_s if len(self._addresses) == 1 else min(connect_s, ROUND_S)
        self._find_s, self._watch_s, self._answered = find_s, watch_s, False
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._calls = threading.BoundedSemaphore(CALLS_MAX)
        self._channel: grpc.Channel | None = None

    def __repr__(self) -> str:
        return f"GrpcControl({self.address!r})"

    def call(self, verb: str, request: Message, reply: type[Reply]) -> Reply:
        """The coordinator's reply; a call that failed is made again where that does no harm."""
        within_s = PLAN_S if isinstance(request, pb.SubmitRequest) else CALL_S
        search = self._search(request)
        while True:
            channel = None
            try:
                channel = self._ready()
                with self._calls, _open_channel():
                    ask = unary(channel, verb, reply)
                    found = ask(request, metadata=self._headers(), timeout=within_s)
                self._answered = True
                return found
            except (grpc.RpcError, PeerLostError) as error:
                self._lost(search, channel, error)

    def watch(self, request: pb.JobRequest) -> Iterator[pb.JobStatus]:
        """See `ControlApi.watch`; closing the iterator ends the call.

        It is as many streams as it takes: each begins with how the job is then.
        """
        search = self._search(request)
        while True:
            channel, heard = None, False
            call: Any = None
            try:
                channel = self._ready()
                with _open_channel():
                    call = watch(channel)(request, metadata=self._metadata, timeout=self._watch_s)
                for status in call:
                    self._answered, search, heard = True, self._search(request), True
                    yield status
                return
            except (grpc.RpcError, PeerLostError) as error:
                if not _timed_out(error):
                    self._lost(search, channel, error)
                elif not heard:
                    silent = f"the coordinator at {self._addresses.current} did not answer in time"
                    self._lost(search, channel, PeerLostError(silent))
            finally:
                if call is not None:
                    call.cancel()

    def wait_no_more(self) -> None:
        """From now on, a coordinator that does not answer is told at once."""
        self._answered = False

    def close(self) -> None:
        """Let the connection go; may be called again."""
        with self._lock:
            self._over.set()
            channel, self._channel = self._channel, None
        if channel is not None:
            close_channel(channel)

    def _headers(self) -> tuple[tuple[str, str | bytes], ...]:
        """Our token and, in a call of somebody else's, whom we ask for."""
        caller = current()
        told = () if caller is None else ((PEER_KEY, caller.subject.encode()),)
        return (*self._metadata, *told)

    def _search(self, request: Message) -> Search:
        return Search(
            self._addresses,
            self._find_s,
            known=self._answered,
            repeatable=is_repeatable(request),
            now_s=time.monotonic,
        )

    def _lost(
        self, search: Search, used: grpc.Channel | None, error: grpc.RpcError | FabricError
    ) -> None:
        """Wait for the next try, elsewhere; or raise what the call failed with."""
        try:
            if self._over.is_set():
                raise PeerLostError(f"this connection to {self.address} is closed")
            pause_s = search.next(error)
        except PeerLostError:
            self._answered = False  # the next call need not wait as long again
            raise
        with self._lock:
            channel = self._channel if used is self._channel else None
            if channel is not None:
                self._channel = None
        if channel is not None:
            close_channel(channel)
        self._over.wait(pause_s)

    def _ready(self) -> grpc.Channel:
        """A channel that has been up at least once."""
        with self._lock:
            if self._over.is_set():
                raise PeerLostError(f"this connection to {self.address} is closed")
            if self._channel is None:
                self._channel = connected(
                    self._addresses.current,
                    self._tls_roots,
                    within_s=self._connect_s,
                    hurried=self._answered and len(self._addresses) > 1,
                    insecure=self._insecure,
                )
            return self._channel


@contextmanager
def _open_channel() -> Iterator[None]:
    """A call in here that finds its channel closed, by a thread that lost it first, never left."""
    try:
        yield
    except ValueError as error:  # gRPC's; no `RpcError`
        raise PeerLostError(f"the connection to the coordinator was lost: {error}") from error


def _timed_out(error: BaseException) -> bool:
    return isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
