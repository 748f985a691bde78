"""Puts as a hostile client makes them: nothing of them is ever seen, and the agent goes on."""

from __future__ import annotations

import base64
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.datasets.puts import check_foreign_batch
from fabric.errors import DataError, FabricError, NotFoundError
from fabric.flight.client import Client
from fabric.flight.connections import connect
from fabric.flight.ticket import DatasetRequest
from tests.support.arrays import arrays, examples
from tests.support.flight_rig import FlightRig
from tests.support.sampled import sampled
from tests.support.wait import wait_until

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def rows(n: int, begin: int = 0) -> pa.RecordBatch:
    keys = range(begin, begin + n)
    return pa.record_batch({"k": keys, "v": [f"row {k}" for k in keys]}, SCHEMA)


def begin(client: Client, **fields: Any) -> str:
    schema = base64.b64encode(SCHEMA.serialize()).decode()
    given_fields = {"name": "d", "schema": schema, "partitions": 4, **fields}
    return str(client.action("dataset.begin", **given_fields)["transaction"])


def files_of(rig: FlightRig) -> list[Path]:
    roots = [files.root for files in rig.files.values()]
    return [path for root in roots for path in root.rglob("*") if path.is_file()]


def n_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def n_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def nothing_stays(rig: FlightRig) -> Iterator[None]:
    """Whatever is done in here leaves no file, dataset, transaction or open call."""
    before = rig.control.catalogue.all(), files_of(rig)
    yield
    wait_until(lambda: all(server.n_open == 0 for server in rig.servers.values()))
    wait_until(lambda: (rig.control.catalogue.all(), files_of(rig)) == before)
    open_now = [t for t in rig.control.catalogue._transactions.values() if not t.version]
    assert open_now == []
    with rig.client() as client:
        assert client.action("healthcheck")["status"] == "ok"


# ---- rows that are not what they seem


def nested_views(depth: int) -> pa.Array:
    """2 ** depth numbers, in a few bytes."""
    array = pa.array([1, 2])
    for _ in range(depth):
        starts, sizes = pa.array([0, 0], pa.int32()), pa.array([2, 2], pa.int32())
        array = pa.ListViewArray.from_arrays(starts, sizes, array)
    return array


def repeated_text(kind: pa.DataType) -> pa.Array:
    """100,000 times a text of 100 kB, kept once."""
    one = pa.array(["x" * 100_000], kind)
    view = one.buffers()[1].to_pybytes()
    views = pa.py_buffer(view[:16] * 100_000)
    return pa.Array.from_buffers(kind, 100_000, [None, views, *one.buffers()[2:]])


def one_text_by_union() -> pa.Array:
    text = pa.array(["x" * 100_000])
    places = pa.array([0] * 100_000, pa.int32())
    return pa.UnionArray.from_dense(pa.array([0] * 100_000, pa.int8()), places, [text])


def many_nulls() -> pa.Array:
    offsets = pa.py_buffer(struct.pack("<2i", 0, 2**31 - 1))
    nulls = pa.nulls(2**31 - 1)
    return pa.Array.from_buffers(pa.list_(pa.null()), 1, [None, offsets], children=[nulls])


def one_run() -> pa.Array:
    run = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), ["x" * 1000])
    offsets = pa.py_buffer(struct.pack("<2i", 0, 2**31 - 1))
    return pa.Array.from_buffers(pa.list_(run.type), 1, [None, offsets], children=[run])


HUGE: dict[str, Callable[[], pa.Array]] = {
    "nested list views": lambda: nested_views(40),
    "string views": lambda: repeated_text(pa.string_view()),
    "binary views": lambda: repeated_text(pa.binary_view()),
    "union": one_text_by_union,
    "nulls": many_nulls,
    "runs": one_run,
    "fixed list": lambda: pa.FixedSizeListArray.from_arrays(pa.nulls(2**31 - 1), 2**31 - 1),
    "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0, 1]), nested_views(40)),
    "inside": lambda: pa.StructArray.from_arrays([pa.array([1, 2]), nested_views(40)], ["a", "b"]),
}


@pytest.mark.parametrize("name", HUGE)
def test_rows_that_unfold_without_end_are_refused(rig: FlightRig, name: str) -> None:
    batch = pa.record_batch({"c": HUGE[name]()})
    with pytest.raises(DataError, match="come to more than 1024 MiB"):
        check_foreign_batch(batch, batch.schema)
    with nothing_stays(rig), rig.client() as client, pytest.raises(DataError, match="dataset 'd'"):
        client.put(["dataset", "d"], batch.schema, [batch])


