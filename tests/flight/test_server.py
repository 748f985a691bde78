"""All verbs against real servers on loopback: who may call, what comes back, what leaks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from fabric.control import control_pb2 as pb
from fabric.errors import AuthError, DataError, NotFoundError, PeerLostError
from fabric.flight.connections import connect
from fabric.flight.ticket import PartitionRequest, make_ticket
from fabric.security.tokens import MAC_BYTES, Signer
from tests.support.flight_rig import FlightRig

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
PATH = fl.FlightDescriptor.for_path("dataset", "d")
SESSIONS = ["SetSessionOptions", "GetSessionOptions", "CloseSession"]


def _bomb() -> str:
    """A few bytes that come to ten million."""
    sink, zeros = pa.BufferOutputStream(), pa.table({"k": pa.repeat(0, 1_250_000)})
    zstd = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, zeros.schema, options=zstd) as writer:
        writer.write_table(zeros)
    return base64.b64encode(sink.getvalue()).decode()


BOMB = _bomb()


def table(begin: int, n: int) -> pa.Table:
    return pa.table({"k": range(begin, begin + n), "v": [f"row {i}" for i in range(n)]}, SCHEMA)


def put(client: fl.FlightClient, options: fl.FlightCallOptions) -> None:
    writer, answers = client.do_put(PATH, SCHEMA, options)
    writer.done_writing()
    answers.read()
    writer.close()


def exchange(client: fl.FlightClient, options: fl.FlightCallOptions) -> None:
    writer, reader = client.do_exchange(PATH, options)
    try:
        reader.read_chunk()
    finally:
        writer.done_writing()


Call = Callable[[fl.FlightClient, fl.FlightCallOptions], Any]
VERBS: dict[str, Call] = {
    "list_flights": lambda client, options: list(client.list_flights(b"", options)),
    "get_flight_info": lambda client, options: client.get_flight_info(PATH, options),
    "get_schema": lambda client, options: client.get_schema(PATH, options),
    "do_get": lambda client, options: client.do_get(fl.Ticket(b"x"), options).read_all(),
    "do_put": put,
    "do_exchange": exchange,
    "list_actions": lambda client, options: list(client.list_actions(options)),
    "do_action": lambda client, options: list(client.do_action("healthcheck", options)),
}


def options_with(*values: str) -> fl.FlightCallOptions:
    headers = [(b"authorization", value.encode()) for value in values]
    return fl.FlightCallOptions(timeout=60, headers=headers)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer nonsense", "Basic YTpi", "stranger", "expired", "twice"]
)
def test_every_verb_refuses_strangers(rig: FlightRig, verb: str, header: str) -> None:
    now_s = rig.clock.wall_s()
    stranger = Signer(b"some other secret 1234").token("agent", "x", 60, now_s)
    expired = rig.signer.token("agent", "x", 60, now_s - 3600)
    good = f"Bearer {rig.token('agent')}"
    headers = {
        "": [], "stranger": [f"Bearer {stranger}"], "expired": [f"Bearer {expired}"],
        "twice": [good, good],
    }.get(header, [header])  # fmt: skip
    with connect(rig.address()) as client:
        # pyarrow's get_schema surfaces every refusal as an OSError.
        expected = OSError if verb == "get_schema" else fl.FlightUnauthenticatedError
        with pytest.raises(expected) as caught:
            VERBS[verb](client, options_with(*headers))
        assert "token" in str(caught.value)
        assert_clean(str(caught.value))


@pytest.mark.parametrize("verb", ["do_put", "do_exchange"])
def test_a_read_token_writes_nothing(rig: FlightRig, verb: str) -> None:
    with connect(rig.address()) as client, pytest.raises(fl.FlightUnauthorizedError) as caught:
        VERBS[verb](client, options_with(f"Bearer {rig.token('read')}"))
    assert "needs a token of scope 'write'" in str(caught.value)


@pytest.mark.parametrize(
    ("action", "scope"),
    [("dataset.begin", "read"), ("dataset.commit", "read"), ("dataset.abort", "read"),
     ("dataset.drop", "read"), ("dataset.discard", "submit")],
)  # fmt: skip
def test_actions_need_their_scope(rig: FlightRig, action: str, scope: Any) -> None:
    with rig.client(scope) as client, pytest.raises(AuthError, match="needs a token of scope"):
        client.action(action)


class AgentHandshake(fl.ClientAuthHandler):  # type: ignore[misc]
    """For `FlightClient.authenticate`; `token` holds the agent token afterwards."""

    def __init__(self, signer: Signer, agent_id: str) -> None:
        super().__init__()
        self._signer, self._agent_id = signer, agent_id
        self.token = ""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Answer the server's challenge."""
        outgoing.write(self._agent_id.encode())
        challenge = incoming.read() + self._agent_id.encode()
        outgoing.write(self._signer.sign(challenge, "handshake")[-MAC_BYTES:])
        self.token = incoming.read().decode()

    def get_token(self) -> bytes:
        """Nothing: the token travels as ``authorization: Bearer``."""
        return b""


