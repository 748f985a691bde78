"""G1 to G12 of a hostile client against a live agent: it never dies, answers on, and keeps nothing.

Everything is sent by gRPC alone, as no client library would.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

import fabric
from tests.support.by_hand import field, ipc_messages
from tests.support.folded import folded
from tests.support.local import local_fabric
from tests.support.sampled import SOAK, sampled
from tests.support.wait import wait_until

SERVICE = "/arrow.flight.protocol.FlightService/"
SETTINGS = {
    "FABRIC_AGENT_UNPACKED_BYTES": str(64 << 20), "FABRIC_AGENT_PEER_STREAMS_MAX": "512",
    "FABRIC_AGENT_PEER_IDLE_S": "3", "FABRIC_AGENT_HANDSHAKE_S": "3",
    "FABRIC_AGENT_GIVE_BACK_S": "1",
}  # fmt: skip
HERE = str(Path(fabric.__file__).parents[1])
INSIDE = ("Traceback", "traceback", ".py", "/root", "/home", "/tmp", "site-packages", HERE)
_NUMBERS = itertools.count()
pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Agent:
    """A live agent process, seen from the outside."""

    address: str
    token: str
    pid: int

    @property
    def metadata(self) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {self.token}")]

    def channel(self) -> grpc.Channel:
        """A connection of its own."""
        return grpc.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1)])

    def stream(self, verb: str, messages: Sequence[bytes]) -> grpc.RpcError | None:
        """A call with many messages."""
        return self._sent("stream_stream", verb, iter(messages))

    def ask(self, verb: str, message: bytes) -> grpc.RpcError | None:
        """A call with one message."""
        return self._sent("unary_stream", verb, message)

    def _sent(self, kind: str, verb: str, sent: Iterator[bytes] | bytes) -> grpc.RpcError | None:
        with self.channel() as channel:
            try:
                list(getattr(channel, kind)(SERVICE + verb)(
                    sent, metadata=self.metadata, timeout=60.0))  # fmt: skip
            except grpc.RpcError as error:
                return error
        return None

    def answers(self) -> bool:
        """Whether a good call is answered within a second."""
        with self.channel() as channel:
            call = channel.unary_stream(SERVICE + "DoAction")
            try:
                found = list(call(field(1, b"healthcheck"), metadata=self.metadata, timeout=1.0))
            except grpc.RpcError:
                return False
        return b"ok" in found[0]

    def holds(self) -> tuple[int, int, int]:
        """Threads, descriptors, bytes."""
        own = Path(f"/proc/{self.pid}")
        pages = int((own / "statm").read_text().split()[1])
        return len(os.listdir(own / "task")), len(os.listdir(own / "fd")), pages * 4096


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        with local_fabric(1) as running:
            address = running.attached()[0].address.removeprefix("grpc+tcp://")
            agent = Agent(address, running.token, running.agents[0].process.pid)
            good = pa.record_batch({"k": [1, 2, 3], "s": ["a", "b", None]})
            for n in range(20):  # what is made once and stays
                assert agent.stream("DoPut", put(good, f"good-{n}")) is None
            yield agent
            running.agents[0].check()


@contextmanager
def unharmed(agent: Agent) -> Iterator[None]:
    """Whatever is done in here, the agent answers within a second, and gives all back."""
    threads, descriptors, n_bytes = agent.holds()
    yield
    assert any(agent.answers() for _ in range(3))  # the machine may be busy, an agent that hangs is
    wait_until(lambda: agent.holds()[0] <= threads + 8, 60)
    wait_until(lambda: agent.holds()[1] <= descriptors + 8, 60)
    wait_until(lambda: agent.holds()[2] <= n_bytes + (64 << 20), 60)


def named(error: grpc.RpcError | None) -> None:
    """An error with words, and nothing of the agent's inside."""
    assert error is not None
    text = error.details()
    assert text or error.code() is grpc.StatusCode.INTERNAL  # gRPC's own, of what is no protobuf
    for word in INSIDE:
        assert word not in text, text


def none_or_named(error: grpc.RpcError | None) -> None:
    """Bytes that still mean something may be taken."""
    if error is not None:
        named(error)


