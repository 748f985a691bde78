"""Messages over a socket: whole, in order, of one type; whatever else comes is an error."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.channel import FRAME_BYTES_MAX, Channel, ChannelClosedError
from fabric.errors import InternalError
from tests.support.arrays import examples
from tests.support.wait import wait_until

BATCH = pa.record_batch({"a": [1, 2, 3]})
Ends = tuple[Channel[sp.FromSlot], Channel[sp.ToSlot]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    agent, slot = Channel(ours, sp.FromSlot), Channel(theirs, sp.ToSlot)
    yield agent, slot
    agent.close()
    slot.close()


def test_rows_go_both_ways_and_their_room_comes_back(ends: Ends) -> None:
    agent, slot = ends
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        agent.send(sp.ToSlot(rows=sp.Rows(batches=[agent.place(BATCH)])))
        asked = slot.receive()
        found = slot.batch(asked.rows.batches[0])
        slot.send(sp.FromSlot(put=sp.Put(batch=slot.place(found))))
        del found
        assert agent.batch(agent.receive().put.batch).equals(BATCH)
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)  # others may have closed some
    assert asked.rows.batches[0].chunk == 1


def test_a_large_message_comes_whole(ends: Ends) -> None:
    agent, slot = ends
    run = sp.ToSlot(run=sp.Run(fragment=os.urandom(5 << 20)))
    sender = threading.Thread(target=agent.send, args=(run,))
    sender.start()
    assert slot.receive().run.fragment == run.run.fragment
    sender.join()


def test_who_is_gone_is_told(ends: Ends) -> None:
    agent, slot = ends
    slot.close()
    with pytest.raises(ChannelClosedError):
        agent.receive()
    with pytest.raises(ChannelClosedError):
        agent.send(sp.ToSlot())


def take_all(agent: Channel[sp.FromSlot]) -> None:
    while True:
        message = agent.receive()
        if message.WhichOneof("kind") == "put":
            agent.batch(message.put.batch)


@given(data=st.binary(max_size=200))
@examples()
def test_no_bytes_are_more_than_an_error(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    agent = Channel(ours, sp.FromSlot)
    with theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises((InternalError, ChannelClosedError)):
            take_all(agent)
    agent.close()


def test_a_frame_without_end_is_refused() -> None:
    ours, theirs = socket.socketpair()
    agent = Channel(ours, sp.FromSlot)
    with theirs:
        theirs.sendall((FRAME_BYTES_MAX + 1).to_bytes(4, "little"))
        with pytest.raises(InternalError, match="bytes came"):
            agent.receive()
    agent.close()


def test_descriptors_that_no_message_names_are_closed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    ours, theirs = socket.socketpair()
    agent = Channel(ours, sp.FromSlot)
    with theirs, open(os.devnull, "rb") as null:
        frame = sp.FromSlot().SerializeToString()
        socket.send_fds(theirs, [len(frame).to_bytes(4, "little") + frame], [null.fileno()] * 3)
        agent.receive()
    agent.close()
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)  # others may have closed some
