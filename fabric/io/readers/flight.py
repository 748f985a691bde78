"""What clients put into a stream, split by split.

One job: the cursor of a `FlightStream`. A position counts, for each writer with a name, the
messages that were read whole, and says how many rows of the next one are out. After a restore a
writer is told that count and goes on behind it; what of a nameless put was not acknowledged is its
client's to put again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fabric.clock import Clock
from fabric.errors import ConfigError, DataError, PlanError
from fabric.ids import check_name
from fabric.io.readers.protocol import Cursor, Later, SplitsOf
from fabric.io.readers.reader import JOINED_ROWS, StreamReader, can_join, selected
from fabric.plan.sources import FlightStream, Split

if TYPE_CHECKING:
    from fabric.flight.backend import AgentStreams

_LOOK_S = 0.002
_NAMELESS = "#"


def check(source: FlightStream) -> None:
    """Raise `ConfigError` for a name and numbers that mean nothing."""
    check_name(source.name, "stream name")
    if source.acknowledge not in ("received", "checkpoint"):
        raise ConfigError(
            f'acknowledge of a Flight stream is "received" or "checkpoint", got '
            f"{source.acknowledge!r}"
        )
    for name in ("n_splits", "buffer_bytes"):
        if getattr(source, name) < 1:
            raise ConfigError(f"{name} of a Flight stream must be positive")


def stream_schema(source: FlightStream) -> pa.Schema:
    """Raises `PlanError`: the columns are not known before rows are put."""
    raise PlanError(
        f"the columns of Flight stream {source.name!r} can't be known before somebody puts "
        "rows; give them with schema="
    )


def enumerate_splits(source: FlightStream, splits_of: SplitsOf) -> list[Split]:
    """As many splits as `source.n_splits` says."""
    check(source)
    return [Split(f"{source.name}-{index}") for index in range(source.n_splits)]


def open_reader(source: FlightStream, schema: pa.Schema, clock: Clock, *_: object) -> StreamReader:
    """A reader with one cursor per split, over the puts to the agent of this process."""
    from fabric.flight.backend import streams_of  # the coordinator has no agent
    from fabric.io.dataset.access import current

    streams = streams_of(current().agent_id)
    return StreamReader("flight", lambda split: FlightCursor(source, schema, split, streams), clock)


class FlightCursor(Cursor):
    """One split; see `Cursor`. It takes puts from the first `read` on."""

    def __init__(
        self, source: FlightStream, schema: pa.Schema, split: Split, streams: AgentStreams
    ) -> None:
        self._names, self._listens = schema.names, False
        self._streams = streams  # the server's, as long as this lives
        self._queue = streams.puts.open(
            source.name, schema,
            split=int(split.uri.rpartition("-")[2]), n_splits=source.n_splits,
            bytes_max=source.buffer_bytes, at_once=source.acknowledge == "received",
        )  # fmt: skip
        self._counts: dict[str, int] = {}
        self._at_barrier: dict[int, dict[str, int]] = {}
        self._message: tuple[str, int, pa.RecordBatch] | None = None
        self._n_out = self._n_skipped = 0
        """Rows that are out of the message in work, and of the one that will come again."""
        self._skip: tuple[str, int] | None = None

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`; it has no end."""
        if not self._listens:
            self._queue.listen()
            self._listens = True
        pieces: list[pa.RecordBatch] = []
        while rows_max > 0 and (self._message is not None or self._next_message()):
            assert self._message is not None
            if pieces and not self._joins(self._message[2]):
                break
            pieces.append(self._piece(rows_max))
            rows_max -= pieces[-1].num_rows
        if not pieces:
            return Later(max(_LOOK_S, self.gather_s))
        batch = pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
        return selected(batch, self._names)

    def position(self) -> dict[str, Any]:
        """Messages read whole, by writer; the writer of one that was not, and its rows."""
        named = {w: n for w, n in self._counts.items() if not w.startswith(_NAMELESS)}
        position: dict[str, Any] = {"writers": named}
        if self._message is not None and not self._message[0].startswith(_NAMELESS):
            position["partly"] = [*self._message[:2], self._n_out]
        elif self._skip is not None:
            position["partly"] = [*self._skip, self._n_skipped]
        return position

    def seek(self, position: dict[str, Any]) -> None:
        """See `Cursor.seek`."""
        self._counts = {str(w): int(n) for w, n in position["writers"].items()}
        for writer, count in self._counts.items():
            self._queue.seek(writer, count)
        if (partly := position.get("partly")) is not None:
            self._skip, self._n_skipped = (partly[0], partly[1]), partly[2]

    def on_barrier(self, checkpoint: int) -> None:
        """See `Cursor.on_barrier`."""
        self._at_barrier[checkpoint] = dict(self._counts)

    def on_complete(self, checkpoint: int) -> None:
        """Tell the clients what is safe."""
        for writer, count in self._at_barrier.pop(checkpoint, {}).items():
            self._queue.acknowledge(writer, count)
        self._at_barrier = {id: at for id, at in self._at_barrier.items() if id > checkpoint}

    def close(self) -> None:
        """Puts that are open end with an error."""
        self._queue.close()

    def _joins(self, batch: pa.RecordBatch) -> bool:
        """Whether a message goes with those before it: each by itself would cost as much as all."""
        return batch.num_rows <= JOINED_ROWS and can_join(batch.schema)

    def _piece(self, rows_max: int) -> pa.RecordBatch:
        """The next rows of the message in work."""
        assert self._message is not None
        writer, number, batch = self._message
        piece = batch.slice(self._n_out, rows_max)
        self._n_out += piece.num_rows
        if self._n_out >= batch.num_rows:
            self._counts[writer] = number + 1
            self._message, self._n_out = None, 0
        return piece

    def _next_message(self) -> bool:
        self._message = self._queue.take()
        if self._message is None:
            return False
        writer, number, batch = self._message
        if self._skip == (writer, number):
            if batch.num_rows <= self._n_skipped:
                raise DataError(
                    f"writer {writer!r} puts message {number} again with {batch.num_rows} rows; "
                    f"{self._n_skipped} of it were read before, so it had more"
                )
            self._n_out, self._skip = self._n_skipped, None
        return True