def path(*parts: str) -> bytes:
    return field(1, b"\x08\x01" + b"".join(field(3, part.encode()) for part in parts))


def message(header: bytes, body: bytes | None = None, metadata: bytes = b"") -> bytes:
    out = field(2, header) + (field(3, metadata) if metadata else b"")
    return out + (field(1000, body) if body is not None else b"")


def ipc(batch: pa.RecordBatch, codec: str | None = None) -> list[tuple[bytes, bytes]]:
    """Header and body of each message."""
    return [
        (m.metadata.to_pybytes(), m.body.to_pybytes() if m.body is not None else b"")
        for m in ipc_messages(batch, codec)
    ]


def fresh() -> bytes:
    """The path of a dataset that is not there, all of one length."""
    return path("dataset", f"bad-{next(_NUMBERS):06}")


def put(batch: pa.RecordBatch, name: str = "", codec: str | None = None) -> list[bytes]:
    """A put as it should be."""
    (schema, _), *rest = ipc(batch, codec)
    to = path("dataset", name) if name else fresh()
    return [to + message(schema), *(message(h, b) for h, b in rest)]


def schema_of(*fields: pa.Field, **metadata: bytes) -> bytes:
    """A put that ends with its schema."""
    data = pa.schema(list(fields), metadata=metadata or None).serialize().to_pybytes()
    return fresh() + message(data[8 : 8 + int.from_bytes(data[4:8], "little")])


# ---- G1 to G4, G7, G8: batches that lie


