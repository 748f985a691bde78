"""The network of namespaces: cuts drop silently one way, both ways or by port; nothing is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.netns import HERE, Network, why_not
from tests.support.wait import wait_until

ECHO = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    line, _ = server.accept()
    while data := line.recv(1 << 16):
        line.sendall(data)
"""
PORT = 7000


@pytest.fixture(scope="module")
def network(allowed: None) -> Iterator[Network]:
    with Network() as made:
        for name in ("a", "b"):
            made.add(name)
        yield made


@pytest.fixture(scope="module", autouse=True)
def allowed() -> None:
    if reason := why_not():
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)


@pytest.fixture
def line(network: Network) -> Iterator[socket.socket]:
    """A connection from the test to a server at "a" that says what it hears."""
    command = [*network.inside("a"), sys.executable, "-c", ECHO, network.address("a"), str(PORT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            with socket.create_connection((network.address("a"), PORT), 5.0) as made:
                yield made
        finally:
            server.kill()
            network.heal()


def answers(line: socket.socket, within_s: float) -> bool:
    line.settimeout(within_s)
    line.sendall(b"x")
    try:
        return line.recv(100) != b""
    except TimeoutError:
        return False


@pytest.mark.parametrize(("source", "target"), [("a", HERE), (HERE, "a")])
def test_a_cut_one_way_is_silent_and_heals(
    network: Network, line: socket.socket, source: str, target: str
) -> None:
    assert answers(line, 5.0)
    network.cut(source, target)
    assert not answers(line, 0.3)
    network.heal()
    assert answers(line, 10.0)


def test_a_cut_of_a_port_leaves_the_others(network: Network, line: socket.socket) -> None:
    network.partition(HERE, "a", PORT + 1)
    assert answers(line, 5.0)
    network.partition(HERE, "a", PORT)
    assert not answers(line, 0.3)
    with pytest.raises(ConnectionRefusedError):  # nobody listens there, and says so
        socket.create_connection((network.address("a"), PORT + 2), 5.0)


def test_places_reach_each_other(network: Network, line: socket.socket) -> None:
    code = f"import socket; socket.create_connection(({network.address('a')!r}, {PORT + 3}), 2)"
    reached = subprocess.run(
        [*network.inside("b"), sys.executable, "-c", code], check=False, capture_output=True
    )
    assert b"ConnectionRefusedError" in reached.stderr


def test_a_slow_line(network: Network, line: socket.socket) -> None:
    network.slow("a", "2mbit")
    begun = time.monotonic()
    line.settimeout(30.0)
    line.sendall(bytes(400_000))
    got = 0
    while got < 400_000:
        got += len(line.recv(1 << 16))
    assert time.monotonic() - begun > 1.0  # 3.2 Mbit each way
    network.heal()
    network.slow("a", "2mbit")  # may be done again


HELD = """
import sys, time
from tests.support.netns import Network
with Network() as network:
    network.add("a")
    print(network.address("a"), flush=True)
    time.sleep(600)
"""


def namespaces() -> set[str]:
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            continue
    return found


def lines() -> set[str]:
    return {name for name in os.listdir("/sys/class/net") if name.startswith("fab")}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_killed_test(number: int) -> None:
    before, cables = namespaces(), lines()
    with subprocess.Popen(
        [sys.executable, "-c", HELD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as test:
        assert test.stdout is not None
        assert test.stdout.readline().startswith(b"10.")
        assert namespaces() - before
        test.send_signal(number)
    wait_until(lambda: namespaces() <= before and lines() <= cables)