@examples(0.5)
@given(st.integers(0, 40).flatmap(lambda n: arrays(n, n)))
def test_honest_rows_pass(array: pa.Array) -> None:
    batch = pa.record_batch({"c": array})
    check_foreign_batch(batch, batch.schema)


def strict(kind: pa.DataType) -> pa.Field:
    return pa.field("x", kind, nullable=False)


NULLS: dict[str, tuple[pa.Field, pa.Array]] = {
    "dictionary": (
        pa.field("c", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None])),
    ),
    "runs": (
        pa.field("c", pa.run_end_encoded(pa.int32(), pa.string()), nullable=False),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["a", None])),
    ),
    "in a struct": (
        pa.field("c", pa.struct([strict(pa.int64())])),
        pa.StructArray.from_arrays([pa.array([1, None])], fields=[strict(pa.int64())]),
    ),
    "in a list": (
        pa.field("c", pa.list_(strict(pa.int64()))),
        pa.ListArray.from_arrays(
            pa.array([0, 1, 2], pa.int32()), pa.array([1, None]), type=pa.list_(strict(pa.int64()))
        ),
    ),
    "in a struct in a list": (
        pa.field("c", pa.list_(pa.struct([strict(pa.string())]))),
        pa.ListArray.from_arrays(
            pa.array([0, 1, 2], pa.int32()),
            pa.StructArray.from_arrays([pa.array(["a", None])], fields=[strict(pa.string())]),
        ),
    ),
}


@pytest.mark.parametrize("name", NULLS)
def test_nulls_are_found_at_any_depth(name: str) -> None:
    field, array = NULLS[name]
    batch = pa.record_batch([array], schema=pa.schema([field]))
    with pytest.raises(DataError, match=r"column 'c' .*holds nulls"):
        check_foreign_batch(batch, batch.schema)


def test_nulls_that_others_hide_are_fine() -> None:
    inner = pa.array([1, None])
    hidden = pa.StructArray.from_arrays(
        [inner], fields=[strict(pa.int64())], mask=pa.array([False, True])
    )
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 1], pa.int32()), inner, type=pa.list_(strict(pa.int64()))
    )
    batch = pa.record_batch({"s": hidden, "l": lists})
    check_foreign_batch(batch, batch.schema)


@examples(0.5)
@given(st.integers(1, 20).flatmap(lambda n: arrays(n, n)))
def test_any_column_may_be_a_key(shared: FlightRig, array: pa.Array) -> None:
    batch = pa.record_batch({"k": array})
    schema = base64.b64encode(batch.schema.serialize()).decode()
    with shared.client() as client:
        transaction = begin(client, schema=schema, keys=["k"], mode="overwrite")
        ack = client.put(["dataset", "d", transaction, "w", "0"], batch.schema, [batch])
        assert ack["rows"] == batch.num_rows


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightRig]:
    with FlightRig(tmp_path_factory.mktemp("rig")) as rig:
        yield rig


# ---- metadata, no rows, names


def test_names_inside_that_are_no_text_are_refused(rig: FlightRig, raw_put: Any, wire: Any) -> None:
    flight_data, ipc = wire
    schema, *messages = ipc(pa.record_batch({"c": pa.array([{"name": 1}])}))
    header = schema.metadata.to_pybytes().replace(b"name", b"\xff\xfe\xfd\xfc")
    sent = [flight_data(header=header, path=["dataset", "d"]), *map(flight_data, messages)]
    with nothing_stays(rig):
        error = raw_put(sent)
    assert error is not None
    assert "the type of column 'c' is not UTF-8 text" in error.details()


def pyarrow_put(rig: FlightRig, path: list[str], write: Callable[[Any], None]) -> None:
    """A put by pyarrow alone."""
    header = (b"authorization", f"Bearer {rig.token('write')}".encode())
    options = fl.FlightCallOptions(timeout=30, headers=[header])
    with connect(rig.address("a0")) as client:
        descriptor = fl.FlightDescriptor.for_path(*path)
        writer, acks = client.do_put(descriptor, SCHEMA, options)
        with writer:
            write(writer)
            writer.done_writing()
            acks.read()


METADATA = [b"", b"\0", b"\xff" * 1000, b'{"rows": 5}', b"\x08\x01" * 50]


