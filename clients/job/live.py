"""The rows of a stream as they come, in this process.

One job: `rows_of`. Tasks of this process hand their rows over as they are. Those of agents put them
to a small Flight server of this process; it is on the loopback and takes puts with a token only,
starts with the first stream that is looked at and lives as long as the process.

    embedded task ─────────────────────► Feed (a few batches) ──► for batch in …  close: job ends
    agent's task ── do_put ► Receiver ─► Feed
"""

from __future__ import annotations

import atexit
import functools
import hmac
import secrets
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pyarrow.flight as fl

from fabric.errors import FabricError
from fabric.io.sinks.live import Feed
from fabric.plan.targets import FlightTarget, StreamTarget

if TYPE_CHECKING:
    import pyarrow as pa

    from fabric.clients.job.job import Job

PATIENCE_S = 25.0
"""How long a reader may hold its stream up; an agent waits a little longer for an answer."""


class _Guard(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses every call without the token."""

    def __init__(self, token: str) -> None:
        self._header = f"Bearer {token}"

    def start_call(self, info: fl.CallInfo, headers: dict[str, list[str]]) -> None:
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

    @contextmanager
    def opened(self, feed: Feed) -> Iterator[FlightTarget]:
        """Where rows for `feed` are put, within the block."""
        name = secrets.token_hex(8)
        self._feeds[name.encode()] = feed
        try:
            yield FlightTarget(f"grpc+tcp://127.0.0.1:{self.port}", ("live", name), self.token)
        finally:
            del self._feeds[name.encode()]

    def do_put(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.FlightMetadataWriter,
    ) -> None:
        """One task's rows between two checkpoints."""
        feed = self._feeds.get((descriptor.path or [b""])[-1])
        if feed is None:
            raise fl.FlightServerError("nobody reads this stream any more")
        for chunk in reader:
            chunk.data.validate(full=True)
            try:
                feed.put(chunk.data)
            except FabricError as error:
                raise fl.FlightServerError(error.message) from error


@functools.cache
def receiver() -> Receiver:
    """The one of this process."""
    server = Receiver()
    atexit.register(server.shutdown)
    return server


Opens = Callable[[Feed], AbstractContextManager[StreamTarget]]
"""`Session.live`."""


def rows_of(
    opens: Opens, submit: Callable[[StreamTarget], Job], *, patience_s: float = PATIENCE_S
) -> Generator[pa.RecordBatch]:
    """The rows of the job that `submit` starts, as they come; closing the generator cancels it.

    Raises
    ------
    FabricError
        What the job failed with; `ExternalError` when the reader let it wait for too long.
    """
    feed = Feed(patience_s)
    with opens(feed) as target, submit(target) as job:
        threading.Thread(
            target=_watch, args=(job, feed), daemon=True, name=f"watch {job.id}"
        ).start()
        try:
            yield from feed.take()
        finally:
            feed.end()  # a task that waits for room would hold up the end of its job


def _watch(job: Job, feed: Feed) -> None:
    """End `feed` with the job."""
    try:
        job.wait(progress=False)
    except FabricError as error:
        feed.end(error)
    feed.end()
