"""What a client may ask of a server: sizes before they are unfolded, calls at once, time."""

from __future__ import annotations

import resource
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.wire.headers import check_schema, unpacked_bytes
from fabric.config import AgentConfig, Limits
from fabric.errors import ConfigError, DataError, PeerLostError
from tests.support.arrays import batches, examples
from tests.support.by_hand import field, ipc_messages, varint
from tests.support.flight_rig import FlightRig
from tests.support.folded import folded
from tests.support.wait import wait_until

SERVICE = "/arrow.flight.protocol.FlightService/"
LIMITS = Limits(message_bytes=1 << 20, unpacked_bytes=8 << 20, peer_streams_max=8)
CODECS = ("lz4", "zstd")
PATH = ["dataset", "d"]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FlightRig]:
    with FlightRig(tmp_path, 1, limits=LIMITS) as rig:
        yield rig


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[FlightRig]:
    """Loses who is silent; a busy machine still has the time to show a token."""
    with FlightRig(tmp_path, 1, limits=Limits(peer_idle_s=1.0, handshake_s=5.0)) as rig:
        yield rig


def still_serves(rig: FlightRig) -> None:
    with rig.client() as client:
        assert client.action("healthcheck")["status"] == "ok"
    wait_until(lambda: rig.servers["a0"].n_open == 0)


# ---- what unfolds


ZEROS = pa.array([0] * (2 << 20), pa.int64())  # 16 MiB
WORDS = pa.array(["x" * (16 << 20)])
BOMBS: dict[str, pa.Array] = {
    "numbers": ZEROS,
    "text": WORDS,
    "nested": pa.StructArray.from_arrays([ZEROS], ["a"]),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), WORDS),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_unfolds(
    rig: FlightRig, raw_put: Any, wire: Any, name: str, codec: str
) -> None:
    flight_data, _ = wire
    first, *rest = ipc_messages(pa.record_batch({"c": BOMBS[name]}), codec)
    before = pa.total_allocated_bytes()
    error = raw_put([flight_data(first, PATH), *map(flight_data, rest)])
    assert "come to more than 8 MiB once they are decompressed" in error.details()
    assert pa.total_allocated_bytes() <= before + (1 << 20)
    still_serves(rig)


def test_many_dictionaries_are_one_bomb(rig: FlightRig, raw_put: Any, wire: Any) -> None:
    """Each within the limit, all of one batch beyond it."""
    flight_data, _ = wire
    word = pa.array(["x" * (3 << 20)])
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), word)
    for n, refused in ((2, False), (3, True)):
        batch = pa.record_batch({f"c{i}": column for i in range(n)})
        first, *rest = ipc_messages(batch, "zstd")
        error = raw_put([flight_data(first, ["dataset", f"d{n}"]), *map(flight_data, rest)])
        assert (error is not None) == refused
        assert not refused or "once they are decompressed" in error.details()
    still_serves(rig)


@pytest.mark.parametrize("codec", CODECS)
def test_honest_rows_may_be_compressed(rig: FlightRig, raw_put: Any, wire: Any, codec: str) -> None:
    flight_data, _ = wire
    batch = pa.record_batch({"k": range(30_000), "s": [f"row {n}" for n in range(30_000)]})
    first, *rest = ipc_messages(batch, codec)
    sent = [flight_data(first, PATH), *map(flight_data, rest * 30)]  # of one batch, not of a stream
    assert raw_put(sent) is None
    assert rig.control.catalogue.get("d").rows == 30 * batch.num_rows


@pytest.mark.parametrize("claim", [-2, -(2**63), 0, 7, 1 << 20, 1 << 62, 2**63 - 1])
@pytest.mark.parametrize("codec", CODECS)
def test_sizes_that_lie_are_refused(
    rig: FlightRig, raw_put: Any, wire: Any, codec: str, claim: int
) -> None:
    flight_data, _ = wire
    first, rows = ipc_messages(pa.record_batch({"k": [5] * 1000}), codec)
    body = claim.to_bytes(8, "little", signed=True) + rows.body.to_pybytes()[8:]
    error = raw_put([flight_data(first, PATH), flight_data(rows, body=body)])
    assert error is not None
    assert error.details()
    still_serves(rig)


@examples(0.5)
@given(batch=batches(), codec=st.sampled_from(CODECS))
def test_what_messages_come_to_is_known_from_the_outside(batch: pa.RecordBatch, codec: str) -> None:
    plain, packed = ipc_messages(batch, None), ipc_messages(batch, codec)
    for one, other in zip(plain, packed, strict=True):
        metadata, body = other.metadata.to_pybytes(), other.body
        size = one.body.size if one.body is not None else 0
        found = unpacked_bytes(metadata, body.to_pybytes() if body is not None else b"")
        assert found <= size + 8 * 64  # buffers that do not shrink keep their prefix
        assert size - found <= 64 * 64  # padding
        assert (
            one.type == "schema"
            or unpacked_bytes(one.metadata.to_pybytes(), one.body.to_pybytes()) == size
        )


