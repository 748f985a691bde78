"""The rows of a stream as they come, in this process.

One job: `rows_of`. The stream's job puts its rows to a small Flight server of this process, which
hands them to whoever iterates. The server is on the loopback and takes puts with a token only; it
starts with the first stream that is looked at and lives as long as the process.

    job ── do_put ──► Receiver ──► Feed (a few batches) ──► for batch in …     close: the job ends
"""

from __future__ import annotations

import atexit
import functools
import hmac
import secrets
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.flight as fl

from fabric.errors import ExternalError, FabricError
from fabric.plan.sources import FlightTarget

if TYPE_CHECKING:
    from fabric.clients.session.job import Job

PATIENCE_S = 25.0
"""How long a reader may hold its stream up; an agent waits a little longer for an answer."""
BATCHES = 8


class Feed:
    """A few batches between the stream and its reader; ends with the job or with its error."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._batches: deque[pa.RecordBatch] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._error: FabricError | None = None

    def put(self, batch: pa.RecordBatch) -> None:
        """Wait for room; `fl.FlightServerError` when nobody reads any more."""
        with self._changed:
            if not self._changed.wait_for(self._has_room, self._patience_s):
                self._end(ExternalError(
                    f"the reader of this stream took nothing for {self._patience_s:.0f} s, so it "
                    "was stopped; a stream that waits for nobody: .write_stream(…)"
                ))  # fmt: skip
            if self._ended:
                raise fl.FlightServerError("nobody reads this stream any more")
            self._batches.append(batch)
            self._changed.notify_all()

    def end(self, error: FabricError | None = None) -> None:
        """No more rows will come; the first call counts."""
        with self._changed:
            self._end(error)

    def take(self) -> Generator[pa.RecordBatch]:
        """Batches until the end, those that lie here then included; then raises what it was."""
        while (batch := self._next()) is not None:
            yield batch
        if self._error is not None:
            raise self._error

    def _next(self) -> pa.RecordBatch | None:
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._ended)
            if not self._batches:
                return None
            self._changed.notify_all()
            return self._batches.popleft()

    def _has_room(self) -> bool:
        return self._ended or len(self._batches) < BATCHES

    def _end(self, error: FabricError | None) -> None:
        if not self._ended:
            self._ended, self._error = True, error
            self._changed.notify_all()


class _Guard(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses every call without the token."""

    def __init__(self, token: str) -> None:
        self._header = f"Bearer {token}"

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        """See pyarrow."""
        given = (headers.get("authorization") or [""])[0]
        if not hmac.compare_digest(given.encode(), self._header.encode()):
            raise fl.FlightUnauthenticatedError("this server takes rows of its own streams only")


class Receiver(fl.FlightServerBase):  # type: ignore[misc]
    """Takes the puts of streams that this process reads."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self._feeds: dict[bytes, Feed] = {}
        super().__init__("grpc+tcp://127.0.0.1:0", middleware={"guard": _Guard(self.token)})

    def open(self, feed: Feed) -> FlightTarget:
        """Where rows for `feed` are put."""
        name = secrets.token_hex(8)
        self._feeds[name.encode()] = feed
        return FlightTarget(f"grpc+tcp://127.0.0.1:{self.port}", ("live", name), self.token)

    def forget(self, target: FlightTarget) -> None:
        """Nobody reads it any more."""
        self._feeds.pop(target.path[-1].encode(), None)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """One task's rows between two checkpoints."""
        feed = self._feeds.get((descriptor.path or [b""])[-1])
        if feed is None:
            raise fl.FlightServerError("nobody reads this stream any more")
        for chunk in reader:
            chunk.data.validate(full=True)
            feed.put(chunk.data)


@functools.cache
def receiver() -> Receiver:
    """The one of this process."""
    server = Receiver()
    atexit.register(server.shutdown)
    return server


def rows_of(
    submit: Callable[[FlightTarget], Job], *, patience_s: float = PATIENCE_S
) -> Generator[pa.RecordBatch]:
    """The rows of the job that `submit` starts, as they come; closing the generator cancels it.

    Raises
    ------
    FabricError
        What the job failed with; `ExternalError` when the reader let it wait for too long.
    """
    feed, server = Feed(patience_s), receiver()
    target = server.open(feed)
    try:
        with submit(target) as job:
            threading.Thread(
                target=_watch, args=(job, feed), daemon=True, name=f"watch {job.id}"
            ).start()
            yield from feed.take()
    finally:
        feed.end()
        server.forget(target)


def _watch(job: Job, feed: Feed) -> None:
    """End `feed` with the job."""
    try:
        job.wait(progress=False)
    except FabricError as error:
        feed.end(error)
    feed.end()
