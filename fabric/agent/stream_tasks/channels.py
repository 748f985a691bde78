"""What comes into a task over its pipelined edges, with barriers aligned and small batches joined.

`Channels` turns the items of rings into rows, watermarks, ends and barriers in the order in which
the chain may have them. What a channel (edge, producer) brings behind a barrier that others still
owe is kept here, and comes when the snapshot is taken or declined.

`joined`: small batches that lie in the rings already go through the chain as one, for a walk
through it costs the same for one row as for a thousand: a task that falls behind catches up.
`Inbox` is what was taken from the rings and not worked on yet. `Recording`, of one unaligned
checkpoint, has its rows in flight: while it records, the task works on nothing, the rings get
empty, whoever waited for room goes on, and its barrier comes soon.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from fabric._cython.shuffle.ring.ring import Rows
from fabric.agent.pipes import Item
from fabric.checkpoint.alignment import (
    Alignment,
    DeclineSnapshot,
    Hold,
    Ignore,
    Outcome,
    SkipAlignment,
    TakeSnapshot,
)
from fabric.event_time import BEGINNING, END_OF_TIME, least
from fabric.flight.header import Event
from fabric.io.readers.reader import JOINED_ROWS as SMALL_ROWS
from fabric.io.readers.reader import can_join

Channel = tuple[int, int]
"""(edge, producer); the task's own sources are one channel together."""
SOURCES: Channel = (-1, 0)
JOINED_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class EdgeRows:
    """Rows of an edge."""

    edge: int
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class EdgeWatermark:
    """The watermark of an edge."""

    edge: int
    time_us: int


@dataclass(frozen=True, slots=True)
class EdgeEnd:
    """All producers of an edge have ended."""

    edge: int


ChannelEvent = EdgeRows | EdgeWatermark | EdgeEnd | TakeSnapshot | SkipAlignment | DeclineSnapshot
"""What a task does next; of a barrier, what its alignment says."""