def test_handshake_gives_an_agent_token_for_the_secret_alone(rig: FlightRig) -> None:
    with connect(rig.address()) as client:
        good = AgentHandshake(rig.signer, "a9")
        client.authenticate(good)
        claims = rig.signer.verify(good.token, ["agent"], rig.clock.wall_s())
        assert (claims.scope, claims.subject) == ("agent", "a9")
        bad = AgentHandshake(Signer(b"some other secret 1234"), "a9")
        with pytest.raises((fl.FlightUnauthenticatedError, OSError)):
            client.authenticate(bad)
        assert bad.token == ""


def test_reads_an_exchange_from_any_agent(rig: FlightRig) -> None:
    rows = {("a0", 0, 0): table(0, 3000), ("a0", 0, 1): table(3000, 10),
            ("a1", 1, 0): table(4000, 0), ("a1", 1, 1): table(5000, 2500)}  # fmt: skip
    rig.add_edge("job-1", "enrich/join", rows)
    with rig.client("read", "a1") as client:
        info = client.info(["job", "job-1", "enrich/join"])
        assert info.schema == SCHEMA
        assert info.total_records == 5510
        assert [e.app_metadata for e in info.endpoints] == [b"0", b"0", b"1", b"1"]
        for endpoint, agent in zip(info.endpoints, ["a0", "a1"] * 2, strict=True):
            uris = [location.uri.decode() for location in endpoint.locations]
            assert uris == [rig.address(agent), "arrow-flight-reuse-connection://?"]
            assert endpoint.expiration_time.as_py().timestamp() > rig.clock.wall_s()
        got = pa.Table.from_batches(client.read(info), SCHEMA)
        assert got.sort_by("k") == pa.concat_tables(rows.values()).sort_by("k")
        # Every endpoint can also be read over the connection at hand.
        here = [b for e in info.endpoints for b in client.read_endpoint(e.ticket.ticket)]
        assert pa.Table.from_batches(here, SCHEMA).sort_by("k") == got.sort_by("k")
        one = client.info(["job", "job-1", "enrich/join", "1"])
        assert [e.app_metadata for e in one.endpoints] == [b"1", b"1"]
        assert (one.total_records, one.total_bytes) == (-1, -1)


def test_verbs_agree_on_a_descriptor(rig: FlightRig) -> None:
    rig.add_edge("job-1", "sort_1", {("a0", 0, 0): table(0, 5)})
    with connect(rig.address()) as client:
        options = options_with(f"Bearer {rig.token()}")
        path = fl.FlightDescriptor.for_path("job", "job-1", "sort_1")
        assert client.get_schema(path, options).schema == SCHEMA
        listed = list(client.list_flights(b"", options))
        assert [info.descriptor for info in listed] == [path]
        assert client.get_flight_info(listed[0].descriptor, options).schema == SCHEMA