def test_metadata_of_plain_puts_means_nothing(rig: FlightRig) -> None:
    def write(writer: Any) -> None:
        for metadata in METADATA:
            writer.write_metadata(metadata or b"x")
            writer.write_with_metadata(rows(10), metadata)

    pyarrow_put(rig, ["dataset", "d"], write)
    assert rig.control.catalogue.get("d").rows == 10 * len(METADATA)


@pytest.mark.parametrize("metadata", METADATA)
@pytest.mark.parametrize("with_rows", [True, False])
def test_metadata_that_is_no_header_ends_a_put_to_an_owner(
    rig: FlightRig, metadata: bytes, with_rows: bool
) -> None:
    def write(writer: Any) -> None:
        if with_rows:
            writer.write_with_metadata(rows(1), metadata)
        else:
            writer.write_metadata(metadata or b"x")

    with rig.client() as client:
        path = ["dataset", "d", begin(client), "w", "0", "owner"]
        with pytest.raises(fl.FlightUnavailableError, match="put to dataset 'd': edge 0 from task"):
            pyarrow_put(rig, path, write)
    assert files_of(rig) == []


def test_a_put_without_rows_is_a_dataset_without_rows(rig: FlightRig) -> None:
    words = pa.schema([("k", pa.int64()), ("w", pa.dictionary(pa.int8(), pa.string()))])
    with rig.client() as client:
        for name, schema in (("d", SCHEMA), ("w", words)):
            assert client.put(["dataset", name], schema, [])["rows"] == 0
            assert client.put(["dataset", name], schema, [])["version"] == 2
            info = client.info(["dataset", name])
            assert info.schema == schema
            assert sum(batch.num_rows for batch in client.read(info)) == 0


def test_agents_read_a_dataset_without_parts(rig: FlightRig) -> None:
    with rig.client() as client:
        client.action("dataset.commit", transaction=begin(client), parts=[])
        assert sum(batch.num_rows for batch in client.read(client.info(["dataset", "d"]))) == 0
    request = DatasetRequest(name="d", version=1, partition=0, parts=())
    assert list(rig.transports["a1"].read_dataset(rig.address("a0"), request)) == []


def test_errors_name_dataset_and_agent(rig: FlightRig) -> None:
    other = pa.schema([("k", pa.string())])
    extension = pa.schema([pa.field("k", pa.uuid())])
    with rig.client(agent="a1") as client:
        client.put(["dataset", "d"], SCHEMA, [rows(1)])
        attempts = [
            (["dataset", "d"], other),
            (["dataset", "d"], extension),
            (["dataset", "d", "tx-9", "w", "0"], SCHEMA),
            (["dataset", "d", "tx-9", "w", "0", "owner"], SCHEMA),
            (["dataset", "d", begin(client, mode="append", partitions=0), "w", "0"], other),
        ]
        for path, schema in attempts:
            with pytest.raises(FabricError) as caught:
                client.put(path, schema, [])
            assert "dataset 'd'" in caught.value.message
            assert caught.value.where.agent == "a1"


# ---- streams that do not end as they should


def test_silence_holds_nobody_up_and_leaves_nothing(rig: FlightRig) -> None:
    with rig.client() as client:
        client.put(["dataset", "kept"], SCHEMA, [rows(100)])
    with nothing_stays(rig), rig.client() as silent, rig.client() as other:
        puts = [silent.open_put(["dataset", f"d{n}"], SCHEMA) for n in range(20)]
        for put in puts:
            put.write(rows(1000))
        wait_until(lambda: rig.servers["a0"].n_open == 20)
        assert sum(b.num_rows for b in other.read(other.info(["dataset", "kept"]))) == 100
        with pytest.raises(NotFoundError):
            other.info(["dataset", "d0"])
        for put in puts:
            put.abandon()


def test_an_agent_stops_although_clients_are_silent(rig: FlightRig) -> None:
    with rig.client() as silent:
        put = silent.open_put(["dataset", "d"], SCHEMA)
        put.write(rows(1000))
        wait_until(lambda: rig.servers["a0"].n_open == 1)
        server = rig.servers.pop("a0")
        server.stop(0.1)
        with pytest.raises(FabricError):
            put.finish()
        put.abandon()
    wait_until(lambda: files_of(rig) == [])
    assert rig.control.catalogue.all() == []


