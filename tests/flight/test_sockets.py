"""Unix sockets between agents of one host: the same rows and refusals, TCP when one can't be used.

An address where nobody listens proves the way: only the socket can have answered.
"""

from __future__ import annotations

import os
import socket as sockets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from fabric.control import control_pb2 as pb
from fabric.errors import PeerLostError, StorageError
from fabric.flight import sockets as module
from fabric.flight.remote import FlightTransport
from fabric.flight.sockets import PATH_BYTES_MAX, Neighbours, host_id, new_socket, remove_socket
from fabric.flight.ticket import PartitionRequest
from tests.support.flight_rig import FlightRig

ROWS = pa.table({"k": range(2500), "v": ["x" * (n % 40) for n in range(2500)]})
MESSAGE_BYTES = 1 << 20
NOWHERE = "grpc+tcp://127.0.0.1:1"
REQUEST = PartitionRequest(job="j", edge=0, node_path="n", partition=0, producers=((0, 0),))


@pytest.fixture
def path(rig: FlightRig, tmp_path: Path) -> Iterator[Path]:
    """The socket of agent a0, which has rows."""
    path = new_socket(tmp_path / "agent")
    rig.servers["a0"].listen(path)
    rig.add_edge("j", "n", {("a0", 0, 0): ROWS})
    yield path
    remove_socket(path)


@pytest.fixture
def transport(rig: FlightRig) -> Iterator[FlightTransport]:
    with closing(FlightTransport(rig.signer, agent_id="a2", idle_s=30.0)) as transport:
        yield transport


def rows_at(transport: FlightTransport, address: str) -> pa.Table:
    with closing(transport.open_rows(address, REQUEST)) as rows:
        return pa.Table.from_batches([batch for found in iter(rows.take, []) for batch in found])


def call(path: Path, *headers: tuple[bytes, bytes]) -> list[Any]:
    with fl.connect(f"grpc+unix://{path}") as client:
        return list(client.list_flights(b"", fl.FlightCallOptions(timeout=60, headers=headers)))


def test_rows_come_by_the_socket(rig: FlightRig, path: Path, transport: FlightTransport) -> None:
    with pytest.raises(PeerLostError):
        rows_at(transport, NOWHERE)
    assert transport.shorten({NOWHERE: str(path)}) == {}
    assert rows_at(transport, NOWHERE).equals(ROWS)
    transport.discard(NOWHERE, "names", "tx-1")
    assert rows_at(transport, rig.address()).equals(ROWS)  # as ever


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="sockets are found in /proc")
def test_the_server_has_room_to_send_a_message(path: Path, transport: FlightTransport) -> None:
    """A connection is wide when its first stream begins."""
    transport.shorten({NOWHERE: str(path)})
    assert rows_at(transport, NOWHERE).equals(ROWS)
    assert [room for room in room_at(path) if room >= MESSAGE_BYTES]