@pytest.mark.parametrize(
    ("criteria", "n_found"),
    [(b"", 3), (b"job", 2), (b"job/job-1", 1), (b"job/job-2/a", 1), (b"job/job", 0),
     (b"dataset/d", 1), (b"dataset/", 1), (b"\xff", 0)],
)  # fmt: skip
def test_lists_by_criteria(rig: FlightRig, criteria: bytes, n_found: int) -> None:
    rig.add_edge("job-1", "sort_1", {("a0", 0, 0): table(0, 5)})
    rig.add_edge("job-2", "a/b", {("a0", 0, 0): table(0, 5)})
    with rig.client() as client:
        client.put(["dataset", "d"], SCHEMA, table(0, 5).to_batches())
        assert len(client.flights(criteria)) == n_found


def test_messages_to_foreign_clients_are_small(rig: FlightRig) -> None:
    wide = pa.table({"s": ["x" * 100_000] * 100 + ["y" * 6_000_000]})
    rig.add_edge("job-1", "n", {("a0", 0, 0): wide})
    with rig.client("read") as client:
        batches = list(client.read(client.info(["job", "job-1", "n"])))
    sizes = [pa.ipc.get_record_batch_size(batch) for batch in batches]
    assert all(size < 4 << 20 for size, b in zip(sizes, batches, strict=True) if b.num_rows > 1)
    assert [b.num_rows for b, size in zip(batches, sizes, strict=True) if size > 4 << 20] == [1]
    assert pa.Table.from_batches(batches) == wide.combine_chunks()


def test_an_unknown_name_costs_one_question(rig: FlightRig) -> None:
    with rig.client("read") as client:
        with pytest.raises(NotFoundError, match="there is no dataset 'nope'"):
            client.info(["dataset", "nope"])
        assert rig.control.n_located == 1
        with pytest.raises(NotFoundError, match="no readable partitions at 'x'"):
            client.info(["job", "job-9", "x"])
        rig.add_edge("job-1", "n", {("a0", 0, 0): table(0, 1)})
        with pytest.raises(NotFoundError, match="partitions 0 to 0, not 7"):
            client.info(["job", "job-1", "n", "7"])
        rig.control.fails = PeerLostError("the coordinator is gone")
        with pytest.raises(PeerLostError, match="can't ask the coordinator"):
            client.info(["dataset", "nope"])


def test_an_agent_that_heard_less_than_the_one_that_gave_the_ticket_asks(rig: FlightRig) -> None:
    rig.add_edge("job-1", "n", {("a0", 0, 0): table(0, 5), ("a1", 1, 0): table(5, 9)})
    late = pb.EdgeLocation()
    late.CopyFrom(rig.control.edges[0])
    del late.producers[1:]
    with rig.client("read") as client:
        endpoints = client.info(["job", "job-1", "n"]).endpoints
        rig.control.tables["a1"].apply(pb.Locations(version=99, edges=[late]))
        rows = [list(client.read_endpoint(e.ticket.ticket, [rig.address("a1")])) for e in endpoints]
    assert [sum(batch.num_rows for batch in batches) for batches in rows] == [5, 9]
    assert rig.control.n_located == 1


HOSTILE = [
    ["dataset", "../../etc/passwd"], ["dataset", "/etc/passwd"], ["dataset", "a\0b"],
    ["dataset", "%2e%2e"], ["dataset", ".."], ["dataset", ""], ["dataset", "é"], ["dataset"],
    ["job", "../x", "n"], ["job", "job-1", ""], ["job", "job-1", "n", "-1"],
    ["job", "job-1", "n", "1e3"], ["job", "job-1", "n", "²"], ["x"], ["dataset", "d"] * 5,
    ["dataset", "d" * 100_000], ["state", "job-1", "n", "s"],
    ["state", "job-1", "n", ""], ["state", "job-1", "n", "a\0b"], ["state", "../x", "n", "s"],
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: "/".join(path)[:30])
def test_hostile_descriptors_are_refused(rig: FlightRig, path: list[str]) -> None:
    with rig.client() as client:
        for call in (lambda: client.info(path), lambda: client.put(path, SCHEMA, [])):
            with pytest.raises(NotFoundError) as caught:
                call()
            assert_clean(str(caught.value))
        assert client.action("healthcheck")["status"] == "ok"