class Relay:
    """A wire to an agent that is cut after so many bytes of the client, all at once."""

    def __init__(self, address: str, n_bytes: int) -> None:
        self._to = ("127.0.0.1", int(address.rpartition(":")[2]))
        self._left = n_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"grpc+tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            client, _ = self._listener.accept()
            with client, socket.create_connection(self._to) as server:
                back = threading.Thread(target=self._copy, args=(server, client))
                back.start()
                while self._left > 0 and (data := client.recv(min(self._left, 4096))):
                    self._left -= len(data)
                    server.sendall(data)
                for end in (client, server):
                    linger = struct.pack("ii", 1, 0)  # a close without a farewell
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                back.join()

    @staticmethod
    def _copy(source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(4096):
                to.sendall(data)


@pytest.mark.parametrize("kind", ["plain", "attempt"])
def test_a_wire_that_is_cut_anywhere_leaves_all_or_nothing(rig: FlightRig, kind: str) -> None:
    batches = [rows(500, begin=500 * n) for n in range(10)]
    seen = set()
    for n_bytes in sampled(range(500, 150_000, 6_000), 8, salt=kind):
        with rig.client() as direct, Relay(rig.address("a0"), n_bytes) as relay:
            path = ["dataset", f"d{n_bytes}"]
            if kind == "attempt":
                path += [begin(direct, name=path[1]), "w", "0"]
            with suppress(FabricError), Client(relay.address, rig.token("write")) as client:
                client.put_once(path, SCHEMA, batches)
        wait_until(lambda: all(server.n_open == 0 for server in rig.servers.values()))
        if kind == "plain":
            seen.add(sum(d.rows for d in rig.control.catalogue.all() if d.name == path[1]))
        else:
            sealed = {p.parent for p in files_of(rig) if p.suffix == ".manifest"}
            folders = {p.parent.parent for p in files_of(rig) if p.suffix == ".arrows"}
            assert folders <= sealed
    assert seen <= {0, 5000}
    if kind == "plain":
        live = {p.transaction for d in rig.control.catalogue.all() for p in d.parts}
        wait_until(lambda: {p.relative_to(p.parents[3]).parts[-3] for p in files_of(rig)
                            if p.suffix == ".arrows"} <= live)  # fmt: skip


def test_a_put_into_a_dataset_that_is_dropped_meanwhile(rig: FlightRig) -> None:
    with rig.client() as client, nothing_stays(rig):
        client.put(["dataset", "d"], SCHEMA, [rows(10)])
        put = client.open_put(["dataset", "d"], SCHEMA)
        put.write(rows(10))
        wait_until(lambda: any(not t.version for t in rig.control.catalogue._transactions.values()))
        client.action("dataset.drop", name="d")
        with pytest.raises(NotFoundError, match="dataset 'd'"):
            put.finish()


# ---- many at once


@pytest.mark.parametrize("end", ["finish", "abandon"])
def test_a_hundred_puts_at_once(rig: FlightRig, end: str) -> None:
    n_partitions, n_puts = 64, 100
    with rig.client() as client:
        transaction = begin(client, name="all", keys=["k"], partitions=n_partitions)
        client.action("dataset.commit", transaction=transaction, parts=[])

        def put(n: int) -> None:
            with rig.client(agent=f"a{n % 2}") as own:
                writer = own.open_put(["dataset", "all"], SCHEMA)
                for turn in range(4):
                    writer.write(rows(1000, begin=4000 * n + 1000 * turn))
                if end == "finish":
                    writer.finish()
                writer.abandon()

        def put_all(first: int) -> None:
            with ThreadPoolExecutor(n_puts) as pool:
                list(pool.map(put, range(first, first + n_puts)))
            wait_until(lambda: all(server.n_open == 0 for server in rig.servers.values()))

        put_all(0)  # connections between agents are kept
        threads, descriptors = n_threads(), n_descriptors()
        put_all(n_puts)
        expected = 2 * 4000 * n_puts if end == "finish" else 0
        assert rig.control.catalogue.get("all").rows == expected
        found = pa.Table.from_batches(client.read(client.info(["dataset", "all"])))
        assert sorted(found["k"].to_pylist()) == list(range(expected))
    if end == "abandon":
        wait_until(lambda: files_of(rig) == [])
    wait_until(lambda: n_descriptors() <= descriptors + 40)
    wait_until(lambda: n_threads() <= threads + 20)