def room_at(path: Path) -> Iterator[int]:
    """Bytes that connections accepted at `path` take before their sender waits."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError), sockets.socket(fileno=os.dup(int(name))) as one:
            ours = one.family == sockets.AF_UNIX and one.getsockname() == str(path)
            if ours and not one.getsockopt(sockets.SOL_SOCKET, sockets.SO_ACCEPTCONN):
                yield one.getsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF)


def test_it_is_this_users_alone(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(path)) <= PATH_BYTES_MAX


def test_the_same_token_is_asked_for(rig: FlightRig, path: Path) -> None:
    for headers in ([], [(b"authorization", b"Bearer nonsense")]):
        with pytest.raises(fl.FlightUnauthenticatedError):
            call(path, *headers)
    assert len(call(path, (b"authorization", f"Bearer {rig.token()}".encode()))) == 1


def test_a_ticket_of_another_fabric_is_refused(rig: FlightRig, path: Path) -> None:
    token = (b"authorization", f"Bearer {rig.token()}".encode())
    with fl.connect(f"grpc+unix://{path}") as client, pytest.raises(fl.FlightUnauthenticatedError):
        client.do_get(fl.Ticket(b"forged"), fl.FlightCallOptions(10, headers=[token])).read_all()


def test_calls_count_wherever_they_come_in(rig: FlightRig, path: Path) -> None:
    rig.servers["a0"].set_streams_max(0)
    token = (b"authorization", f"Bearer {rig.token()}".encode())
    with pytest.raises(fl.FlightUnavailableError, match="already serves 0 calls"):
        call(path, token)


def test_a_stopped_server_leaves_no_socket(
    rig: FlightRig, path: Path, transport: FlightTransport
) -> None:
    transport.shorten({NOWHERE: str(path)})
    assert rig.stop("a0")
    assert not path.exists()
    with pytest.raises(PeerLostError):
        rows_at(transport, NOWHERE)


def test_a_socket_that_went_away_is_replaced_by_tcp(
    rig: FlightRig, path: Path, transport: FlightTransport
) -> None:
    assert transport.shorten({rig.address(): str(path)}) == {}
    path.unlink()
    assert rows_at(transport, rig.address()).equals(ROWS)


@pytest.mark.parametrize("wrong", ["open folder", "link", "no socket", "nobody", "long"])
def test_what_can_not_be_trusted_or_opened_is_not_used(
    wrong: str, rig: FlightRig, path: Path, transport: FlightTransport, tmp_path: Path
) -> None:
    other = tmp_path / "link"
    if wrong == "open folder":
        path.parent.chmod(0o750)
    elif wrong == "link":
        other.symlink_to(path.parent)
        path = other / path.name
    elif wrong == "no socket":
        path = path.with_name("none.sock")
    elif wrong == "nobody":
        path = path.with_name("dead.sock")
        with sockets.socket(sockets.AF_UNIX) as dead:
            dead.bind(str(path))
    else:
        path = path.with_name("x" * 200)
    (why,) = transport.shorten({rig.address(): str(path)}).values()
    assert why
    assert rows_at(transport, rig.address()).equals(ROWS)


def test_the_kernels_limit_leads_to_a_folder_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="fabric-test-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        for folder in (tmp_path / ("x" * 100), tmp_path / "with space", tmp_path / "ünal"):
            first = new_socket(folder)
            assert first.parent.parent == Path(short)
            assert first.parent.stat().st_mode & 0o777 == 0o700
            first.touch()
            (first.parent / "other").touch()
            second = new_socket(folder)
            assert (second.parent, second.name != first.name) == (first.parent, True)
            assert os.listdir(first.parent) == ["other"]  # what was left is gone
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("y" * 100)))
        with pytest.raises(StorageError, match="no path"):
            new_socket(tmp_path / ("x" * 100))


def test_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="fabric-test-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        aside = new_socket(tmp_path / ("x" * 100)).parent
        aside.rmdir()
        aside.symlink_to(tmp_path)
        with pytest.raises(StorageError, match="is not a folder of this user"):
            new_socket(tmp_path / ("x" * 100))
        aside.unlink()
        aside.touch()
        with pytest.raises(StorageError, match="can't use the folder"):
            new_socket(tmp_path / ("x" * 100))


class Recorded:
    """Remembers what it was told; some sockets can't be used."""

    def __init__(self) -> None:
        self.told: list[tuple[Mapping[str, str], bool]] = []

    def shorten(self, paths: Mapping[str, str], *, only: bool = False) -> Mapping[str, str]:
        self.told.append((dict(paths), only))
        return {address: "gone" for address, path in paths.items() if path == "/broken"}


class Log:
    """Counts lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def info(self, _event: str, **values: Any) -> None:
        self.lines.append(values)


def message(*, full: bool = False, **agents: tuple[str, str]) -> pb.Locations:
    """{agent: (host id, path)}, at addresses named like the agents."""
    told = pb.Locations(full=full, addresses={agent: f"at {agent}" for agent in agents})
    for agent, (host, path) in agents.items():
        told.sockets[agent].CopyFrom(pb.UnixSocket(host_id=host, path=path))
    return told


def test_only_sockets_of_this_host_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    log, transport = Log(), Recorded()
    monkeypatch.setattr(module, "_log", log)
    neighbours = Neighbours(transport, "here")
    neighbours.update(message(full=True, a=("here", "/a"), b=("there", "/b")))
    for _ in range(2):
        neighbours.update(message(c=("here", "/broken")))
    assert transport.told == [({"at a": "/a"}, True), *[({"at c": "/broken"}, False)] * 2]
    assert log.lines == [{"agent": "at c", "why": "gone"}]  # said once
    Neighbours(transport, "").update(message(a=("", "/a")))
    assert len(transport.told) == 3


def test_a_host_without_an_id_has_no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(host_id()) == 36
    monkeypatch.setattr(module, "_BOOT", Path("/none"))
    assert host_id() == ""