def test_hostile_commands_and_schemas_leak_nothing(rig: FlightRig) -> None:
    options = options_with(f"Bearer {rig.token('write')}")
    with connect(rig.address()) as client:
        for command in (b"", b"\x80\x04pickle", b"SELECT 1", b"x" * 4_000_000):
            descriptor = fl.FlightDescriptor.for_command(command)
            with pytest.raises(fl.FlightServerError, match="commands are not understood"):
                client.get_flight_info(descriptor, options)
            # pyarrow's get_schema drops the class.
            with pytest.raises(OSError, match="commands are not understood") as caught:
                client.get_schema(descriptor, options)
            assert_clean(str(caught.value))


def hostile_tickets(rig: FlightRig) -> dict[str, bytes]:
    now_s = rig.clock.wall_s()
    request = PartitionRequest(job="job-1", edge=0, node_path="n", partition=0, producers=((0, 0),))
    good = make_ticket(rig.signer, request, now_s + 60)
    return {
        "empty": b"", "path": b"../../etc/passwd", "nul": b"\0" * 100, "pickle": b"\x80\x04.",
        "4 MB": b"x" * 4_000_000, "cut": good[:-1], "longer": good + b"x",
        "flipped": bytes([good[0] ^ 1]) + good[1:],
        "expired": make_ticket(rig.signer, request, now_s - 3600),
        "stranger": make_ticket(Signer(b"some other secret 1234"), request, now_s + 60),
        "a token": rig.token().encode(),
    }  # fmt: skip


def test_hostile_tickets_are_refused(rig: FlightRig) -> None:
    rig.add_edge("job-1", "n", {("a0", 0, 0): table(0, 1)})
    with rig.client("read") as client:
        for name, ticket in hostile_tickets(rig).items():
            with pytest.raises(AuthError, match="ticket") as caught:
                list(client.read_endpoint(ticket))
            assert_clean(str(caught.value)), name
        assert client.action("healthcheck")["status"] == "ok"


def test_a_ticket_for_what_is_gone_says_so(rig: FlightRig) -> None:
    rig.add_edge("job-1", "n", {("a0", 0, 0): table(0, 1)})
    with rig.client("read") as client:
        info = client.info(["job", "job-1", "n"])
        rig.control.edges.clear()
        rig.control.push(dropped_jobs=["job-1"])
        with pytest.raises(NotFoundError, match="was it released"):
            list(client.read(info))


def test_unexpected_errors_leave_without_their_text(
    rig: FlightRig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_request: object) -> None:
        raise ValueError("password=hunter2 in /root/secret")

    monkeypatch.setattr(rig.control, "list_jobs", broken)
    with connect(rig.address()) as client, pytest.raises(fl.FlightInternalError) as caught:
        list(client.do_action("job.list", options_with(f"Bearer {rig.token()}")))
    assert "unexpected ValueError" in str(caught.value)
    assert_clean(str(caught.value))


def test_errors_in_the_middle_of_a_stream_keep_their_kind(rig: FlightRig) -> None:
    rig.add_edge("job-1", "n", {("a0", 0, 0): table(0, 5), ("a0", 1, 0): table(5, 5)})
    del rig.sources["a0"].tables["job-1", 0, 0, (1, 0)]
    with rig.client("read") as client:
        stream = client.read(client.info(["job", "job-1", "n"]))
        assert next(stream).num_rows == 5
        with pytest.raises(Exception, match="partition 0 is not here") as caught:
            next(stream)
        assert type(caught.value).__name__ == "PartitionLostError"