@examples(0.5)
@given(data=st.data(), codec=st.sampled_from(CODECS))
def test_damaged_metadata_is_counted_or_refused(data: st.DataObject, codec: str) -> None:
    message = ipc_messages(pa.record_batch({"k": [1, 2, 3], "s": ["a", "b", None]}), codec)[-1]
    metadata = bytearray(message.metadata.to_pybytes())
    for _ in range(data.draw(st.integers(1, 4))):
        metadata[data.draw(st.integers(0, len(metadata) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(metadata)))
    for some in (metadata, metadata[:cut]):
        with suppress(DataError):
            assert unpacked_bytes(bytes(some), message.body.to_pybytes()) >= 0


def test_fields_with_another_wire_type_hide_nothing(
    rig: FlightRig, raw_put: Any, wire: Any
) -> None:
    """Flight reads a header whatever its wire type says."""
    flight_data, _ = wire
    first, rows = ipc_messages(pa.record_batch({"c": ZEROS}), "zstd")
    whole = flight_data(rows)
    assert whole[0] == 0x12  # field 2, delimited
    for tag in (0x10, 0x11, 0x15):
        error = raw_put([flight_data(first, PATH), bytes([tag]) + whole[1:]])
        assert "once they are decompressed" in error.details()
    still_serves(rig)


@pytest.mark.parametrize("delta", [False, True])
def test_dictionaries_count_for_as_long_as_they_are_held(
    rig: FlightRig, raw_put: Any, wire: Any, delta: bool
) -> None:
    """One that is sent anew takes the place of its like; one that goes on does not."""
    flight_data, _ = wire
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", emit_dictionary_deltas=delta)
    words = [str(n) * (1 << 20) for n in range(4)]  # 1 MiB each
    schema = pa.schema([pa.field("c", pa.dictionary(pa.int8(), pa.string()))])
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for n in range(1, 5):
            column = pa.DictionaryArray.from_arrays(pa.array([n - 1], pa.int8()), words[:n])
            writer.write_batch(pa.record_batch([column], schema=schema))
    first, *rest = pa.MessageReader.open_stream(sink.getvalue())
    assert raw_put([flight_data(first, PATH), *map(flight_data, rest)]) is None
    more = rest + rest[2:] * 3  # the first one is whole in any case
    again = raw_put([flight_data(first, ["dataset", "e"]), *map(flight_data, more)])
    assert (again is not None) == delta
    assert not delta or "once they are decompressed" in again.details()
    still_serves(rig)


# ---- schemas that unfold


def nested(depth: int) -> pa.DataType:
    """A struct of two in each level."""
    kind: pa.DataType = pa.int8()
    for _ in range(depth):
        kind = pa.struct([("a", kind), ("b", pa.int8())])
    return kind


LONG = "x" * (128 << 10)
TINY = [pa.field(str(n), pa.int8()) for n in range(1000)]
FOLDED = {
    "names": pa.schema([pa.field(LONG, pa.int8()), *TINY]),
    "metadata": pa.schema([pa.field("x", pa.int8(), metadata={"k": LONG}), *TINY]),
    "zones": pa.schema([pa.field("x", pa.timestamp("s", LONG)), *TINY]),
    "fields": pa.schema([pa.field("x", nested(18))], metadata={"k": LONG * 4}),
}


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("verb", ["DoPut", "DoExchange"])
def test_a_schema_that_unfolds_is_refused_before_it_is_read(
    rig: FlightRig, wire: Any, name: str, verb: str
) -> None:
    flight_data, _ = wire
    data = folded(FOLDED[name])
    message = pa.ipc.read_message(pa.py_buffer(data))
    before = peak_bytes()
    with grpc.insecure_channel(rig.address().removeprefix("grpc+tcp://")) as channel:
        call = channel.stream_stream(SERVICE + verb)
        with pytest.raises(grpc.RpcError) as caught:
            list(call(iter([flight_data(message, PATH)]), metadata=bearer(rig), timeout=60))
    assert " have at most " in caught.value.details() or " has at most " in caught.value.details()
    assert peak_bytes() <= before + (32 << 20)
    with pytest.raises(DataError, match="at most"):
        check_schema(data)
    still_serves(rig)


def peak_bytes() -> int:
    """The most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@examples(0.5)
@given(batch=batches())
def test_honest_schemas_pass(batch: pa.RecordBatch) -> None:
    check_schema(batch.schema.serialize().to_pybytes())


@examples(0.5)
@given(data=st.data())
def test_damaged_schemas_are_counted_or_refused(data: st.DataObject) -> None:
    kind = pa.struct([("a", nested(3)), ("b", pa.timestamp("s", "UTC"))])
    good = pa.schema([pa.field("x", kind, metadata={"k": "v"})], metadata={"k": "v"})
    message = bytearray(good.serialize().to_pybytes())
    for _ in range(data.draw(st.integers(0, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(message)))
    for some in (message, message[:cut]):
        with suppress(DataError):
            check_schema(bytes(some))


# ---- what is too large


def test_a_message_that_is_too_large_is_refused(rig: FlightRig, raw_put: Any, wire: Any) -> None:
    flight_data, _ = wire
    first, rows = ipc_messages(pa.record_batch({"k": range(1000)}), None)
    error = raw_put([flight_data(first, PATH), flight_data(rows, metadata=b"x" * (2 << 20))])
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert raw_put([flight_data(first, PATH), flight_data(rows, metadata=b"x" * (1 << 19))]) is None
    still_serves(rig)


def test_messages_that_grpc_compressed_are_refused(rig: FlightRig, wire: Any) -> None:
    """They could unfold to anything before anybody sees them."""
    flight_data, _ = wire
    first, rows = ipc_messages(pa.record_batch({"k": range(1000)}), None)
    sent = [flight_data(first, PATH), flight_data(rows, metadata=b"x" * (1 << 26))]
    with grpc.insecure_channel(
        rig.address().removeprefix("grpc+tcp://"), compression=grpc.Compression.Gzip
    ) as channel:
        call = channel.stream_stream(SERVICE + "DoPut")
        with pytest.raises(grpc.RpcError):
            list(call(iter(sent), metadata=bearer(rig), timeout=60))
    still_serves(rig)


def test_limits_are_checked() -> None:
    for name in ("streams_max", "message_bytes", "peer_idle_s", "handshake_s"):
        with pytest.raises(ConfigError, match=f"{name} must be positive"):
            AgentConfig(**{name: 0})
    with pytest.raises(ConfigError, match="below 2 GiB"):
        AgentConfig(message_bytes=1 << 31)


# ---- who is too slow, or too many


def bearer(rig: FlightRig, scope: Any = "write") -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {rig.token(scope)}")]


class Silent:
    """A client on a connection of its own that sends some messages and then nothing."""

    def __init__(self, rig: FlightRig, verb: str, sent: list[bytes], metadata: Any) -> None:
        self._over = threading.Event()
        options = [("grpc.use_local_subchannel_pool", 1)]
        address = rig.address().removeprefix("grpc+tcp://")
        self.channel = grpc.insecure_channel(address, options=options)
        self.call = self.channel.stream_stream(SERVICE + verb)(
            self._messages(sent), metadata=metadata
        )

    def _messages(self, sent: list[bytes]) -> Iterator[bytes]:
        yield from sent
        self._over.wait(60)

    def close(self) -> None:
        self._over.set()
        self.call.cancel()
        self.channel.close()

    def ends(self) -> grpc.StatusCode:
        """What it ends with."""
        with pytest.raises(grpc.RpcError) as caught:
            list(self.call)
        return caught.value.code()


@pytest.mark.parametrize("verb", ["DoPut", "DoExchange", "Handshake"])
@pytest.mark.parametrize("n_sent", [0, 1])
def test_a_silent_client_loses_its_connection(
    impatient: FlightRig, wire: Any, verb: str, n_sent: int
) -> None:
    flight_data, _ = wire
    first, _ = ipc_messages(pa.record_batch({"k": range(1000)}), None)
    sent = [b"\x08\x01\x12\x02a0" if verb == "Handshake" else flight_data(first, PATH)][:n_sent]
    agent = Silent(impatient, "DoPut", [], bearer(impatient, "agent"))
    client = Silent(impatient, verb, sent, None if verb == "Handshake" else bearer(impatient))
    with ExitStack() as stack:
        stack.callback(agent.close)
        stack.callback(client.close)
        code = client.ends()
        assert code is not grpc.StatusCode.OK
        # an agent's own may take longer
        wait_until(lambda: impatient.servers["a0"].n_open == 1)
        assert agent.call.is_active()
    still_serves(impatient)


def test_a_reader_that_stops_loses_its_connection(impatient: FlightRig) -> None:
    impatient.add_edge("job-1", "n", {("a0", 0, 0): pa.table({"k": range(8 << 20)})})
    with impatient.client("read") as client:
        ticket = client.info(["job", "job-1", "n", "0"]).endpoints[0].ticket
        assert ticket
    address = impatient.address().removeprefix("grpc+tcp://")
    with grpc.insecure_channel(address) as channel:
        request = b"\x0a" + varint(len(ticket.ticket)) + ticket.ticket
        call = channel.unary_stream(SERVICE + "DoGet")(request, metadata=bearer(impatient))
        next(call)
        wait_until(lambda: impatient.servers["a0"].n_open == 0)
        with pytest.raises(grpc.RpcError):
            list(call)
    still_serves(impatient)


def test_agents_find_a_place_whatever_clients_do(rig: FlightRig) -> None:
    rig.servers["a0"].set_streams_max(4)
    with ExitStack() as stack:

        def opened(verb: str, token: list[tuple[str, str]] | None) -> Silent:
            client = Silent(rig, verb, [], token)
            stack.callback(client.close)
            return client

        opened("Handshake", None)
        wait_until(lambda: rig.servers["a0"].n_open == 1)
        assert opened("Handshake", None).ends() is grpc.StatusCode.UNAVAILABLE  # a quarter
        agents = [opened("DoPut", bearer(rig, "agent")) for _ in range(5)]
        wait_until(lambda: rig.servers["a0"].n_open == 6)
        assert all(each.call.is_active() for each in agents)
        with rig.client() as client:
            assert client.action("healthcheck")["status"] == "ok"
        rig.servers["a0"].set_streams_max(0)
        with rig.client() as client, pytest.raises(PeerLostError, match="already serves"):
            client.action("healthcheck")
        opened("DoPut", bearer(rig, "agent"))
        wait_until(lambda: rig.servers["a0"].n_open == 7)


def test_one_client_has_so_many_calls_at_once(tmp_path: Path) -> None:
    with FlightRig(tmp_path, 1, limits=Limits(peer_streams_max=4)) as rig, ExitStack() as stack:
        one, another = bearer(rig), bearer(rig)  # each with a token of its own

        def opened(token: list[tuple[str, str]]) -> Callable[[], None]:
            client = Silent(rig, "DoPut", [], token)
            stack.callback(client.close)
            return client.close

        close, *_ = [opened(one) for _ in range(4)]
        wait_until(lambda: rig.servers["a0"].n_open == 4)
        more = Silent(rig, "DoPut", [], one)
        stack.callback(more.close)
        assert more.ends() is grpc.StatusCode.UNAVAILABLE
        assert "already has 4 calls open here" in more.call.details()
        opened(another)
        wait_until(lambda: rig.servers["a0"].n_open == 5)
        close()
        wait_until(lambda: rig.servers["a0"].n_open == 4)
        opened(one)
        wait_until(lambda: rig.servers["a0"].n_open == 5)


@pytest.mark.parametrize("scope", [None, "read"])
def test_a_stranger_sends_no_more_than_a_mebibyte(tmp_path: Path, scope: str | None) -> None:
    """The rest of a longer message is not waited for: its token comes with the call, too late."""
    limits = Limits(handshake_s=600.0)
    with FlightRig(tmp_path, 1, limits=limits) as rig, ExitStack() as stack:
        with (
            rig.client() as client,  # what is shorter is read, and answered in words
            pytest.raises(ConfigError, match="has at most 983040 bytes"),
        ):
            client.action("dataset.list", padding="x" * (970 << 10))
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        options = [("grpc.use_local_subchannel_pool", 1)]
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        channel = stack.enter_context(grpc.insecure_channel(address, options=options))
        action = field(1, b"dataset.list") + field(2, b"x" * (8 << 20))
        metadata = bearer(rig, scope) if scope else []
        call = channel.unary_stream(SERVICE + "DoAction")(action, metadata=metadata)
        sender = stack.enter_context(listener.accept()[0])
        port = int(rig.address().rpartition(":")[2])
        server = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert ended_by(server, sender, 2 << 20)
        call.cancel()


def ended_by(server: socket.socket, sender: socket.socket, n_bytes: int) -> bool:
    """Pass on what `sender` sends, `n_bytes` at most; whether `server` ends the connection."""
    left, deadline = n_bytes, time.monotonic() + 30
    while time.monotonic() < deadline:
        for one in select.select([server, *([sender] if left else [])], [], [], 1)[0]:
            try:
                got = one.recv(min(left, 1 << 16) if one is sender else 1 << 16)
            except ConnectionResetError:
                got = b""
            if not got:
                return one is server
            with suppress(BrokenPipeError, ConnectionResetError):
                (server if one is sender else sender).sendall(got)
            left -= len(got) if one is sender else 0
    return False
