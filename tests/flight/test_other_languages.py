"""What clients in other languages need beyond rows: logins, error details, headers, locations."""

from __future__ import annotations

from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.control import control_pb2 as pb
from fabric.errors import DataError, NotFoundError
from fabric.flight.connections import connect
from fabric.flight.errors import from_flight
from tests.support.arrays import examples
from tests.support.flight_rig import FlightRig

ROWS = pa.table({"k": [1, 2, 3]})
EDGE = fl.FlightDescriptor.for_path("job", "j", "n")
REUSE = b"arrow-flight-reuse-connection://?"


class Basic(fl.ClientAuthHandler):  # type: ignore[misc]
    """What libraries offer for logging in."""

    def __init__(self, user: str, password: str) -> None:
        super().__init__()
        self.login = fl.BasicAuth(user, password)
        self.token = b""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        outgoing.write(self.login.serialize())
        self.token = incoming.read()

    def get_token(self) -> bytes:
        return self.token


def info_call(
    rig: FlightRig, descriptor: fl.FlightDescriptor, *headers: tuple[str, str], token: str = ""
) -> tuple[grpc.RpcError | None, dict[str, Any]]:
    """GetFlightInfo as gRPC sees it: the error, and what came back beside the answer."""
    address = rig.address().removeprefix("grpc+tcp://")
    metadata = [("authorization", f"Bearer {token or rig.token()}"), *headers]
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.unary_unary(  # type: ignore[call-arg]
            "/arrow.flight.protocol.FlightService/GetFlightInfo"
        )
        try:
            _, done = call.with_call(descriptor.serialize(), metadata=metadata, timeout=60)
        except grpc.RpcError as error:
            refused: Any = error
            return refused, dict([*refused.initial_metadata(), *refused.trailing_metadata()])
        return None, dict(done.initial_metadata())


