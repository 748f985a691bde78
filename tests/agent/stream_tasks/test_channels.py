"""What a snapshot sees of each channel: exactly what came before the barrier."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.agent.pipes import Mark, Rows
from fabric.agent.stream_tasks.channels import Channels, EdgeEnd, EdgeRows, EdgeWatermark
from fabric.checkpoint.alignment import DeclineSnapshot, TakeSnapshot
from fabric.event_time import IDLE
from fabric.flight.header import Event

N_BARRIERS = 3


def rows(producer, value):
    return Rows(producer, pa.record_batch({"v": [value]}))


def barrier(producer, checkpoint):
    return Mark(producer, Event.BARRIER, checkpoint)


def end(producer):
    return Mark(producer, Event.END)


def values(events):
    return [event.batch.column(0)[0].as_py() for event in events if isinstance(event, EdgeRows)]


@st.composite
def channel_items(draw, producer):
    """Rows with barriers 1, 2, 3 between them, then perhaps the end before some of the barriers."""
    counts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=N_BARRIERS + 1))
    items, value = [], 0
    for number, n in enumerate(counts):
        if number:
            items.append(barrier(producer, number))
        for _ in range(n):
            items.append(rows(producer, value + 100 * producer))
            value += 1
    return [*items, end(producer)]


@settings(deadline=None)
@given(data=st.data(), n=st.integers(1, 4))
def test_a_snapshot_holds_what_came_before_its_barrier_on_every_channel(data, n):
    queues = [data.draw(channel_items(p)) for p in range(n)]
    expected = {}
    for checkpoint in range(1, N_BARRIERS + 1):
        before = set()
        for items in queues:
            for item in items:
                if isinstance(item, Rows):
                    before.add(item.batch.column(0)[0].as_py())
                elif item == barrier(item.producer, checkpoint):
                    break
        expected[checkpoint] = before
    left = [list(items) for items in queues]
    channels = Channels({0: range(n)}, has_sources=False, held_bytes_max=1 << 30)
    seen, taken, over = [], {}, 0
    while any(left):
        producer = data.draw(st.sampled_from([p for p in range(n) if left[p]]))
        for event in channels.item(0, left[producer].pop(0)):
            seen += values([event])
            if isinstance(event, TakeSnapshot):
                taken[event.checkpoint] = set(seen)
            over += isinstance(event, EdgeEnd)
            assert not isinstance(event, DeclineSnapshot)
    for producer in range(n):
        mine = [v for v in seen if v // 100 == producer]
        assert mine == sorted(mine)
    assert len(seen) == sum(isinstance(i, Rows) for items in queues for i in items)
    assert over == 1
    assert all(taken[checkpoint] == expected[checkpoint] for checkpoint in taken)
    with_all = [
        c for c in expected if any(barrier(p, c) in items for p, items in enumerate(queues))
    ]
    assert sorted(taken) == with_all


def test_a_barrier_that_others_owe_is_given_up_when_too_much_waits():
    channels = Channels({0: [0, 1]}, has_sources=False, held_bytes_max=20)
    assert list(channels.item(0, barrier(0, 1))) == []
    assert list(channels.item(0, rows(0, 1))) == []
    *events, decline = (event for v in (2, 3) for event in channels.item(0, rows(0, v)))
    found = [*events, decline]
    (given_up,) = (event for event in found if isinstance(event, DeclineSnapshot))
    assert given_up.checkpoint == 1
    assert "wait for the barriers of 1 of 2 channels" in given_up.reason
    assert values(found) == [1, 2, 3]
    assert values(channels.item(0, rows(0, 4))) == [4]


def test_an_abort_lets_go_and_a_late_barrier_changes_nothing():
    channels = Channels({0: [0, 1]}, has_sources=False, held_bytes_max=1 << 20)
    assert list(channels.item(0, barrier(0, 1))) == []
    assert list(channels.item(0, rows(0, 7))) == []
    assert values(channels.aborted(1)) == [7]
    assert list(channels.item(0, barrier(1, 1))) == []
    assert values(channels.item(0, rows(0, 8))) == [8]


def test_own_sources_are_a_channel():
    channels = Channels({0: [0]}, has_sources=True, held_bytes_max=1 << 20)
    assert list(channels.trigger(1)) == []
    assert channels.sources_held
    assert list(channels.item(0, barrier(0, 1))) == [TakeSnapshot(1)]
    assert not channels.sources_held
    alone = Channels({}, has_sources=True, held_bytes_max=0)
    assert list(alone.trigger(5)) == [TakeSnapshot(5)]
    assert list(alone.trigger(5)) == []


def test_sources_that_ended_hold_nothing():
    channels = Channels({0: [0]}, has_sources=True, held_bytes_max=1 << 20)
    assert list(channels.item(0, barrier(0, 1))) == []
    assert list(channels.sources_ended()) == [TakeSnapshot(1)]
    assert list(channels.item(0, barrier(0, 2))) == [TakeSnapshot(2)]


def test_the_time_of_an_edge_is_the_least_of_its_producers():
    channels = Channels({3: [0, 1]}, has_sources=False, held_bytes_max=0)

    def time(producer, value):
        return list(channels.item(3, Mark(producer, Event.WATERMARK, value)))

    assert time(0, 50) == []
    assert time(1, 40) == [EdgeWatermark(3, 40)]
    assert time(1, IDLE) == [EdgeWatermark(3, 50)]
    assert time(0, IDLE) == [EdgeWatermark(3, IDLE)]
    assert time(1, 60) == [EdgeWatermark(3, 60)]
    assert list(channels.item(3, end(1))) == [EdgeWatermark(3, IDLE)], (
        "an idle one may still have rows"
    )
    assert list(channels.item(3, end(0))) == [EdgeEnd(3)]


def test_events_of_producers_without_rows_for_the_task_change_nothing():
    """A forward edge: events of all producers come to every partition, rows of one only."""
    channels = Channels({2: [0]}, has_sources=False, held_bytes_max=0)
    for mark in (Mark(1, Event.WATERMARK, 5), barrier(1, 1), end(1)):
        assert list(channels.item(2, mark)) == []
    assert list(channels.item(2, barrier(0, 1))) == [TakeSnapshot(1)]
    assert EdgeEnd(2) in list(channels.item(2, end(0)))
