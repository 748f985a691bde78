"""Flight's own calls besides reading: poll, cancel, renew, sessions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest

from fabric.control import control_pb2 as pb
from fabric.errors import AuthError, ConfigError, FabricError, NotFoundError
from fabric.flight.connections import connect
from fabric.flight.errors import from_flight
from fabric.security.tokens import Scope
from fabric.testing import ManualClock
from tests.support.by_hand import field
from tests.support.flight_rig import FlightRig

SCHEMA = pa.schema([("k", pa.int64())])
ROWS = pa.table({"k": list(range(10))}, SCHEMA)


@pytest.fixture
def act(rig: FlightRig) -> Callable[..., bytes]:
    """One action by its raw body; errors as ours."""

    def call(name: str, body: bytes = b"", scope: Scope = "read", subject: str = "test") -> bytes:
        header = (b"authorization", f"Bearer {rig.token(scope, subject)}".encode())
        with connect(rig.address()) as client:
            return bytes(raw_action(client, name, body, header))

    return call


def raw_action(client: fl.FlightClient, name: str, body: bytes, header: tuple[bytes, bytes]) -> Any:
    options = fl.FlightCallOptions(timeout=60, headers=[header])
    try:
        (answer,) = client.do_action(fl.Action(name, body), options)
    except (pa.ArrowException, OSError) as error:
        raise from_flight(error) from error
    return answer.body.to_pybytes()


def fields_of(data: bytes) -> dict[int, list[Any]]:
    """The fields of a protobuf message by number."""
    found: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        value: Any
        if tag & 7 == 0:
            value = varint()
        elif tag & 7 == 1:
            (value,) = struct.unpack_from("<d", data, at)
            at += 8
        else:
            size = varint()
            value = data[at : at + size]
            at += size
        found.setdefault(tag >> 3, []).append(value)
    return found


def poll(rig: FlightRig, *path: str) -> tuple[fl.FlightInfo, bool, float | None]:
    """The info, whether to poll again, and the progress."""
    address = rig.address().removeprefix("grpc+tcp://")
    metadata = [("authorization", f"Bearer {rig.token()}")]
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.unary_unary(  # type: ignore[call-arg]
            "/arrow.flight.protocol.FlightService/PollFlightInfo"
        )
        request = fl.FlightDescriptor.for_path(*path).serialize()
        answer = fields_of(call(request, metadata=metadata, timeout=60))
    again = answer.get(2, [])
    if again:
        assert fl.FlightDescriptor.deserialize(again[0]).path == [p.encode() for p in path]
        assert answer[4]  # until when it may be polled
    progress = answer.get(3, [None])[0]
    return fl.FlightInfo.deserialize(answer[1][0]), bool(again), progress


def test_polls_until_an_exchange_is_complete(rig: FlightRig) -> None:
    rig.add_edge("j", "n", {("a0", 0, 0): ROWS, ("a1", 1, 0): ROWS})
    whole = rig.control.edges[0]
    whole.n_producers = 2
    for sealed in range(3):
        now = pb.EdgeLocation()
        now.CopyFrom(whole)
        now.complete = sealed == 2
        del now.producers[sealed:]
        rig.control.push(edges=[now])
        info, again, progress = poll(rig, "job", "j", "n")
        assert (again, progress) == (sealed < 2, sealed / 2 or progress)
        assert len(info.endpoints) == sealed
        assert info.total_records == (20 if sealed == 2 else -1)
    assert rig.control.n_located == 0


def test_an_info_is_whole_as_soon_as_the_coordinator_knows_of_it(rig: FlightRig) -> None:
    """Who was told that the job has finished may be here before the news is."""
    rig.add_edge("j", "n", {("a0", 0, 0): ROWS, ("a1", 1, 0): ROWS})
    before = pb.EdgeLocation()
    before.CopyFrom(rig.control.edges[0])
    before.complete = False
    del before.producers[1:]
    rig.control.push(edges=[before])
    with rig.client() as client:
        assert len(client.info(["job", "j", "n"]).endpoints) == 2
        assert rig.control.n_located == 1
        assert len(client.info(["job", "j", "n"]).endpoints) == 2  # which is known now
    assert rig.control.n_located == 1


def test_polling_a_dataset_is_asking_for_its_info(rig: FlightRig) -> None:
    with rig.client() as client:
        client.put(["dataset", "d"], SCHEMA, ROWS.to_batches())
    info, again, progress = poll(rig, "dataset", "d")
    assert (info.total_records, again, progress) == (10, False, 1.0)


@pytest.mark.parametrize(
    ("state", "words"), [(pb.JOB_FAILED, "failed"), (pb.JOB_CANCELLED, "was cancelled")]
)
def test_polling_what_never_completes_ends(rig: FlightRig, state: pb.JobState, words: str) -> None:
    rig.add_edge("j", "n", {("a0", 0, 0): ROWS})
    ended = rig.control.edges[0]
    ended.state, ended.complete = state, False
    rig.control.push(edges=[ended])
    with pytest.raises(grpc.RpcError, match=f"job j {words} before 'n' was complete"):
        poll(rig, "job", "j", "n")


@pytest.mark.parametrize("path", [("job", "nope", "n"), ("state", "j", "n", "s"), ("x",)])
def test_polling_what_is_nowhere_is_refused(rig: FlightRig, path: tuple[str, ...]) -> None:
    with pytest.raises(grpc.RpcError, match="NotFoundError"):
        poll(rig, *path)


@pytest.mark.parametrize(
    ("state", "answer"), [(pb.JOB_RUNNING, 1), (pb.JOB_FINISHED, 3), (pb.JOB_CANCELLED, 1)]
)
def test_cancelling_an_info_cancels_its_job(
    rig: FlightRig, act: Callable[..., bytes], state: pb.JobState, answer: int
) -> None:
    rig.add_edge("j", "n", {("a0", 0, 0): ROWS})
    rig.control.jobs.jobs.add(job_id="j", state=state)
    with rig.client() as client:
        body = field(1, client.info(["job", "j", "n"]).serialize())
    assert fields_of(act("CancelFlightInfo", body, "submit")) == {1: [answer]}
    with pytest.raises(AuthError, match="needs a token of scope 'submit'"):
        act("CancelFlightInfo", body, "write")


def test_a_dataset_is_not_cancelled(rig: FlightRig, act: Callable[..., bytes]) -> None:
    with rig.client() as client:
        client.put(["dataset", "d"], SCHEMA, ROWS.to_batches())
        body = field(1, client.info(["dataset", "d"]).serialize())
    assert fields_of(act("CancelFlightInfo", body, "submit")) == {1: [3]}


def test_a_renewed_endpoint_is_read_later(timed: FlightRig) -> None:
    clock = timed.clock
    assert isinstance(clock, ManualClock)
    timed.add_edge("j", "n", {("a0", 0, 0): ROWS})
    with timed.client("read") as client, connect(timed.address()) as plain:
        (old,) = client.info(["job", "j", "n"]).endpoints
        clock.advance(3000)
        header = (b"authorization", f"Bearer {timed.token('read')}".encode())
        answer = raw_action(plain, "RenewFlightEndpoint", field(1, old.serialize()), header)
        new = fl.FlightEndpoint.deserialize(answer)
        assert new.app_metadata == old.app_metadata
        assert new.locations == old.locations
        assert new.expiration_time.as_py().timestamp() == pytest.approx(clock.wall_s() + 3600)
        clock.advance(3000)
        with timed.client("read") as late:
            assert sum(b.num_rows for b in late.read_endpoint(new.ticket.ticket)) == 10
            with pytest.raises(AuthError, match="expired"):
                list(late.read_endpoint(old.ticket.ticket))


def test_renewing_ends_with_the_job(rig: FlightRig, act: Callable[..., bytes]) -> None:
    rig.add_edge("j", "n", {("a0", 0, 0): ROWS})
    ended = rig.control.edges[0]
    ended.release_s = rig.clock.wall_s() + 60
    rig.control.push(edges=[ended])
    with rig.client() as client:
        (endpoint,) = client.info(["job", "j", "n"]).endpoints
    body = field(1, endpoint.serialize())
    renewed = fl.FlightEndpoint.deserialize(act("RenewFlightEndpoint", body))
    assert renewed.expiration_time.as_py().timestamp() == pytest.approx(ended.release_s, abs=0.01)
    rig.control.edges.clear()
    rig.control.push(dropped_jobs=["j"])
    with pytest.raises(NotFoundError, match="was it released"):
        act("RenewFlightEndpoint", body)


@pytest.mark.parametrize("name", ["CancelFlightInfo", "RenewFlightEndpoint", "SetSessionOptions"])
@pytest.mark.parametrize("body", [b"", b"\xff" * 50, b"\x0a\x05abc", b"\x80\x04pickle."])
def test_hostile_bodies_are_refused(
    rig: FlightRig, act: Callable[..., bytes], name: str, body: bytes
) -> None:
    if name == "SetSessionOptions" and not body:
        assert act(name, body) == b""
        return
    with pytest.raises(FabricError) as caught:
        act(name, body, "submit")
    assert isinstance(caught.value, (ConfigError, AuthError, NotFoundError))


def option(name: str, text: str | None) -> bytes:
    value = b"" if text is None else field(1, text.encode())
    return field(1, field(1, name.encode()) + field(2, value))


def options_of(answer: bytes) -> dict[str, str]:
    found = {}
    for entry in fields_of(answer).get(1, []):
        parts = fields_of(entry)
        found[parts[1][0].decode()] = fields_of(parts[2][0])[1][0].decode()
    return found


def test_sessions_belong_to_their_token(rig: FlightRig) -> None:
    headers = [
        (b"authorization", f"Bearer {rig.token('read', subject)}".encode()) for subject in "ab"
    ]
    with connect(rig.address()) as client:

        def mine(name: str, body: bytes = b"", header: tuple[bytes, bytes] = headers[0]) -> bytes:
            return bytes(raw_action(client, name, body, header))

        body = option("zone", "UTC") + option("who", "ann")
        assert mine("SetSessionOptions", body) == b""
        assert options_of(mine("GetSessionOptions")) == {"zone": "UTC", "who": "ann"}
        assert options_of(mine("GetSessionOptions", header=headers[1])) == {}
        mine("SetSessionOptions", option("who", None))
        assert options_of(mine("GetSessionOptions")) == {"zone": "UTC"}
        assert fields_of(mine("CloseSession")) == {1: [1]}
        assert options_of(mine("GetSessionOptions")) == {}
        assert fields_of(mine("CloseSession")) == {1: [3]}


def test_own_options_are_checked_and_obeyed(rig: FlightRig) -> None:
    rig.add_edge("j", "n", {("a1", 0, 0): ROWS})
    header = (b"authorization", f"Bearer {rig.token('read', 'one')}".encode())
    wrong = option("fabric.nonsense", "x") + option("fabric.locations", "some")
    with connect(rig.address()) as client:

        def set_options(body: bytes) -> dict[bytes, int]:
            answer = fields_of(raw_action(client, "SetSessionOptions", body, header))
            entries = [fields_of(entry) for entry in answer.get(1, [])]
            return {entry[1][0]: fields_of(entry[2][0])[1][0] for entry in entries}

        def n_locations() -> int:
            options = fl.FlightCallOptions(timeout=60, headers=[header])
            info = client.get_flight_info(fl.FlightDescriptor.for_path("job", "j", "n"), options)
            return len(info.endpoints[0].locations)

        assert set_options(wrong) == {b"fabric.nonsense": 1, b"fabric.locations": 2}
        assert n_locations() == 2
        assert set_options(option("fabric.locations", "none")) == {}
        assert n_locations() == 0
        assert set_options(option("fabric.locations", None)) == {}
        assert n_locations() == 2


def test_sessions_are_bounded(rig: FlightRig) -> None:
    header = (b"authorization", f"Bearer {rig.token('read')}".encode())
    with connect(rig.address()) as client:
        many = b"".join(option(f"o{n:03}", "x") for n in range(70))
        refused = fields_of(raw_action(client, "SetSessionOptions", many, header))
        assert len(refused[1]) == 6
        wrong = option("", "x") + option("n" * 200, "x")
        wrong += option("o000", "y" * 5000)
        assert len(fields_of(raw_action(client, "SetSessionOptions", wrong, header))[1]) == 3
        kept = options_of(raw_action(client, "GetSessionOptions", b"", header))
        assert len(kept) == 64
        assert kept["o000"] == "x"


@pytest.fixture
def timed(tmp_path: Any) -> Iterator[FlightRig]:
    with FlightRig(tmp_path, clock=ManualClock()) as rig:
        yield rig