@pytest.mark.parametrize(
    ("case", "code", "kind"),
    [("no token", "UNAUTHENTICATED", "AuthError"), ("unknown", "UNKNOWN", "NotFoundError"),
     ("full", "UNAVAILABLE", "PeerLostError"), ("bug", "INTERNAL", "InternalError")],
)  # fmt: skip
def test_error_details_are_what_grpc_libraries_expect(
    rig: FlightRig, monkeypatch: pytest.MonkeyPatch, case: str, code: str, kind: str
) -> None:
    token = "nonsense" if case == "no token" else rig.token()
    if case == "full":
        rig.servers["a0"].set_streams_max(0)
    if case == "bug":
        monkeypatch.setattr(rig.control, "locate", lambda request: 1 // 0)
    error, headers = info_call(rig, EDGE, token=token)
    assert error is not None
    assert error.code().name == code  # type: ignore[attr-defined]
    frame = pb.ErrorFrame.FromString(headers["grpc-status-details-bin"])
    assert frame.code == error.code().value[0]  # type: ignore[attr-defined]
    (framed,) = frame.details
    assert framed.type_url.endswith("/" + pb.ErrorDetail.DESCRIPTOR.full_name)
    detail = pb.ErrorDetail.FromString(framed.value)
    assert detail.kind == kind
    assert detail.message in frame.message


def test_an_error_passed_on_by_another_agent_is_whole(rig: FlightRig) -> None:
    rig.add_edge("j", "n", {("a1", 0, 0): ROWS})
    with rig.client() as client:
        (endpoint,) = client.info(["job", "j", "n"]).endpoints
        rig.sources["a1"].tables.clear()
        with pytest.raises(NotFoundError, match="has no partitions on this agent") as caught:
            list(client.read_endpoint(endpoint.ticket.ticket))
    assert caught.value.where.job == "j"


@pytest.mark.parametrize("words", ["x" * 4000, "ü" * 4000, "雪" * 2000])
def test_long_errors_arrive(rig: FlightRig, words: str) -> None:
    rig.control.fails = DataError(words)
    error, headers = info_call(rig, EDGE)
    assert len(pb.ErrorFrame.FromString(headers["grpc-status-details-bin"]).message) <= 1001
    assert error is not None
    with rig.client() as client, pytest.raises(DataError) as caught:
        client.action("dataset.list")
    assert caught.value.message == words


class Told(Exception):
    """As pyarrow's: with the bytes a server sent."""

    def __init__(self, extra: bytes) -> None:
        super().__init__("words of pyarrow")
        self.extra_info = extra


@examples()
@given(st.binary(max_size=60), st.booleans())
def test_hostile_details_are_no_details(junk: bytes, framed: bool) -> None:
    error = from_flight(Told(b"\x08" + junk if framed else junk))
    assert "words of pyarrow" in str(error) or framed
    whole = pb.ErrorDetail(kind="DataError", message="torn").SerializeToString()
    frame = pb.ErrorFrame(code=2, details=[pb.FramedDetail(value=whole)])
    assert isinstance(from_flight(Told(frame.SerializeToString())), DataError)
    assert isinstance(from_flight(Told(whole)), DataError)


@pytest.mark.parametrize("user", ["", "token", "anybody"])
def test_a_token_is_the_password_of_a_login(rig: FlightRig, user: str) -> None:
    rig.add_edge("j", "n", {("a0", 0, 0): ROWS})
    with connect(rig.address()) as client:
        with pytest.raises(fl.FlightUnauthenticatedError):
            client.get_flight_info(EDGE)
        client.authenticate(Basic(user, rig.token("read")))
        (endpoint,) = client.get_flight_info(EDGE).endpoints
        assert client.do_get(endpoint.ticket).read_all() == ROWS
        with pytest.raises(fl.FlightUnauthorizedError):
            client.do_put(EDGE, ROWS.schema)[1].read()


@pytest.mark.parametrize("password", ["", "nonsense", "x" * 9000])
def test_a_login_with_anything_else_is_refused(rig: FlightRig, password: str) -> None:
    with connect(rig.address()) as client:
        login = Basic("token", password)
        with pytest.raises((fl.FlightUnauthenticatedError, OSError)):
            client.authenticate(login)
        assert login.token == b""
        with pytest.raises(fl.FlightUnauthenticatedError):
            list(client.list_actions())


@pytest.mark.parametrize("junk", [b"\x12", b"\x12\xff\xff", b"\x1a\x05abc", b"\x12\x01\xff"])
def test_a_damaged_login_is_refused(rig: FlightRig, junk: bytes) -> None:
    login = Basic("", "")
    login.login = type("Junk", (), {"serialize": lambda self: junk})()
    refused = (fl.FlightUnauthenticatedError, OSError)
    with connect(rig.address()) as client, pytest.raises(refused):
        client.authenticate(login)
    assert login.token == b""


def test_a_request_id_comes_back(rig: FlightRig) -> None:
    rig.add_edge("j", "n", {("a0", 0, 0): ROWS})
    for path in ("n", "nothing"):
        descriptor = fl.FlightDescriptor.for_path("job", "j", path)
        error, headers = info_call(rig, descriptor, ("x-request-id", "abc-1"), ("x-other", "z"))
        assert (error is None) == (path == "n")
        assert headers["x-request-id"] == "abc-1"
        assert "x-other" not in headers
    assert "x-request-id" not in info_call(rig, EDGE, ("x-request-id", "x" * 257))[1]


def locations(
    client: fl.FlightClient, rig: FlightRig, *headers: tuple[bytes, bytes]
) -> list[list[bytes]]:
    auth = (b"authorization", b"Bearer " + rig.token("read", "who").encode())
    options = fl.FlightCallOptions(timeout=60, headers=[auth, *headers])
    info = client.get_flight_info(EDGE, options)
    return [[location.uri for location in endpoint.locations] for endpoint in info.endpoints]


def test_endpoints_say_where_rows_lie_as_the_client_likes_it(rig: FlightRig) -> None:
    rig.add_edge("j", "n", {("a1", 0, 0): ROWS})
    there = rig.address("a1").encode()
    with connect(rig.address()) as client:
        assert locations(client, rig) == [[there, REUSE]]
        wanted = {b"all": [[there, REUSE]], b"reuse": [[REUSE]], b"none": [[]]}
        for word, found in wanted.items():
            assert locations(client, rig, (b"fabric.locations", word)) == found
        with pytest.raises(pa.ArrowException, match="'all', 'reuse' or 'none', got 'some'"):
            locations(client, rig, (b"fabric.locations", b"some"))


def test_what_is_released_soon_expires_then(rig: FlightRig) -> None:
    rig.add_edge("j", "n", {("a0", 0, 0): ROWS})
    rig.control.edges[0].release_s = rig.clock.wall_s() + 60
    rig.control.push(edges=rig.control.edges)
    with rig.client() as client:
        (endpoint,) = client.info(["job", "j", "n"]).endpoints
    found = endpoint.expiration_time.as_py().timestamp()
    assert found == pytest.approx(rig.control.edges[0].release_s, abs=0.01)


def test_commands_are_refused_in_words(rig: FlightRig) -> None:
    auth = (b"authorization", b"Bearer " + rig.token().encode())
    options = fl.FlightCallOptions(timeout=60, headers=[auth])
    with connect(rig.address()) as client:
        for ask in (client.get_flight_info, client.get_schema):
            with pytest.raises((pa.ArrowException, OSError)) as caught:
                ask(fl.FlightDescriptor.for_command(b"select 1"), options)
            assert "commands are not understood here; use a path" in str(caught.value)