class Channels:
    """The channels of one task; `producers` by edge, `has_sources` when it reads some itself.

    Barriers up to checkpoint `restored`, from which the task goes on, are of an earlier life. Those
    of `aligned` edges are waited for in every checkpoint: none of their rows is ever in flight.
    """

    def __init__(
        self,
        producers: Mapping[int, Iterable[int]],
        *,
        has_sources: bool = False,
        held_bytes_max: int = 0,
        restored: int = 0,
        aligned: Iterable[int] = (),
    ) -> None:
        self._aligned = frozenset(aligned)
        self._times = {edge: dict.fromkeys(found, BEGINNING) for edge, found in producers.items()}
        self._edge_times = dict.fromkeys(self._times, BEGINNING)
        channels = [(edge, p) for edge, times in self._times.items() for p in times]
        own = [SOURCES] if has_sources else []
        self._alignment = Alignment([*channels, *own], held_bytes_max, restored=restored)
        self._kept: dict[Channel, deque[Item]] = {channel: deque() for channel in channels}
        self._open = {edge: set(times) for edge, times in self._times.items()}

    @property
    def sources_held(self) -> bool:
        """Whether nothing may be read from the task's own sources at the moment."""
        return self._alignment.is_held(SOURCES)

    @property
    def over(self) -> int:
        """The newest checkpoint that the task is through with: taken, declined or given up."""
        return self._alignment.over

    def item(self, edge: int, item: Item) -> Iterator[ChannelEvent]:
        """Something came over an edge.

        Events go to all partitions of an edge: those of producers that have no rows for this task,
        as on a forward edge, are not for it.
        """
        if (channel := self.channel(edge, item)) is not None:
            yield from self._take(channel, item)

    def channel(self, edge: int, item: Item) -> Channel | None:
        """The channel of an item; None: it is not for this task."""
        return (edge, item.producer) if item.producer in self._times[edge] else None

    def items(self, items: Iterable[tuple[int, Item]]) -> Iterator[ChannelEvent]:
        """Several things came, each over its edge."""
        for edge, item in items:
            yield from self.item(edge, item)

    def trigger(self, checkpoint: int) -> Iterator[ChannelEvent]:
        """The task's own sources have come to a barrier."""
        yield from self._follow(self._alignment.on_barrier(SOURCES, checkpoint))

    def sources_ended(self) -> Iterator[ChannelEvent]:
        """The task's own sources have no more rows: they hold back no barrier."""
        yield from self._follow(self._alignment.on_end(SOURCES))

    def owing(self, checkpoint: int) -> frozenset[int]:
        """Edges that are always aligned and have still to bring barriers of a checkpoint."""
        return frozenset(edge for edge, _ in self._alignment.owing(checkpoint)) & self._aligned

    def skip_alignment(
        self, checkpoint: int
    ) -> tuple[list[SkipAlignment | DeclineSnapshot], list[tuple[int, Item]]]:
        """The coordinator no longer waits for the barriers of a checkpoint.

        What follows, in order, and the items that were kept: they come before what comes next.
        """
        outcomes = self._alignment.skip(checkpoint)
        told = [one for one in outcomes if isinstance(one, SkipAlignment | DeclineSnapshot)]
        freed: list[tuple[int, Item]] = []
        for channel, kept in self._kept.items() if told else ():
            freed += [(channel[0], item) for item in kept]
            kept.clear()
        return told, freed

    def aborted(self, checkpoint: int) -> Iterator[ChannelEvent]:
        """A checkpoint was given up elsewhere."""
        yield from self._follow(self._alignment.on_abort(checkpoint))

    # ---- inside

    def _take(self, channel: Channel, item: Item) -> Iterator[ChannelEvent]:
        if self._alignment.is_held(channel):
            size = item.batch.nbytes if isinstance(item, Rows) else 0
            self._kept[channel].append(item)
            yield from self._follow(self._alignment.on_item(channel, size))
        else:
            yield from self._pass(channel, item)

    def _pass(self, channel: Channel, item: Item) -> Iterator[ChannelEvent]:
        edge, producer = channel
        if isinstance(item, Rows):
            yield EdgeRows(edge, item.batch)
            return
        match item.event:
            case Event.WATERMARK:
                yield from self._time(edge, producer, item.value)
            case Event.BARRIER:
                yield from self._follow(self._alignment.on_barrier(channel, item.value))
            case Event.END:
                self._open[edge].discard(producer)
                yield from self._time(edge, producer, END_OF_TIME)
                if not self._open[edge]:
                    yield EdgeEnd(edge)
                yield from self._follow(self._alignment.on_end(channel))

    def _time(self, edge: int, producer: int, time_us: int) -> Iterator[ChannelEvent]:
        times = self._times[edge]
        times[producer] = time_us
        now = least(times.values())
        if now != self._edge_times[edge] and self._open[edge]:
            self._edge_times[edge] = now
            yield EdgeWatermark(edge, now)

    def _follow(self, outcomes: Iterable[Outcome]) -> Iterator[ChannelEvent]:
        for outcome in outcomes:
            match outcome:
                case TakeSnapshot() | SkipAlignment() | DeclineSnapshot():
                    yield outcome
                case Hold() | Ignore():
                    pass
        yield from self._let_go()

    def _let_go(self) -> Iterator[ChannelEvent]:
        """Pass on what was kept, as far as nothing holds it."""
        for channel, kept in self._kept.items():
            while kept and not self._alignment.is_held(channel):
                yield from self._pass(channel, kept.popleft())


