"""Whatever order barriers come in, a snapshot holds what came before them, nobody waits long."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.checkpoint.alignment import (
    Alignment,
    Channel,
    DeclineSnapshot,
    Hold,
    Ignore,
    Outcome,
    TakeSnapshot,
)
from fabric.errors import InternalError

A, B, C = (0, 0), (0, 1), (3, 0)


def test_the_last_barrier_takes_the_snapshot() -> None:
    alignment = Alignment([A, B, C])
    assert alignment.on_barrier(A, 1) == [Hold(1)]
    assert alignment.on_barrier(C, 1) == [Hold(1)]
    assert (alignment.is_held(A), alignment.is_held(B), alignment.is_held(C)) == (True, False, True)
    assert alignment.on_item(B, 10) == []
    assert alignment.on_barrier(B, 1) == [TakeSnapshot(1)]
    assert not any(map(alignment.is_held, (A, B, C)))
    assert alignment.current is None


def test_what_has_ended_is_not_waited_for() -> None:
    alignment = Alignment([A, B])
    assert alignment.on_barrier(A, 1) == [Hold(1)]
    assert alignment.on_end(B) == [TakeSnapshot(1)]
    assert alignment.on_barrier(A, 2) == [TakeSnapshot(2)]
    assert alignment.on_barrier(B, 3) == [Ignore(3, "the channel has ended")]
    assert alignment.on_end(A) == []


def test_an_older_or_doubled_barrier_changes_nothing() -> None:
    alignment = Alignment([A, B])
    assert alignment.on_barrier(A, 5) == [Hold(5)]
    assert alignment.on_barrier(A, 5) == [Hold(5)]
    assert alignment.on_barrier(B, 4) == [Ignore(4, "a newer checkpoint is under way")]
    assert alignment.on_barrier(B, 5) == [TakeSnapshot(5)]
    assert alignment.on_barrier(B, 5) == [Ignore(5, "the checkpoint is over")]
    assert alignment.ignored.total() == 2


def test_a_newer_checkpoint_ends_one_that_lacks_a_barrier() -> None:
    alignment = Alignment([A, B])
    assert alignment.on_barrier(A, 1) == [Hold(1)]
    reason = "checkpoint 2 began before all its barriers came"
    assert alignment.on_barrier(B, 2) == [DeclineSnapshot(1, reason), Hold(2)]
    assert (alignment.is_held(A), alignment.is_held(B)) == (False, True)
    assert alignment.on_barrier(A, 2) == [TakeSnapshot(2)]


def test_an_aborted_checkpoint_lets_go_and_does_not_come_back() -> None:
    alignment = Alignment([A, B])
    alignment.on_barrier(A, 1)
    assert alignment.on_abort(1) == []
    assert not alignment.is_held(A)
    assert alignment.on_barrier(B, 1) == [Ignore(1, "the checkpoint is over")]
    alignment.on_abort(2)
    assert alignment.on_barrier(A, 2) == [Ignore(2, "the checkpoint was aborted")]
    assert alignment.on_barrier(A, 3) == [Hold(3)]


def test_a_checkpoint_that_holds_too_much_is_given_up() -> None:
    alignment = Alignment([A, B, C], held_bytes_max=100)
    alignment.on_barrier(A, 1)
    assert alignment.on_item(A, 100) == [Hold(1)]
    assert alignment.held_bytes == 100
    reason = "101 bytes wait for the barriers of 2 of 3 channels, more than 100"
    assert alignment.on_item(A, 1) == [DeclineSnapshot(1, reason)]
    assert (alignment.held_bytes, alignment.is_held(A)) == (0, False)
    assert alignment.on_barrier(B, 1) == [Ignore(1, "the checkpoint is over")]


def test_sources_are_a_channel() -> None:
    source = Alignment([B])
    assert source.on_barrier(B, 1) == [TakeSnapshot(1)]
    assert source.on_barrier(B, 1) == [Ignore(1, "the checkpoint is over")]
    source.on_abort(2)
    assert source.on_barrier(B, 2) == [Ignore(2, "the checkpoint was aborted")]
    assert source.on_barrier(B, 3) == [TakeSnapshot(3)]
    assert Alignment([B], restored=7).on_barrier(B, 7) == [Ignore(7, "the checkpoint is over")]
    with pytest.raises(InternalError, match="no channel"):
        source.on_barrier(A, 1)


class Task:
    """Reads channels that are queues, in any order, as an agent does."""

    def __init__(self, queues: dict[Channel, list[int | str]]) -> None:
        self.queues = {channel: deque(items) for channel, items in queues.items()}
        self.alignment = Alignment(queues)
        self.rows: dict[Channel, int] = dict.fromkeys(queues, 0)
        self.last: dict[Channel, set[int]] = {channel: set() for channel in queues}
        self.snapshots: dict[int, dict[Channel, int]] = {}
        self.given_up: list[int] = []
        self.aborted: list[int] = []

    def readable(self) -> list[Channel]:
        """Channels with something, and not held."""
        return [c for c, q in sorted(self.queues.items()) if q and not self.alignment.is_held(c)]

    def read(self, channel: Channel) -> None:
        item = self.queues[channel].popleft()
        if item == "end":
            self.take(self.alignment.on_end(channel))
        elif item == "row":
            assert self.alignment.on_item(channel, 1) == []
            self.rows[channel] += 1
        else:
            assert isinstance(item, int)
            self.last[channel].add(item)
            self.take(self.alignment.on_barrier(channel, item))

    def abort(self, checkpoint: int) -> None:
        self.aborted.append(checkpoint)
        self.take(self.alignment.on_abort(checkpoint))

    def take(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            match outcome:
                case TakeSnapshot(checkpoint=n):
                    assert n not in self.snapshots, "taken twice"
                    assert not self.snapshots or n > max(self.snapshots), "taken out of order"
                    assert n not in self.given_up
                    assert n not in self.aborted
                    self.snapshots[n] = dict(self.rows)
                case DeclineSnapshot(checkpoint=n):
                    self.given_up.append(n)


@st.composite
def channels(draw: st.DrawFn) -> dict[Channel, list[int | str]]:
    """Items by channel: rising barriers, some lost or doubled (a late copy, too), rows, ends."""
    found: dict[Channel, list[int | str]] = {}
    for number in range(draw(st.integers(1, 4))):
        items: list[int | str] = []
        for checkpoint in range(1, draw(st.integers(1, 5)) + 1):
            items += ["row"] * draw(st.integers(0, 2))
            items += [checkpoint] * draw(st.sampled_from((0, 1, 1, 1, 2)))
            if draw(st.integers(0, 5)) == 5:
                items.append(draw(st.integers(1, checkpoint)))
        found[0, number] = [*items, "end"]
    return found


@given(channels(), st.data())
def test_any_interleaving(queues: dict[Channel, list[int | str]], data: st.DataObject) -> None:
    task = Task(queues)
    while any(task.queues.values()):
        readable = task.readable()
        if not readable:  # the barrier it waits for was lost: the coordinator's time is over
            assert task.alignment.current is not None
            task.abort(task.alignment.current)
        elif data.draw(st.integers(0, 9)) == 9:
            task.abort(data.draw(st.integers(1, 6)))
        else:
            task.read(data.draw(st.sampled_from(readable)))
    assert task.alignment.current is None, "every channel has ended, nothing is waited for"
    for checkpoint, rows in task.snapshots.items():
        for channel, items in queues.items():
            if checkpoint in items:  # the barrier came before the end: rows before the first one
                before = items[: items.index(checkpoint)].count("row")
                assert rows[channel] == before
            else:  # it was lost, so the channel had ended
                assert rows[channel] == items.count("row")


@given(st.integers(1, 5), st.integers(1, 5), st.permutations(range(5)))
def test_without_losses_every_checkpoint_is_taken(n: int, last: int, order: list[int]) -> None:
    task = Task({(0, c): [*range(1, last + 1), "end"] for c in range(n)})
    while readable := task.readable():
        task.read(min(readable, key=lambda channel: order[channel[1]]))
    assert sorted(task.snapshots) == list(range(1, last + 1))
    assert not task.given_up
