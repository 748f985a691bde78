"""What a task has taken out of its rings and not worked on yet, and the rows in flight among it.

    rings ──► Inbox: │ item │ item │ item │ ──► Channels ──► chain
                       └── Recording: rows before the barriers that are still owed

One job: `Inbox`, a queue in the order in which items came, and `Recording`, pure, of one unaligned
checkpoint. While something is recorded the task takes from its rings and works on nothing: items
wait here, in order, and each is looked at once on its way in. So the rings get empty, whoever
waited for room goes on, and its barrier comes soon. Afterwards all of it is worked on as if it had
just come; the barriers of that checkpoint are over by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import pyarrow as pa

from fabric._cython.shuffle.ring.ring import Rows
from fabric.agent.pipes import Item
from fabric.agent.stream_tasks.channels import JOINED_ROWS, SOURCES, Channel, Channels
from fabric.checkpoint.alignment import DeclineSnapshot, SkipAlignment
from fabric.flight.header import Event


class Recording:
    """Rows in flight of checkpoint `checkpoint`: what `missing` channels bring before its barrier.

    It is over when nothing is missing, or when it has `failed`: more than `bytes_max` bytes came
    meanwhile, a newer checkpoint began, or the coordinator gave it up.

    >>> recording = Recording(7, {(0, 0), (0, 1)}, bytes_max=1 << 20)
    >>> recording.on_rows((0, 0), pa.record_batch({"a": [1]}))
    >>> recording.on_barrier((0, 0), 7)
    >>> recording.on_rows((0, 0), pa.record_batch({"a": [2]}))
    >>> recording.on_end((0, 1))
    >>> recording.is_over, [batch["a"].to_pylist() for batch in recording.rows[0, 0]]
    (True, [[1]])
    """

    def __init__(self, checkpoint: int, missing: Iterable[Channel], bytes_max: int) -> None:
        self.checkpoint, self._bytes_max = checkpoint, bytes_max
        self._missing = set(missing) - {SOURCES}  # the positions of sources are in the snapshot
        self.rows: dict[Channel, list[pa.RecordBatch]] = {}
        self.failed = ""
        """Why it has no rows."""
        self._n_bytes = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is recorded."""
        return bool(self.failed) or not self._missing

    def on_rows(self, channel: Channel, batch: pa.RecordBatch) -> None:
        """Rows are next on a channel."""
        if self.is_over:
            return
        self._n_bytes += batch.nbytes
        if channel in self._missing:
            self.rows.setdefault(channel, []).append(batch)
        if self._n_bytes > self._bytes_max:
            self.give_up(
                f"{self._n_bytes} bytes came before the barriers of {len(self._missing)} channels, "
                f"more than {self._bytes_max}"
            )

    def on_barrier(self, channel: Channel, checkpoint: int) -> None:
        """A barrier is next on a channel."""
        if checkpoint == self.checkpoint:
            self._missing.discard(channel)
        elif checkpoint > self.checkpoint and not self.is_over:
            self.give_up(f"checkpoint {checkpoint} began before all its barriers came")

    def on_end(self, channel: Channel) -> None:
        """A channel has ended: nobody waits for its barriers any more."""
        self._missing.discard(channel)

    def give_up(self, reason: str) -> None:
        """There will be no snapshot."""
        self.failed = self.failed or reason
        self.rows = {}


class Inbox:
    """The items of `channels` that wait; at most `bytes_max` bytes while something is recorded."""

    def __init__(self, channels: Channels, bytes_max: int) -> None:
        self._channels, self._bytes_max = channels, bytes_max
        self._items: deque[tuple[int, Item]] = deque()
        self._recording: Recording | None = None

    @property
    def records(self) -> bool:
        """Whether items are only recorded at the moment."""
        return self._recording is not None and not self._recording.is_over

    @property
    def waits(self) -> bool:
        """Whether there is something to be worked on."""
        return bool(self._items) and not self.records

    def add(self, items: Iterable[tuple[int, Item]]) -> None:
        """These came, each over its edge."""
        for edge, item in items:
            self._items.append((edge, item))
            self._record(edge, item)

    def take(self, n_rows_max: int = JOINED_ROWS) -> list[tuple[int, Item]]:
        """What is to be worked on next: about as many rows as go through the chain together."""
        found: list[tuple[int, Item]] = []
        n_rows = 0
        while self.waits and n_rows < n_rows_max:
            edge, item = self._items.popleft()
            n_rows += item.batch.num_rows if isinstance(item, Rows) else 0
            found.append((edge, item))
        return found

    def skip_alignment(self, checkpoint: int) -> tuple[list[DeclineSnapshot], Recording | None]:
        """The coordinator no longer waits for the barriers of a checkpoint.

        What is to be declined, and with a recording: the snapshot is to be taken now. Nothing is
        recorded yet, see `record`.
        """
        told, freed = self._channels.skip_alignment(checkpoint)
        self._items.extendleft(reversed(freed))
        recording: Recording | None = None
        for one in told:
            if isinstance(one, SkipAlignment):
                recording = Recording(checkpoint, one.missing, self._bytes_max)
        return [one for one in told if isinstance(one, DeclineSnapshot)], recording

    def record(self, recording: Recording) -> None:
        """From here on, and of what waits already."""
        self.give_up(f"checkpoint {recording.checkpoint} began before all its barriers came")
        self._recording = recording
        for edge, item in self._items:
            self._record(edge, item)

    def recorded(self) -> Recording | None:
        """The recording that has come to its end since the last call."""
        recording = self._recording
        if recording is None or not recording.is_over:
            return None
        self._recording = None
        return recording

    def aborted(self, checkpoint: int) -> None:
        """A checkpoint was given up elsewhere."""
        if self._recording is not None and checkpoint >= self._recording.checkpoint:
            self.give_up("the checkpoint was aborted")

    def give_up(self, reason: str) -> None:
        """Record nothing more."""
        if self._recording is not None and not self._recording.is_over:
            self._recording.give_up(reason)

    def _record(self, edge: int, item: Item) -> None:
        recording = self._recording
        if recording is None or (channel := self._channels.channel(edge, item)) is None:
            return
        if isinstance(item, Rows):
            recording.on_rows(channel, item.batch)
        elif item.event is Event.BARRIER:
            recording.on_barrier(channel, item.value)
        elif item.event is Event.END:
            recording.on_end(channel)
