"""A stream of two stages around `Checkpoints`: sources, and tasks that align their barriers.

Rows and barriers lie in channels between them, each in order; barriers come twice, are lost, or one
of an older checkpoint comes again. Consumers are the sinks. A checkpoint that is restored must be
one cut through all tasks: each has just the rows that sources had put out before it, counted or in
flight. Of some seeds checkpoints are unaligned after a while, or from their beginning.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from fabric._cython.shuffle.ring.ring import Rows
from fabric.agent.pipes import Item, Mark
from fabric.agent.stream_tasks.channels import ChannelEvent, Channels, EdgeEnd, EdgeRows, Inbox
from fabric.checkpoint.alignment import DeclineSnapshot, TakeSnapshot
from fabric.checkpoint.manifest import FINAL, Declined, SinkHandle, SnapshotAck, TaskSnapshot
from fabric.coordinator.core import effects as fx
from fabric.flight.header import Event

from .checkpoint_world import CONFIG, NODE, Task, World

N_SOURCES, N_CONSUMERS = 2, 2


@dataclass
class Consumer(Task):
    """It keeps how many rows of each source it had, and what it will put out."""

    channels: Channels = field(kw_only=True)
    inbox: Inbox = field(kw_only=True)
    counts: dict[str, int] = field(kw_only=True)
    rows: list[tuple[int, int]] = field(default_factory=list)
    inflight: list[tuple[int, int]] = field(default_factory=list)

    def prepare(self, checkpoint: int) -> None:
        if self.rows:
            made = json.dumps([self.attempt, self.rows]).encode()
            self.pending.append(SinkHandle(checkpoint, made))
            self.rows = []

    def ack(self, checkpoint: int) -> SnapshotAck:
        state = ((f"c{self.number}", json.dumps([self.counts, self.inflight]).encode()),)
        snapshot = TaskSnapshot(
            NODE, self.number, self.attempt, range(1), (), state, tuple(self.pending)
        )
        taken = self.channels.over if checkpoint == FINAL else 0
        return SnapshotAck(checkpoint, 0, self.number, self.attempt, self.epoch, (snapshot,), taken)


class Source(Task):
    """Nothing of its own is put out."""

    def prepare(self, checkpoint: int) -> None:
        pass


class BarrierWorld(World):
    """See `World`; tasks from `N_SOURCES` on are consumers."""

    n_sources = N_SOURCES

    def __init__(self, seed: int) -> None:
        self.channels: dict[tuple[int, int], deque[Item]] = {}
        self.config = replace(CONFIG, unaligned_after_s=(0, 4, 60)[seed % 3])
        super().__init__(seed, n_tasks=N_SOURCES + N_CONSUMERS, last=60)

    def step(self) -> None:
        if self.rng.random() < 0.4:
            self.now += self.rng.random()
            self.flow()
        else:
            super().step()

    def keys(self) -> list[tuple[int, int]]:
        return [(0, n) for n in sorted(self.tasks) if n < N_SOURCES]

    def start(self, restore: fx.Restore) -> None:
        """A restored checkpoint is one cut."""
        self.happened["restore"] += 1
        self.attempt += 1
        manifest = restore.manifest
        at = manifest.positions(NODE) if manifest is not None else {}
        taken = manifest.checkpoint if manifest is not None else 0
        positions = [int(at.get(f"s{n}", b"0")) for n in range(N_SOURCES)]
        own = {"attempt": self.attempt, "epoch": self.epoch, "last": self.last, "taken": taken}
        for number, position in enumerate(positions):
            self.tasks[number] = Source(number=number, position=position, **own)
        for number in range(N_SOURCES, self.n_tasks):
            counts, inflight = json.loads(at.get(f"c{number}", b"[{}, []]"))
            for source, position in enumerate(positions):
                expected = [row for row in range(position) if consumer_of(source, row) == number]
                flying = [row for its, row in inflight if its == source]
                had = counts.get(str(source), 0)
                assert expected[had:] == flying, "a checkpoint that is no cut"
            align = Channels(
                {0: range(N_SOURCES)}, has_sources=False, held_bytes_max=1 << 20, restored=taken
            )
            inbox = Inbox(align, 1 << 20)
            inbox.add((0, Rows(source, row_of(source, row))) for source, row in inflight)
            self.happened["restored in flight"] += len(inflight)
            self.tasks[number] = Consumer(
                number=number, position=0, channels=align, inbox=inbox, counts=counts, **own
            )
        self.channels = {
            (s, c): deque() for s in range(N_SOURCES) for c in range(N_SOURCES, self.n_tasks)
        }
        self.prepared = set(self.published)
        self.do(self.core.started(self.runs(), self.keys(), self.now))

    def forget_tasks(self) -> None:
        self.channels = {}
        super().forget_tasks()

    def count(self) -> None:
        """A source puts a row out; at its end it says so."""
        sources = [self.tasks[n] for n in range(N_SOURCES) if n in self.tasks]
        if not sources:
            return
        task = self.rng.choice(sources)
        if task.position < task.last:
            place = (task.number, consumer_of(task.number, task.position))
            row = row_of(task.number, task.position)
            self.channels[place].append(Rows(task.number, row))
            task.position += 1
        elif task.final is None:
            for (source, _), channel in self.channels.items():
                if source == task.number:
                    channel.append(Mark(source, Event.END))
            task.final = task.ack(FINAL)
        for each in self.tasks.values():  # now and then again
            if each.final is not None and self.rng.random() < 0.3:
                self.up.append(each.final)

    def tell(self) -> None:
        if (message := self.message()) is None:
            return
        kind, number, checkpoint, task = message
        if kind == "drain" and task.final is None:
            task.last = task.position
        elif kind == "complete":
            task.pending = [h for h in task.pending if h.checkpoint > checkpoint]
        elif kind == "aborted" and isinstance(task, Consumer):
            task.inbox.aborted(checkpoint)
            self.end_recording(task)
            self.follow(task, task.channels.aborted(checkpoint))
        elif kind == "unaligned" and isinstance(task, Consumer):
            self.skip_alignment(task, checkpoint)
        elif kind in ("trigger", "unaligned") and checkpoint > task.taken and task.final is None:
            task.taken = checkpoint
            self.send_barriers(number, checkpoint)
            self.up.append(task.ack(checkpoint))

    def send_barriers(self, source: int, checkpoint: int) -> None:
        """Behind all rows so far; what the network must not do it does here."""
        for (producer, _), channel in self.channels.items():
            if producer != source:
                continue
            older = max(1, checkpoint - self.rng.randint(1, 4))
            numbers = [checkpoint]
            for what, probability, instead in (
                ("lost", 0.15, []), ("doubled", 0.2, [checkpoint, checkpoint]),
                ("late", 0.2, [older, checkpoint, older]),
            ):  # fmt: skip
                if self.chance(probability):
                    self.happened[f"barrier {what}"] += 1
                    numbers = instead
            channel.extend(Mark(source, Event.BARRIER, number) for number in numbers)

    def flow(self) -> None:
        """A consumer takes the next item of a channel, and perhaps works on what it has."""
        full = [place for place, channel in sorted(self.channels.items()) if channel]
        if full:
            source, number = self.rng.choice(full)
            task = self.tasks[number]
            assert isinstance(task, Consumer)
            task.inbox.add([(0, self.channels[source, number].popleft())])
            self.end_recording(task)
        for task in list(self.tasks.values()):
            if isinstance(task, Consumer) and task.inbox.waits and self.rng.random() < 0.15:
                self.follow(task, task.channels.items(task.inbox.take()))

    def skip_alignment(self, task: Consumer, checkpoint: int) -> None:
        if task.final is not None:
            return
        declined, recording = task.inbox.skip_alignment(checkpoint)
        self.follow(task, iter(declined))
        if recording is None:
            return
        self.happened["unaligned"] += 1
        task.inbox.give_up("a newer checkpoint began")
        self.end_recording(task)
        task.prepare(checkpoint)
        self.prepared |= {h.data for h in task.pending}
        task.inbox.record(recording)
        self.end_recording(task)

    def end_recording(self, task: Consumer) -> None:
        if (recording := task.inbox.recorded()) is None:
            return
        if recording.failed:
            self.follow(task, iter([DeclineSnapshot(recording.checkpoint, recording.failed)]))
            return
        batches = [batch for rows in recording.rows.values() for batch in rows]
        task.inflight = [(b["source"][0].as_py(), b["row"][0].as_py()) for b in batches]
        self.up.append(task.ack(recording.checkpoint))
        task.inflight = []

    def follow(self, task: Consumer, events: Iterator[ChannelEvent]) -> None:
        for event in events:
            self.one(task, event)

    def one(self, task: Consumer, event: ChannelEvent) -> None:
        match event:
            case EdgeRows(batch=batch):
                source, row = batch["source"][0].as_py(), batch["row"][0].as_py()
                task.counts[str(source)] = task.counts.get(str(source), 0) + 1
                task.rows.append((source, row))
            case TakeSnapshot(checkpoint=checkpoint):
                task.prepare(checkpoint)
                self.prepared |= {h.data for h in task.pending}
                self.up.append(task.ack(checkpoint))
            case DeclineSnapshot(checkpoint=n, reason=why):
                self.happened["declined"] += 1
                self.up.append(Declined(n, 0, task.number, task.attempt, task.epoch, why))
            case EdgeEnd():
                task.prepare(FINAL)
                self.prepared |= {h.data for h in task.pending}
                task.final = task.ack(FINAL)

    def out(self) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        for handle in self.published:
            found.update(tuple(row) for row in json.loads(handle)[1])
        return found


def row_of(source: int, row: int) -> pa.RecordBatch:
    return pa.record_batch({"source": [source], "row": [row]})


def consumer_of(source: int, row: int) -> int:
    """Which task has a row."""
    return N_SOURCES + (source * 7 + row * 5) // 3 % N_CONSUMERS
