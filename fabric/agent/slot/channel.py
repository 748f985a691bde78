"""Framed messages between an agent and a slot, with the descriptors of shared memory.

One job: `Channel`: one end of a Unix stream socket. A frame is its length (4 bytes) and a protobuf
message of the one type that may come; whatever else comes is an error, never an object. Backlog for
a frame is the caller's business (`fileno`). Any thread may place and send, one at a time receives.
"""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import Generic, TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError

from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.chunks import Inbox, Outbox
from fabric.errors import InternalError

In = TypeVar("In", sp.ToSlot, sp.FromSlot)
FRAME_BYTES_MAX = 256 << 20
DESCRIPTORS_MAX = 16
"""A message brings at most one; those of several may wait together."""
_LENGTH = 4
_READ = 1 << 16


class ChannelClosedError(Exception):
    """The other side is gone."""


class Channel(Generic[In]):
    """One end: receives messages of `incoming`, sends those of the other type."""

    def __init__(self, end: socket.socket, incoming: type[In]) -> None:
        self._socket = end
        self._lock = Lock()
        """Of the chunks, and of the order in which messages tell of them."""
        self._incoming: type[In] = incoming
        self._bytes = bytearray()
        self._descriptors: deque[int] = deque()
        self._outbox, self._inbox = Outbox(), Inbox()

    def fileno(self) -> int:
        """To wait for a message."""
        return self._socket.fileno()

    @property
    def has_more(self) -> bool:
        """Whether part of a message was received already."""
        return bool(self._bytes)

    def place(self, batch: pa.RecordBatch) -> sp.Placed:
        """Put rows where the next message may name them."""
        with self._lock:
            return self._outbox.place(batch)

    def batch(self, placed: sp.Placed) -> pa.RecordBatch:
        """The rows that a message names; not yet validated."""
        return self._inbox.batch(placed)

    def send(self, message: sp.ToSlot | sp.FromSlot) -> None:
        """Send one message, and what changed in shared memory; `ChannelClosedError` when nobody
        listens."""
        with self._lock:
            descriptors = self._outbox.announce(message.memory)
            message.memory.freed.extend(self._inbox.released())
            body = message.SerializeToString()
            frame = memoryview(len(body).to_bytes(_LENGTH, "little") + body)
            try:
                sent = socket.send_fds(self._socket, [frame], descriptors)
                self._socket.sendall(frame[sent:])
            except OSError as error:
                raise ChannelClosedError from error
            finally:
                for descriptor in descriptors:
                    socket.close(descriptor)

    def receive(self) -> In:
        """The next message; waits for it."""
        size = int.from_bytes(self._exactly(_LENGTH), "little")
        if size > FRAME_BYTES_MAX:
            raise InternalError(f"a message of {size} bytes came, at most {FRAME_BYTES_MAX} do")
        message: In = self._incoming()
        try:
            message.ParseFromString(self._exactly(size))
        except DecodeError as error:
            raise InternalError("what came is not a message") from error
        taken = [self._descriptors.popleft() for _ in message.memory.opened if self._descriptors]
        with self._lock:
            self._inbox.apply(message.memory, taken)
            self._outbox.reuse(message.memory.freed)
        return message

    def hang_up(self) -> None:
        """Neither side hears anything more; whoever waits for the other learns that at once."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, when nobody waits any more; rows that came stay readable."""
        self._socket.close()
        for descriptor in self._descriptors:
            socket.close(descriptor)
        self._descriptors.clear()
        self._outbox.close()
        self._inbox.close()

    def _exactly(self, size: int) -> bytes:
        while len(self._bytes) < size:
            wanted = max(_READ, size - len(self._bytes))
            try:
                data, descriptors, flags, _ = socket.recv_fds(
                    self._socket, wanted, DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC
                )
            except OSError as error:
                raise ChannelClosedError from error
            self._descriptors.extend(descriptors)
            if flags & socket.MSG_CTRUNC:
                raise InternalError("more descriptors came than a message may bring")
            if not data:
                raise ChannelClosedError
            self._bytes += data
        taken = bytes(self._bytes[:size])
        del self._bytes[:size]
        return taken