def test_actions_list_themselves_by_scope(rig: FlightRig) -> None:
    with rig.client("read") as reader, rig.client("write") as writer:
        offered = reader.actions()
        assert offered[:5] == ["healthcheck", "job.list", "job.logs", "dataset.list", "view.get"]
        assert offered[5:] == ["state.get", "RenewFlightEndpoint", *SESSIONS]
        assert "dataset.begin" in writer.actions()
        assert "CancelFlightInfo" not in writer.actions()
        assert "dataset.discard" not in writer.actions()
        with pytest.raises(NotFoundError, match="there is no action 'nope'; known: healthcheck"):
            reader.action("nope")
        assert reader.action("job.list") == {"jobs": []}


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("dataset.drop", b"{", "must be JSON"),
        ("view.get", b'{"name": "v", "keys": "!"}', "'keys' must be base64 of an Arrow IPC stream"),
        ("view.get", b'{"name": "v", "keys": "AAAA"}', "'keys' must be base64 of an Arrow IPC"),
        ("view.get", json.dumps({"name": "v", "keys": BOMB}).encode(), "bytes once decompressed"),
        ("dataset.drop", b"[1]", "must be a JSON object"),
        ("dataset.drop", b"[" * 100_000, "must be JSON"),
        ("dataset.drop", b'{"nam": "x"}', "no field 'nam'"),
        ("dataset.drop", b'{"name": 1}', "must be str"),
        ("dataset.drop", b"{}", "'name' is missing"),
        ("dataset.begin", b'{"name": "../x", "schema": ""}', "not allowed"),
        ("dataset.begin", b'{"name": "x", "schema": "!"}', "base64"),
        ("dataset.begin", b'{"name": "x", "schema": "AAAA"}', "can't be read"),
        ("dataset.begin", b'{"name": "x"}', "needs a schema"),
        ("dataset.begin", b'{"name": "x", "keys": [1], "schema": ""}', "column names"),
        ("dataset.begin", b'{"name": "x", "partitions": -1, "schema": ""}', "a number from 0"),
        ("dataset.commit", b'{"transaction": "t", "parts": [1]}', "list of"),
        ("dataset.commit", b'{"transaction": "t"}', "no transaction 't'"),
    ],
)
def test_bad_action_bodies_are_refused(
    rig: FlightRig, name: str, body: bytes, message: str
) -> None:
    with connect(rig.address()) as client, pytest.raises(fl.FlightServerError) as caught:
        list(client.do_action(fl.Action(name, body), options_with(f"Bearer {rig.token('write')}")))
    assert message in str(caught.value)
    assert_clean(str(caught.value))


def test_stopping_refuses_calls_and_ends_streams(rig: FlightRig) -> None:
    rig.sources["a0"].batch_rows = 1
    rig.add_edge("job-1", "n", {("a0", 0, 0): pa.table({"s": ["x" * 2_000_000] * 64})})
    with rig.client("read") as client:
        stream = client.read(client.info(["job", "job-1", "n"]))
        next(stream)
        rig.servers["a0"].refuse_calls()
        with pytest.raises(PeerLostError, match="shutting down"):
            list(stream)
        with pytest.raises(PeerLostError, match="shutting down"):
            client.action("healthcheck")
    assert rig.stop("a0")


def test_too_many_calls_at_once_are_refused(rig: FlightRig) -> None:
    server = rig.servers["a0"]
    server.set_streams_max(0)
    with rig.client("read") as client, pytest.raises(PeerLostError, match="already serves"):
        client.action("healthcheck")
    server.set_streams_max(1)
    with rig.client("read") as client:
        assert client.action("healthcheck")["agent"] == "a0"


def test_schema_of_strange_streams_is_checked(rig: FlightRig) -> None:
    twice = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    deep = pa.int64()
    for _ in range(70):
        deep = pa.list_(deep)
    strange = {
        "there twice": twice,
        r"nests deeper|recursion depth": pa.schema([("a", deep)]),
        "1 to 4096 columns": pa.schema([]),
        "column name": pa.schema([("", pa.int64())]),
        "bytes of metadata": pa.schema([("a", pa.int64())], {"x": "y" * (2 << 20)}),
        "extension type": pa.schema([("a", pa.uuid())]),
    }
    with rig.client() as client:
        for message, schema in strange.items():
            with pytest.raises(DataError, match=message):
                client.put(["dataset", "d"], schema, [])
    assert rig.control.catalogue.all() == []


def assert_clean(text: str) -> None:
    """No traceback, path of ours, or credential in what a client sees."""
    for word in ("Traceback", ".py", "/root", "/work", "/home", "hunter2", "fab1."):
        assert word not in text


def test_answers_are_json(rig: FlightRig) -> None:
    with connect(rig.address()) as client:
        options = options_with(f"Bearer {rig.token()}")
        (answer,) = client.do_action(fl.Action("healthcheck", b""), options)
        assert json.loads(answer.body.to_pybytes())["version"] == "test"