VICTIMS: dict[str, pa.Array] = {
    "string": pa.array(["ab", "cd", "ef"]),
    "large_string": pa.array(["ab", "cd", "ef"], pa.large_string()),
    "string_view": pa.array(["ab", "a string that is not inline", "ef"], pa.string_view()),
    "list": pa.array([[1], [2, 3], None]),
    "list_view": pa.array([[1], [2, 3], []], pa.list_view(pa.int64())),
    "map": pa.array([[("a", 1)], [], [("b", 2)]], pa.map_(pa.string(), pa.int32())),
    "union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()),
        pa.array([0, 0, 1], pa.int32()),
        [pa.array([1, 2]), pa.array(["x"])],
    ),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), ["a", "b"]),
    "dictionary": pa.array(["a", "b", None]).dictionary_encode(),
    "decimal": pa.array([1, None, 3], pa.decimal128(38, 0)),
}


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("name", VICTIMS)
def test_damaged_batches(agent: Agent, name: str, codec: str | None) -> None:
    """Offsets, indices, null counts, lengths, places of buffers: any byte of a message."""
    chance = random.Random(f"{name} {codec}")
    (schema, _), *rest = ipc(pa.record_batch({"c": VICTIMS[name]}), codec)
    with unharmed(agent):
        for n in range(60 if SOAK else 30):
            sent = [path("dataset", f"{name}-{n}") + message(schema)]
            for header, body in rest:
                damaged = [bytearray(header), bytearray(body)]
                for _ in range(chance.randint(1, 3)):
                    part = chance.choice([each for each in damaged if each])
                    part[chance.randrange(len(part))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
                sent.append(message(bytes(damaged[0]), bytes(damaged[1])))
            none_or_named(agent.stream("DoPut", sent))


def test_bodies_of_another_length(agent: Agent) -> None:
    batch = pa.record_batch({"k": range(100), "s": ["text"] * 100})
    (schema, _), (header, body) = ipc(batch)
    first = fresh() + message(schema)
    with unharmed(agent):
        for cut in (b"", None, body[:1], body[:8], body[: len(body) // 2], body[:-8]):
            named(agent.stream("DoPut", [first, message(header, cut)]))
        none_or_named(agent.stream("DoPut", [first, message(header, body + b"x" * 1000)]))


def test_batches_of_nothing(agent: Agent) -> None:
    def claims(n_rows: int) -> bytes:
        header, body = ipc(pa.record_batch({"n": pa.nulls(77)}))[1]
        return message(
            header.replace((77).to_bytes(8, "little"), n_rows.to_bytes(8, "little")), body
        )

    nulls = schema_of(pa.field("n", pa.null()))
    with unharmed(agent):
        for n_rows in (2**31, 2**40, 2**62):
            named(agent.stream("DoPut", [nulls, claims(n_rows)]))
        none_or_named(agent.stream("DoPut", [nulls, claims(0)]))
        named(agent.stream("DoPut", [schema_of()]))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_bombs(agent: Agent, codec: str) -> None:
    zeros = pa.record_batch({"k": pa.array([0] * (32 << 20), pa.int64())})  # 256 MiB
    bomb = put(zeros, codec=codec)
    del zeros
    (_, _), (header, body) = ipc(pa.record_batch({"k": [7] * 1000}), codec)
    first = schema_of(pa.field("k", pa.int64()))
    with unharmed(agent):
        for _ in range(3):
            error = agent.stream("DoPut", bomb)
            named(error)
            assert "once they are decompressed" in error.details()  # type: ignore[union-attr]
        for claim in (-1, -7, 0, 8, 1 << 62):
            lie = claim.to_bytes(8, "little", signed=True) + body[8:]
            none_or_named(agent.stream("DoPut", [first, message(header, lie)]))


# ---- G5, G6: streams and schemas


def test_messages_out_of_order(agent: Agent) -> None:
    words = pa.record_batch({"w": pa.array(["a", "b"]).dictionary_encode()})
    (schema, _), dictionary, rows = ipc(words)
    first = fresh() + message(schema)
    other = ipc(pa.record_batch({"x": [[1.0]], "y": ["z"]}))
    with unharmed(agent):
        for sent in (
            [fresh() + message(*rows)],
            [first, message(schema)],
            [first, message(*rows)],  # its dictionary is missing
            [first, message(*other[1])],
            [first, message(*other[0]), message(*other[1])],
        ):
            named(agent.stream("DoPut", sent))
        replaced = [first, message(*dictionary), message(*rows)] + [message(*dictionary)] * 50
        none_or_named(agent.stream("DoPut", [*replaced, message(*rows)]))


def nested(depth: int) -> pa.DataType:
    kind = pa.int64()
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


@pytest.mark.parametrize("verb", ["DoPut", "DoExchange"])
def test_every_order_of_messages(agent: Agent, verb: str) -> None:
    """Of up to four: rows, two dictionaries, schemas, and what has no header."""
    words = pa.array(["a", "b", "a"]).dictionary_encode()
    (schema, _), *rest = ipc(pa.record_batch({"d": words, "e": words}))
    kinds = [message(schema), *(message(*each) for each in rest)]
    kinds += [field(3, b"metadata only"), field(1000, b"a body only"), b""]
    with unharmed(agent):
        for n in range(4):
            orders = list(itertools.product(kinds, repeat=n))
            for behind in sampled(orders, 100, salt=verb):  # all of up to three
                none_or_named(agent.stream(verb, [fresh() + kinds[0], *behind]))


def test_no_header_behind_a_dictionary(agent: Agent) -> None:
    """It once ended the agent inside of Arrow."""
    words = pa.array(["a", "b", "a"]).dictionary_encode()
    (schema, _), *rest = ipc(pa.record_batch({"d": words}))
    dictionary, rows = (message(*each) for each in rest)
    first, bare = [fresh() + message(schema), dictionary], field(3, b"metadata only")
    for sent in ([*first, bare], [*first, rows, dictionary, bare]):
        assert "no Arrow header came behind" in str(agent.stream("DoPut", sent))
    assert agent.stream("DoPut", [*first, rows, bare]) is None


def test_schemas_without_measure(agent: Agent) -> None:
    number = pa.int64()
    with unharmed(agent):
        for first in (
            schema_of(pa.field("c", nested(64))),
            schema_of(pa.field("c", nested(200))),
            schema_of(*(pa.field(f"c{n}", number) for n in range(10_000))),
            schema_of(pa.field("c", number), pa.field("c", number)),
            schema_of(pa.field("", number)),
            schema_of(pa.field("a\0b", number)),
            schema_of(pa.field("x" * (1 << 20), number)),
            schema_of(pa.field("c", number), key=b"x" * (100 << 20)),
        ):
            named(agent.stream("DoPut", [first]))


def test_schemas_that_unfold(agent: Agent) -> None:
    """One field, one text at many places: gigabytes of what came as a megabyte."""
    kind: pa.DataType = pa.int8()
    for _ in range(20):
        kind = pa.struct([("a", kind), ("b", pa.int8())])
    long, tiny = "x" * (1 << 20), [pa.field(str(n), pa.int8()) for n in range(10_000)]
    with unharmed(agent):
        _, _, before = agent.holds()
        for schema in (
            pa.schema([pa.field(long, pa.int8()), *tiny]),
            pa.schema([pa.field("c", pa.int8(), metadata={"k": long}), *tiny]),
            pa.schema([pa.field("c", pa.timestamp("s", long)), *tiny]),
            pa.schema([pa.field("c", kind)], metadata={"k": long}),
        ):
            data = folded(schema)
            header = data[8 : 8 + int.from_bytes(data[4:8], "little")]
            for verb in ("DoPut", "DoExchange"):
                named(agent.stream(verb, [fresh() + message(header)]))
            begin = {"name": "d", "schema": base64.b64encode(data).decode()}
            body = json.dumps(begin).encode()
            named(agent.ask("DoAction", field(1, b"dataset.begin") + field(2, body)))
        status = Path(f"/proc/{agent.pid}/status").read_text()
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
        assert int(peak) << 10 <= before + (1 << 30)  # of all tests until now


def test_dictionaries_that_grow(agent: Agent) -> None:
    """Each delta is small; all of them are held."""
    words = pa.array(["x" * (4 << 20)])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", emit_dictionary_deltas=True)
    schema = pa.schema([pa.field("c", pa.dictionary(pa.int32(), pa.string()))])
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for more in (words, pa.concat_arrays([words, words])):
            column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), more)
            writer.write_batch(pa.record_batch([column], schema=schema))
    first, *rest = (
        (m.metadata.to_pybytes(), m.body.to_pybytes() if m.body is not None else b"")
        for m in pa.MessageReader.open_stream(sink.getvalue())
    )
    delta = [message(*one) for one in rest[2:]]
    with unharmed(agent):
        sent = [fresh() + message(first[0]), *(message(*one) for one in rest), *(delta * 100)]
        named(agent.stream("DoPut", sent))


# ---- G9, G10: protobuf and names


NAMES = [
    "../../etc/passwd", "/etc/passwd", "a\0b", "%2e%2e%2f", "\u202e\u0000", "x" * 100_000, "",
    "job-1'; DROP TABLE jobs; --", "{{7*7}}", "\n\nfake log line",
]  # fmt: skip
TICKETS = [b"", b"\xff" * 100, b"\x80\x04\x95.", b"../../etc/passwd", b"\0" * 40, b"t" * (4 << 20)]


def test_protobuf_that_is_none(agent: Agent) -> None:
    chance = random.Random(7)
    garbage = [b"\xff" * 100, b"\x08", b"\x0a\xff\xff\xff\xff\x0f", chance.randbytes(1000)]
    good = put(pa.record_batch({"k": [1]}))
    with unharmed(agent):
        for data in garbage:
            for verb in ("DoGet", "ListFlights", "DoAction", "GetFlightInfo", "GetSchema"):
                none_or_named(agent.ask(verb, data))
            for verb in ("DoPut", "DoExchange", "Handshake"):
                none_or_named(agent.stream(verb, [data]))
        named(agent.stream("DoPut", [good[0][len(fresh()) :], *good[1:]]))
        both = field(1, b"\x08\x01" + field(2, b"SELECT 1") + field(3, b"dataset"))
        named(agent.stream("DoPut", [both + good[0][len(fresh()) :]]))
        metadata = fresh() + field(3, b"x" * (100 << 20)) + good[0]
        none_or_named(agent.stream("DoPut", [metadata]))


def test_names_and_tickets(agent: Agent) -> None:
    first = put(pa.record_batch({"k": [1]}))[0][len(fresh()) :]
    with unharmed(agent):
        for ticket in TICKETS:
            named(agent.ask("DoGet", field(1, ticket)))
        for name in NAMES:
            for parts in (
                (name,),
                ("dataset", name),
                ("job", name, name),
                ("state", name, "a", "b"),
            ):
                descriptor = b"\x08\x01" + b"".join(field(3, part.encode()) for part in parts)
                for verb in ("GetFlightInfo", "GetSchema", "PollFlightInfo"):
                    named(agent.ask(verb, descriptor))
                if parts[0] != "dataset" or name not in NAMES[-3:]:
                    named(agent.stream("DoPut", [path(*parts) + first]))
            none_or_named(agent.ask("DoAction", field(1, name.encode()) + field(2, b"{}")))
            none_or_named(
                agent.ask("DoAction", field(1, b"dataset.drop") + field(2, name.encode()))
            )


# ---- G11: values


def test_values_that_no_kernel_may_see(agent: Agent) -> None:
    invalid = pa.StringArray.from_buffers(
        2, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"\xff\xfe\xc0\x80")
    )
    large = pa.Array.from_buffers(pa.decimal128(3, 0), 1, [None, pa.py_buffer(b"\x7f" * 16)])
    strict = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    rows = ipc(pa.record_batch({"k": [1, None]}))[1]
    with unharmed(agent):
        for array in (invalid, large):
            named(agent.stream("DoPut", put(pa.record_batch({"c": array}))))
        named(agent.stream("DoPut", [schema_of(*strict), message(*rows)]))
        floats = pa.array([float("nan"), -0.0, 0.0, float("inf")])
        instants = pa.array([2**63 - 1, -(2**63)], pa.int64()).cast(pa.timestamp("s"))
        for n, array in enumerate((floats, instants)):
            assert agent.stream("DoPut", put(pa.record_batch({"c": array}), f"odd-{n}")) is None


