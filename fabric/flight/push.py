"""Writing a Flight stream behind, with a bound on silence.

One job: `do_put` from a thread of its own, so that a frozen peer never blocks the caller longer
than `idle_s`. At most `_DEPTH` messages wait. `finish` returns what the server acknowledged.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa

from fabric.errors import FabricError, PeerLostError
from fabric.flight.errors import from_flight

_DEPTH = 4


class Outgoing(NamedTuple):
    """One message to send."""

    batch: pa.RecordBatch
    metadata: bytes | None


class Push:
    """One put; `open_stream` returns what `FlightClient.do_put` does: (writer, metadata reader)."""

    def __init__(self, open_stream: Callable[[], Any], *, idle_s: float, agent: str) -> None:
        self._open = open_stream
        self._idle_s, self._agent = idle_s, agent
        self._queue: deque[Outgoing | None] = deque()
        self._changed = threading.Condition()
        self._error: FabricError | None = None
        self._answer: bytes | None = None
        self._abandoned = self._over = False
        threading.Thread(target=self._run, name="fabric-push", daemon=True).start()

    def send(self, batch: pa.RecordBatch, metadata: bytes | None = None) -> None:
        """Queue one message; raises what went wrong with this or an earlier one."""
        self._put(Outgoing(batch, metadata))

    def finish(self) -> bytes:
        """End the stream; the server's last acknowledgement."""
        self._put(None)
        with self._changed:
            self._wait(lambda: self._over)
            return self._answer or b""

    def abandon(self) -> None:
        """Break the stream off; the server must not take it for a whole one."""
        with self._changed:
            self._abandoned = True
            self._queue.clear()
            self._changed.notify_all()

    def _put(self, item: Outgoing | None) -> None:
        with self._changed:
            self._wait(lambda: len(self._queue) < _DEPTH)
            self._queue.append(item)
            self._changed.notify_all()

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Until `ready` or an error, which is raised; holds the lock."""
        in_time = self._changed.wait_for(lambda: self._error or ready(), self._idle_s)
        if self._error is not None:
            raise self._error
        if not in_time:
            self._abandoned = True
            raise PeerLostError(
                f"the agent took nothing for {self._idle_s:g} s; is it still running?",
                agent=self._agent,
            )

    def _run(self) -> None:
        try:
            writer, answers = self._open()
            try:
                while (item := self._next()) is not None:
                    _write(writer, item)
                self._finish(writer, answers)
            except BaseException:
                with suppress(Exception):  # the first error is the one that tells
                    writer.close()
                raise
        except Exception as error:
            with self._changed:
                self._error = from_flight(error.with_traceback(None), agent=self._agent)
                self._changed.notify_all()

    def _next(self) -> Outgoing | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._abandoned)
            if self._abandoned:
                raise PeerLostError("the put was abandoned", agent=self._agent)
            item = self._queue.popleft()
            self._changed.notify_all()
            return item

    def _finish(self, writer: Any, answers: Any) -> None:
        writer.done_writing()
        answer = None
        while (buffer := answers.read()) is not None:
            answer = buffer.to_pybytes()
        writer.close()
        with self._changed:
            self._answer, self._over = answer, True
            self._changed.notify_all()


def _write(writer: Any, item: Outgoing) -> None:
    if item.metadata is None:
        writer.write_batch(item.batch)
    else:
        writer.write_with_metadata(item.batch, item.metadata)
