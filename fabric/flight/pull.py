"""Reading a Flight stream ahead, with a bound on silence.

One job: an iterator over a stream's messages that never waits longer than `idle_s` for one. Flight
has no timeout per message, and opening a stream can hang too, so a thread of its own opens and
reads, at most `_DEPTH` messages ahead; a stream that falls silent is cancelled and reported.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from fabric.errors import PeerLostError
from fabric.flight.errors import from_flight

_DEPTH = 4


class Message(NamedTuple):
    """One message of a stream."""

    batch: pa.RecordBatch | None
    metadata: bytes | None


def pull(open_stream: Callable[[], Any], *, idle_s: float, agent: str) -> Iterator[Message]:
    """The messages of what `open_stream` opens (a `FlightStreamReader`); close it to stop early.

    Raises
    ------
    FabricError
        What the server said; `PeerLostError` when it was silent for `idle_s` or is gone.
    """
    stream = _Ahead(open_stream)
    try:
        while True:
            item = stream.take(idle_s)
            if item is None:
                raise PeerLostError(
                    f"the agent sent nothing for {idle_s:g} s; is it still running?", agent=agent
                )
            if isinstance(item, StopIteration):
                return
            if isinstance(item, Exception):
                raise from_flight(item, agent=agent) from item
            yield item
    finally:
        stream.close()


class _Ahead:
    """A thread that reads into a short queue."""

    def __init__(self, open_stream: Callable[[], Any]) -> None:
        self._open = open_stream
        self._queue: deque[Message | Exception] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._reader: Any = None
        threading.Thread(target=self._run, name="fabric-pull", daemon=True).start()

    def take(self, timeout_s: float) -> Message | Exception | None:
        """The next message or the error that ended the stream; None when there was none in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._queue, timeout_s):
                return None
            item = self._queue.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Stop reading; the thread ends as soon as the stream notices."""
        with self._changed:
            self._closed = True
            self._queue.clear()
            reader, self._reader = self._reader, None
            self._changed.notify_all()
        if reader is not None:
            reader.cancel()

    def _run(self) -> None:
        try:
            reader = self._open()
            with self._changed:
                if not self._closed:
                    self._reader = reader
                cancelled = self._closed
            if cancelled:
                reader.cancel()
                return
            while self._offer(_message(reader.read_chunk())):
                pass
        except (
            Exception
        ) as error:  # StopIteration is the end; the reader of the queue raises others
            self._finish(error)

    def _offer(self, item: Message) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._queue) < _DEPTH)
            if not self._closed:
                self._queue.append(item)
                self._changed.notify_all()
            return not self._closed

    def _finish(self, error: Exception) -> None:
        with self._changed:
            self._reader = None  # over: nothing to cancel
            if not self._closed:
                self._queue.append(error.with_traceback(None))
                self._changed.notify_all()


def _message(chunk: Any) -> Message:
    metadata = chunk.app_metadata
    return Message(chunk.data, None if metadata is None else metadata.to_pybytes())