def joined(events: Iterable[ChannelEvent]) -> Iterator[ChannelEvent]:
    """The same events with rows of an edge joined, and of its watermarks the last.

    Barriers and ends stay where they are among the rows. Rows may come before a watermark that was
    sent before them: it promises something of what comes later, and only fires and purges.

    >>> rows = [EdgeRows(1, pa.record_batch({"a": [n]})) for n in range(3)]
    >>> found = list(joined([rows[0], EdgeWatermark(1, 5), rows[1], rows[2], EdgeWatermark(1, 7)]))
    >>> found[0].batch["a"].to_pylist(), found[1:]
    ([0, 1, 2], [EdgeWatermark(edge=1, time_us=7)])
    """
    waiting: dict[int, list[pa.RecordBatch]] = {}
    times: dict[int, int] = {}
    n_rows = 0
    for event in events:
        if isinstance(event, EdgeRows):
            waiting.setdefault(event.edge, []).append(event.batch)
            n_rows += event.batch.num_rows
            if n_rows < JOINED_ROWS:
                continue
        elif isinstance(event, EdgeWatermark):
            times[event.edge] = event.time_us
            continue
        yield from _let_go(waiting, times)
        n_rows = 0
        if not isinstance(event, EdgeRows):
            yield event
    yield from _let_go(waiting, times)


def _let_go(
    waiting: dict[int, list[pa.RecordBatch]], times: dict[int, int]
) -> Iterator[ChannelEvent]:
    for edge, batches in waiting.items():
        for batch in _runs(batches):
            yield EdgeRows(edge, batch)
    yield from (EdgeWatermark(edge, time_us) for edge, time_us in times.items())
    waiting.clear()
    times.clear()


def _runs(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small neighbours as one."""
    if len(batches) == 1 or not can_join(batches[0].schema):
        yield from batches
        return
    run: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows <= SMALL_ROWS:
            run.append(batch)
            continue
        yield from _one(run)
        run = []
        yield batch
    yield from _one(run)


def _one(run: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return run if len(run) < 2 else [pa.concat_batches(run)]


class Recording:
    """Rows in flight of checkpoint `checkpoint`: what `missing` channels bring before its barrier.

    It is over when nothing is missing, or when it has `failed`: more than `bytes_max` bytes came
    meanwhile, a newer checkpoint began, or the coordinator gave it up.
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
                f"{self._n_bytes} bytes arrived before all barriers came ({len(self._missing)} "
                f"missing); the limit is {self._bytes_max} bytes"
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
        self.skipped = 0
        """A checkpoint whose barriers the coordinator no longer waits for; only edges that are
        `owing` keep it from its snapshot."""

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

    @property
    def owing(self) -> frozenset[int]:
        """Edges whose barriers are waited for before `skip_alignment` can take its snapshot."""
        return self._channels.owing(self.skipped) if self.skipped else frozenset()

    def take_of(self, edges: Collection[int]) -> list[tuple[int, Item]]:
        """What is to be worked on of these edges alone, ahead of all others: edges have no order
        among each other."""
        found = [item for item in self._items if item[0] in edges]
        self._items = deque(item for item in self._items if item[0] not in edges)
        return found

    def take(self, n_rows_max: int = JOINED_ROWS) -> list[tuple[int, Item]]:
        """What is to be worked on next: as many rows as go through the chain together."""
        found: list[tuple[int, Item]] = []
        left = n_rows_max
        while self.waits and left > 0:
            edge, item = self._items.popleft()
            if isinstance(item, Rows):
                if item.batch.num_rows > left:
                    self._items.appendleft((edge, Rows(item.producer, item.batch.slice(left))))
                    item = Rows(item.producer, item.batch.slice(0, left))
                left -= item.batch.num_rows
            found.append((edge, item))
        return found

    def skip_alignment(self, checkpoint: int) -> tuple[list[DeclineSnapshot], Recording | None]:
        """The coordinator no longer waits for the barriers of a checkpoint.

        What is to be declined, and with a recording: the snapshot is to be taken now. Nothing is
        recorded yet, see `record`. Where much waits already, from earlier recordings, the task
        aligns instead: each of them takes more out of the rings than is worked on meanwhile. Where
        edges are `owing`, it is called again once they are not.
        """
        self.skipped = checkpoint
        if self.owing:
            return [], None
        self.skipped = 0
        waiting = sum(item.batch.nbytes for _, item in self._items if isinstance(item, Rows))
        if waiting > self._bytes_max // 2:
            return [], None
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
