"""An agent's link over gRPC.

One job: `GrpcLink`: one bidirectional stream, a thread that receives ("link <agent>"), and a
thread that only sends heartbeats ("heartbeat <agent>"), so that no task, however busy, makes the
agent look dead.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from fabric.control import control_pb2 as pb
from fabric.control.leader import Addresses
from fabric.control.link import Beat, OnLost, OnMessage, idle_beat
from fabric.control.rpc import attach, bearer, connected, from_rpc, lost
from fabric.errors import FabricError, InternalError, NotLeaderError, PeerLostError

WELCOME_S = 5.0
GOODBYE_S = 5.0
ROUND_S = 1.0
"""How long one of several addresses may take to connect to."""


class GrpcLink:
    """See `AgentLink`. `token` must have the scope "agent"; `open_channel` tells of TLS."""

    def __init__(
        self, address: str, token: str, *, connect_s: float = 3.0, tls_roots: bytes | None = None
    ) -> None:
        self.address, self._tls_roots = address, tls_roots
        self._addresses = Addresses(address)
        self._metadata = bearer(token)
        self._connect_s = connect_s if len(self._addresses) == 1 else min(connect_s, ROUND_S)
        self._lock = threading.Lock()
        self._current: _Stream | None = None
        self._attached = False

    def open(
        self, hello: pb.Hello, on_message: OnMessage, on_lost: OnLost, beat: Beat = idle_beat
    ) -> None:
        """See `AgentLink.open`."""
        stream, welcome = self._find(hello)
        self._attached = True
        with self._lock:  # before anybody hears the welcome, and answers
            older, self._current = self._current, stream
        stream.start(welcome, on_message, on_lost, beat)
        if older is not None:
            older.close()

    def _find(self, hello: pb.Hello) -> tuple[_Stream, pb.CoordinatorMessage]:
        """A stream to the leader: each address is tried once, and where a standby sends us."""
        for n_left in range(len(self._addresses) - 1, -1, -1):
            try:
                return self._start(self._addresses.current, hello)
            except NotLeaderError as error:
                self._addresses.follow(error)
            except PeerLostError:
                self._addresses.next()
                if not n_left:
                    raise
        return self._start(self._addresses.current, hello)

    def _start(self, address: str, hello: pb.Hello) -> tuple[_Stream, pb.CoordinatorMessage]:
        channel = connected(
            address,
            self._tls_roots,
            within_s=self._connect_s,
            hurried=self._attached and len(self._addresses) > 1,
        )
        try:
            stream = _Stream(channel, self._metadata, address, hello)
            return stream, stream.welcome()
        except BaseException:
            channel.close()
            raise

    def send(self, message: pb.AgentMessage) -> None:
        """See `AgentLink.send`."""
        with self._lock:
            stream = self._current
        if stream is None:
            raise PeerLostError("the link to the coordinator is not open; open it first")
        stream.send(message)

    def close(self) -> None:
        """See `AgentLink.close`."""
        with self._lock:
            stream, self._current = self._current, None
        if stream is not None:
            stream.close()


class _Stream:
    """One attachment, from hello to goodbye or loss."""

    def __init__(self, channel: grpc.Channel, metadata: Any, address: str, hello: pb.Hello) -> None:
        self._channel, self._address, self._hello = channel, address, hello
        self._outbox: queue.SimpleQueue[pb.AgentMessage | None] = queue.SimpleQueue()
        self._outbox.put(pb.AgentMessage(hello=hello))
        self._over = threading.Event()
        self._closing = False
        self._call: Any = attach(channel)(self._messages(), metadata=metadata)
        self._threads: list[threading.Thread] = []

    def welcome(self) -> pb.CoordinatorMessage:
        """Wait for the first message."""
        watchdog = threading.Timer(WELCOME_S, self._call.cancel)
        watchdog.start()
        try:
            first: pb.CoordinatorMessage = next(self._call)
        except grpc.RpcError as error:
            self._stop()
            raise from_rpc(error, self._address) from None
        except StopIteration:
            self._stop()
            raise lost(self._address) from None
        finally:
            watchdog.cancel()
        if first.WhichOneof("kind") != "welcome":
            self._stop()
            raise InternalError(f"the coordinator at {self._address} did not begin with a welcome")
        return first

    def start(
        self, first: pb.CoordinatorMessage, on_message: OnMessage, on_lost: OnLost, beat: Beat
    ) -> None:
        """Go on in threads."""
        period_s = first.welcome.heartbeat_s or 1.0
        agent_id = self._hello.agent_id
        self._threads = [
            threading.Thread(
                target=self._receive,
                args=(first, on_message, on_lost),
                name=f"link {agent_id}",
                daemon=True,
            ),
            threading.Thread(
                target=self._beat, args=(beat, period_s), name=f"heartbeat {agent_id}", daemon=True
            ),
        ]
        for thread in self._threads:
            thread.start()

    def send(self, message: pb.AgentMessage) -> None:
        """Queue a message unless the stream is over."""
        if not self._over.is_set():
            self._outbox.put(message)

    def close(self) -> None:
        """Say goodbye, end our side, wait for the other's end."""
        self._closing = True
        self.send(pb.AgentMessage(goodbye=pb.Goodbye(reason="the agent was stopped")))
        self._outbox.put(None)
        me = threading.current_thread()
        receiver = self._threads[0]
        if receiver is not me:
            receiver.join(GOODBYE_S)
        self._stop()
        for thread in self._threads:
            if thread is not me:
                thread.join(GOODBYE_S)

    def _stop(self) -> None:
        self._over.set()
        self._outbox.put(None)
        self._call.cancel()
        self._channel.close()

    def _messages(self) -> Iterator[pb.AgentMessage]:
        """What gRPC sends, until None."""
        while (message := self._outbox.get()) is not None:
            yield message

    def _receive(
        self, first: pb.CoordinatorMessage, on_message: OnMessage, on_lost: OnLost
    ) -> None:
        error: FabricError = PeerLostError(f"the coordinator at {self._address} ended the link")
        try:
            on_message(first)
            for message in self._call:
                on_message(message)
        except grpc.RpcError as failure:
            error = from_rpc(failure, self._address)
        except Exception as failure:
            error = InternalError(f"the agent could not take a message: {failure!r}")
        self._stop()
        if not self._closing:
            on_lost(error)

    def _beat(self, beat: Beat, period_s: float) -> None:
        while not self._over.wait(period_s):
            self.send(pb.AgentMessage(heartbeat=beat()))
