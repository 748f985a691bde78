"""Who may stay connected to a port, counted from outside: no server of ours, only sockets."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fabric._cython.shuffle.wire.admission import Admission, surge
from tests.support.wait import wait_until

LONG_S = 600.0


class Port:
    """A listening socket that takes everybody in, as gRPC does."""

    def __init__(self, stack: ExitStack, family: int = socket.AF_INET) -> None:
        host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server((host, 0), family=family))
        self.number: int = self._listener.getsockname()[1]

    def guests(self, n: int, source: str = "127.0.0.1") -> list[socket.socket]:
        """`n` new connections, from one address; they are accepted."""
        host = self._listener.getsockname()[0]
        ends = []
        for _ in range(n):
            end = socket.create_connection((host, self.number), 30, (source, 0))
            ends.append(self._stack.enter_context(end))
            self._stack.enter_context(self._listener.accept()[0])
        return ends


def named(end: socket.socket) -> str:
    host, port = end.getsockname()[:2]
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


def ended(ends: list[socket.socket]) -> list[bool]:
    """Of each whether the other side has ended it."""
    poll = select.poll()
    for end in ends:
        poll.register(end, select.POLLRDHUP)
    over = {descriptor for descriptor, _ in poll.poll(0)}
    return [end.fileno() in over for end in ends]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_only_strangers_end(stack: ExitStack, family: int) -> None:
    port = Port(stack, family)
    admission = Admission(port.number, connections_max=4096, handshake_s=0.5)
    stack.callback(admission.stop)
    ends = port.guests(3, "::1" if family == socket.AF_INET6 else "127.0.0.1")
    admission.admit(named(ends[0]))
    admission.admit(named(ends[1]), agent=True)
    wait_until(lambda: ended(ends) == [False, False, True])
    wait_until(lambda: admission.counts == (0, 1, 1, 1))


def test_what_is_known_may_be_told_before_it_is_seen(stack: ExitStack) -> None:
    """An agent that waited for the port calls in the moment in which it is there."""
    port = Port(stack)
    ends = port.guests(2)
    admission = Admission(port.number, connections_max=4096, handshake_s=0.5)
    stack.callback(admission.stop)
    admission.admit(named(ends[0]), agent=True)
    wait_until(lambda: ended(ends) == [False, True])


def test_one_is_a_stranger_again(stack: ExitStack) -> None:
    port = Port(stack)
    admission = Admission(port.number, connections_max=4096, handshake_s=0.5)
    stack.callback(admission.stop)
    ends = port.guests(2)
    for end in ends:
        admission.admit(named(end))
    wait_until(lambda: admission.counts == (0, 2, 0, 0))
    admission.expect(named(ends[1]))
    wait_until(lambda: ended(ends) == [False, True])


def test_the_oldest_strangers_make_room(stack: ExitStack) -> None:
    """One address has half of their places, all of them a quarter of the port's."""
    port = Port(stack)
    admission = Admission(port.number, connections_max=160, handshake_s=LONG_S)
    stack.callback(admission.stop)
    first = port.guests(30)
    wait_until(lambda: sum(ended(first)) == 10)
    assert ended(first) == [True] * 10 + [False] * 20
    second = port.guests(25, "127.0.0.2")
    wait_until(lambda: sum(ended(second)) == 5)
    assert ended(first) == [True] * 10 + [False] * 20  # another address does not push them out
    third = port.guests(1, "127.0.0.3")
    wait_until(lambda: sum(ended(first + second)) == 16)
    assert ended(third) == [False]


def test_the_newest_clients_find_no_room(stack: ExitStack) -> None:
    """One address has a quarter of the port; agents of that address are not counted."""
    port = Port(stack)
    admission = Admission(port.number, connections_max=160, handshake_s=LONG_S)
    stack.callback(admission.stop)
    agents, clients = [], []
    for _ in range(60):
        agents += port.guests(1)
        admission.admit(named(agents[-1]), agent=True)
    for _ in range(40):
        clients += port.guests(1)
        admission.admit(named(clients[-1]))
    wait_until(lambda: admission.counts[1:3] == (40, 60))
    late = port.guests(1)
    admission.admit(named(late[0]))
    wait_until(lambda: ended(late) == [True])
    elsewhere = port.guests(1, "127.0.0.2")
    admission.admit(named(elsewhere[0]))
    wait_until(lambda: admission.counts[1:] == (41, 60, 1))
    assert not any(ended(agents + clients + elsewhere))


def test_nobody_is_ended_after_its_end(stack: ExitStack) -> None:
    port = Port(stack)
    admission = Admission(port.number, connections_max=4096, handshake_s=0.2)
    ends = port.guests(1)
    wait_until(lambda: ended(ends) == [True])
    admission.stop()
    admission.admit(named(ends[0]))
    admission.expect(named(ends[0]))
    assert admission.counts == (0, 0, 0, 0)


def test_a_crowd_fits_before_it_is_noticed() -> None:
    assert surge(4096) > 4096 + 1000