# ---- G12: streams that hang


@contextmanager
def half_open(agent: Agent, verb: str, first: list[bytes], n: int) -> Iterator[None]:
    """So many calls on one connection, each silent after its first messages."""
    over = threading.Event()

    def messages() -> Iterator[bytes]:
        yield from first
        over.wait(120)

    with agent.channel() as channel:
        open_call = channel.stream_stream(SERVICE + verb)
        calls = [open_call(messages(), metadata=agent.metadata) for _ in range(n)]
        try:
            yield
        finally:
            over.set()
            for call in calls:
                call.cancel()


@pytest.mark.parametrize(
    ("verb", "n_inside"), [("DoPut", 300), ("DoExchange", 300), ("Handshake", 512 // 4)]
)
def test_300_half_open_streams(agent: Agent, verb: str, n_inside: int) -> None:
    first = [put(pa.record_batch({"k": [1]}), "half")[0]] if verb == "DoPut" else []
    with unharmed(agent):
        threads, _, _ = agent.holds()
        with half_open(agent, verb, first, 300):
            wait_until(lambda: agent.holds()[0] > threads + n_inside - 50, 60)
            assert any(agent.answers() for _ in range(3))
            assert agent.holds()[0] < threads + 350
            wait_until(lambda: agent.holds()[0] < threads + n_inside + 50, 60)
            wait_until(lambda: agent.holds()[0] < threads + 50, 60)  # silence costs the connection


@pytest.mark.parametrize("greeting", [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01"])
def test_1000_idle_sockets(agent: Agent, greeting: bytes) -> None:
    host, port = agent.address.split(":")
    with unharmed(agent):
        threads, descriptors, _ = agent.holds()
        with ExitStack() as stack:
            for _ in range(1000):
                one = stack.enter_context(socket.create_connection((host, int(port))))
                one.sendall(greeting)
            assert any(agent.answers() for _ in range(3))
            assert agent.holds()[0] <= threads + 20
            wait_until(lambda: agent.holds()[1] <= descriptors + 50, 60)  # all were closed


def test_clients_that_reset_or_drip(agent: Agent) -> None:
    big = b"".join(put(pa.record_batch({"s": ["x" * 1_000_000]})))
    host, port = agent.address.split(":")
    with unharmed(agent):
        for n_bytes in (1, 24, 100, 1000):
            with socket.create_connection((host, int(port))) as one:
                one.sendall((b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + big)[:n_bytes])
        for _ in range(20):
            with agent.channel() as channel:
                call = channel.stream_stream(SERVICE + "DoPut")(
                    iter([big] * 50), metadata=agent.metadata
                )
                call.cancel()
