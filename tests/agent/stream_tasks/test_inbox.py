"""An unaligned snapshot and its rows in flight are what came before the barrier of each channel."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric._cython.shuffle.ring.ring import Rows
from fabric.agent.pipes import Item, Mark
from fabric.agent.stream_tasks.channels import Channels, EdgeRows, Inbox, Recording
from fabric.checkpoint.alignment import DeclineSnapshot, SkipAlignment, TakeSnapshot
from fabric.flight.header import Event

N_BARRIERS = 4


def rows(producer: int, value: int) -> Rows:
    return Rows(producer, pa.record_batch({"p": [producer], "v": [value]}))


def barrier(producer: int, checkpoint: int) -> Mark:
    return Mark(producer, Event.BARRIER, checkpoint)


def values(batches: list[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch["v"].to_pylist()]


class Task:
    """Takes snapshots of which rows it had, and of those in flight."""

    def __init__(self, n: int, bytes_max: int = 1 << 30) -> None:
        self.channels = Channels({0: range(n)}, held_bytes_max=1 << 30)
        self.inbox = Inbox(self.channels, bytes_max)
        self.had: dict[int, list[int]] = defaultdict(list)
        self.snapshots: dict[int, dict[int, list[int]]] = {}
        self.unaligned: dict[int, dict[int, list[int]]] = {}
        self.declined: set[int] = set()

    def come(self, *items: Item) -> None:
        self.inbox.add((0, item) for item in items)
        self.end_recording()

    def end_recording(self) -> None:
        if (recording := self.inbox.recorded()) is None:
            return
        snapshot = self.unaligned.pop(recording.checkpoint)
        if recording.failed:
            self.declined.add(recording.checkpoint)
            return
        for (_, producer), batches in recording.rows.items():
            snapshot[producer] = snapshot.get(producer, []) + values(batches)
        self.snapshots[recording.checkpoint] = snapshot

    def work(self) -> None:
        for event in self.channels.items(self.inbox.take()):
            match event:
                case EdgeRows(batch=batch):
                    self.had[batch["p"][0].as_py()] += values([batch])
                case TakeSnapshot(checkpoint=checkpoint):
                    assert checkpoint not in self.snapshots
                    self.snapshots[checkpoint] = {p: list(v) for p, v in self.had.items()}
                case DeclineSnapshot(checkpoint=checkpoint):
                    self.declined.add(checkpoint)

    def abort(self, checkpoint: int) -> None:
        for event in self.channels.aborted(checkpoint):
            assert isinstance(event, EdgeRows)
            self.had[event.batch["p"][0].as_py()] += values([event.batch])
        self.inbox.aborted(checkpoint)
        self.end_recording()

    def skip(self, checkpoint: int) -> None:
        declined, recording = self.inbox.skip_alignment(checkpoint)
        self.declined |= {one.checkpoint for one in declined}
        if recording is not None:
            assert checkpoint not in self.snapshots
            self.inbox.give_up("a newer one")
            self.end_recording()
            self.unaligned[checkpoint] = {p: list(v) for p, v in self.had.items()}
            self.inbox.record(recording)
            self.end_recording()


def channel_items(rng: Random, producer: int) -> list[Item]:
    """Rows, with each barrier where it belongs or missing, and older ones again."""
    items: list[Item] = []
    value = 0
    for checkpoint in range(1, N_BARRIERS + 1):
        for _ in range(rng.randrange(4)):
            items.append(rows(producer, value))
            value += 1
        if rng.randrange(10):  # else it is lost
            items.append(barrier(producer, checkpoint))
        if not rng.randrange(6):
            items.append(barrier(producer, rng.randint(1, checkpoint)))
    return [*items, Mark(producer, Event.END)]


def before(items: list[Item], checkpoint: int) -> list[int]:
    """The rows before the first barrier of a checkpoint, all where there is none."""
    found: list[int] = []
    for item in items:
        if isinstance(item, Rows):
            found += values([item.batch])
        elif item.event is Event.BARRIER and item.value == checkpoint:
            break
    return found


@settings(max_examples=300)
@given(seed=st.integers(0, 1 << 32), n=st.integers(1, 3))
def test_a_snapshot_and_its_rows_in_flight_are_what_came_before(seed: int, n: int) -> None:
    rng = Random(seed)
    queues = [channel_items(rng, p) for p in range(n)]
    left = [list(items) for items in queues]
    task = Task(n)
    while any(left) or task.inbox.waits:
        what = rng.randrange(10)
        if what == 0:
            task.skip(rng.randint(1, N_BARRIERS))
        elif what == 1:
            task.abort(rng.randint(1, N_BARRIERS))
        elif what < 6 or not any(left):
            task.work()
        else:
            producer = rng.choice([p for p in range(n) if left[p]])
            task.come(left[producer].pop(0))
    for producer, items in enumerate(queues):
        assert task.had[producer] == before(items, -1), "a row was lost, doubled or passed"
    assert not task.inbox.records, "all channels have ended, and something is still recorded"
    for checkpoint, snapshot in task.snapshots.items():
        for producer, items in enumerate(queues):
            assert snapshot.get(producer, []) == before(items, checkpoint), (checkpoint, producer)


def test_what_alignment_held_is_not_in_flight_and_comes_first() -> None:
    task = Task(2)
    task.come(rows(0, 0), barrier(0, 1), rows(0, 1))
    task.work()
    assert task.had == {0: [0]}
    task.come(rows(1, 0))
    task.skip(1)
    assert task.inbox.records
    assert task.inbox.take() == []
    task.come(rows(1, 1), rows(0, 2), barrier(1, 1), rows(1, 2))
    assert task.snapshots == {1: {0: [0], 1: [0, 1]}}
    task.work()
    assert task.had == {0: [0, 1, 2], 1: [0, 1, 2]}


def test_too_much_in_flight_declines() -> None:
    task = Task(2, bytes_max=40)
    task.skip(1)
    task.come(rows(0, 0), barrier(0, 1), rows(0, 1), rows(0, 2))
    assert task.declined == {1}
    task.work()
    assert task.had == {0: [0, 1, 2]}
    recording = Recording(3, {(0, 0)}, bytes_max=10)
    recording.on_rows((0, 0), pa.record_batch({"a": [1, 2]}))
    assert recording.failed == (
        "16 bytes arrived before all barriers came (1 missing); the limit is 10 bytes"
    )
    assert (recording.is_over, recording.rows) == (True, {})


def test_a_task_without_channels_is_never_in_flight() -> None:
    inbox = Inbox(Channels({}, has_sources=True), 10)
    declined, recording = inbox.skip_alignment(4)
    assert (declined, recording is not None and recording.is_over) == ([], True)
    assert inbox.skip_alignment(4) == ([], None)
    assert Channels({}, has_sources=True).skip_alignment(2)[0] == [
        SkipAlignment(2, frozenset({(-1, 0)}))
    ]


def test_of_a_large_batch_the_rest_waits_and_is_in_flight() -> None:
    """A slow step is through with some of its rows when the snapshot is taken."""
    task = Task(1)
    task.inbox.add([(0, Rows(0, pa.record_batch({"v": list(range(10))})))])
    (taken,) = task.inbox.take(4)
    assert isinstance(taken[1], Rows)
    assert values([taken[1].batch]) == [0, 1, 2, 3]
    recording = Recording(1, {(0, 0)}, 1 << 20)
    task.inbox.record(recording)
    task.inbox.add([(0, barrier(0, 1))])
    assert values(recording.rows[0, 0]) == list(range(4, 10))
    found = task.inbox.take()
    assert values([item.batch for _, item in found if isinstance(item, Rows)]) == [*range(4, 10)]


def test_a_task_with_much_that_waits_aligns() -> None:
    """Its backlog gets less, where each recording would add to it."""
    task = Task(1, bytes_max=100)
    task.inbox.add([(0, rows(0, value)) for value in range(4)])  # of 16 bytes each
    assert task.inbox.skip_alignment(1) == ([], None)
    task.inbox.take(1)
    _, recording = task.inbox.skip_alignment(1)
    assert recording is not None


def came(value: int) -> Rows:
    return Rows(0, pa.record_batch({"v": [value]}))


def of_edge(channels: Channels, items: list[tuple[int, Item]], edge: int) -> list[int]:
    events = [event for event in channels.items(items) if isinstance(event, EdgeRows)]
    assert {event.edge for event in events} <= {edge}
    return values([event.batch for event in events])


def test_an_edge_that_is_always_aligned_has_no_rows_in_flight() -> None:
    """Its rows up to the barrier are worked on ahead of all others, and those behind it wait."""
    channels = Channels({0: [0], 1: [0]}, held_bytes_max=1 << 20, aligned=[1])
    inbox = Inbox(channels, 1 << 20)
    inbox.add([(0, came(1)), (1, came(10)), (0, came(2))])
    assert inbox.owing == frozenset()  # nobody has asked yet
    assert inbox.skip_alignment(3) == ([], None)
    assert inbox.owing == {1}
    assert of_edge(channels, inbox.take_of(inbox.owing), 1) == [10]
    inbox.add([(1, came(11)), (1, barrier(0, 3)), (1, came(12)), (0, came(3))])
    assert of_edge(channels, inbox.take_of(inbox.owing), 1) == [11]
    assert inbox.owing == frozenset()
    assert inbox.skipped == 3
    declined, recording = inbox.skip_alignment(3)
    assert declined == []
    assert recording is not None
    inbox.record(recording)
    inbox.add([(0, barrier(0, 3)), (0, came(4))])
    assert inbox.recorded() is recording
    assert {channel: values(rows) for channel, rows in recording.rows.items()} == {
        (0, 0): [1, 2, 3]
    }
    events = [event for event in channels.items(inbox.take()) if isinstance(event, EdgeRows)]
    assert values([event.batch for event in events if event.edge == 1]) == [12]
    assert values([event.batch for event in events if event.edge == 0]) == [1, 2, 3, 4]
    assert inbox.skipped == 0


def test_an_aligned_edge_that_ended_owes_nothing_nor_does_one_of_an_aborted_checkpoint() -> None:
    channels = Channels({0: [0], 1: [0]}, held_bytes_max=1 << 20, aligned=[1])
    inbox = Inbox(channels, 1 << 20)
    assert inbox.skip_alignment(3) == ([], None)
    assert list(channels.aborted(3)) == []
    assert inbox.owing == frozenset()
    assert inbox.skip_alignment(inbox.skipped) == ([], None)
    assert inbox.skip_alignment(4) == ([], None)
    assert inbox.owing == {1}
    list(channels.items([(1, Mark(0, Event.END, 0))]))
    assert inbox.owing == frozenset()
    _, recording = inbox.skip_alignment(inbox.skipped)
    assert recording is not None
