"""Datasets through Flight: transactions, plain puts, retries, broken streams, lost owners."""

from __future__ import annotations

import base64
import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric.errors import (
    ConfigError,
    DataError,
    FabricError,
    NotFoundError,
    PartitionLostError,
    PeerLostError,
    StorageError,
)
from fabric.flight.client import Client
from fabric.flight.connections import connect
from fabric.flight.descriptor import PutPath
from tests.support.flight_rig import FlightRig
from tests.support.wait import wait_until

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def table(begin: int, n: int) -> pa.Table:
    return pa.table({"k": range(begin, begin + n), "v": [f"row {i}" for i in range(n)]}, SCHEMA)


def encoded(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def begin(client: Client, name: str = "d", **fields: Any) -> str:
    answer = client.action("dataset.begin", **{"name": name, "schema": encoded(SCHEMA), **fields})
    return str(answer["transaction"])


def read(client: Client, name: str = "d") -> pa.Table:
    info = client.info(["dataset", name])
    return pa.Table.from_batches(client.read(info), info.schema).sort_by("k")


def test_begin_put_commit_read_drop(rig: FlightRig) -> None:
    with rig.client(agent="a0") as client, rig.client(agent="a1") as other:
        transaction = begin(client, keys=["k"], partitions=4)
        batches = table(0, 5000).to_batches(max_chunksize=700)
        ack = client.put(["dataset", "d", transaction, "w1", "0"], SCHEMA, batches)
        assert ack == {
            "transaction": transaction, "writer": "w1", "attempt": 0, "rows": 5000,
            "crc32c_sum": sum(map(batch_crc32c, batches)) & 0xFFFFFFFF,
        }  # fmt: skip
        other_ack = other.put(
            ["dataset", "d", transaction, "w2", "0"], SCHEMA, table(5000, 10).to_batches()
        )
        with pytest.raises(NotFoundError):
            client.info(["dataset", "d"])
        parts = [{"writer": w, "attempt": 0, "rows": a["rows"]}
                 for w, a in (("w1", ack), ("w2", other_ack))]  # fmt: skip
        done = other.action("dataset.commit", transaction=transaction, parts=parts)
        assert (done["version"], done["rows"], done["partitions"]) == (1, 5010, 4)
        assert other.action("dataset.commit", transaction=transaction, parts=parts) == done
        expected = pa.concat_tables([table(0, 5000), table(5000, 10)])
        assert read(client) == read(other) == expected
        info = client.info(["dataset", "d"])
        assert [e.app_metadata for e in info.endpoints] == [b"0", b"1", b"2", b"3"]
        assert json.loads(info.app_metadata) == {"version": 1, "keys": ["k"]}
        assert done["replicas"] == 1
        listed = client.action("dataset.list")["datasets"]
        assert listed == [{**done, "partitions_lacking": 0}]
        client.action("dataset.drop", name="d")
        with pytest.raises(NotFoundError, match="no dataset 'd'"):
            client.info(["dataset", "d"])
    assert [list(files.root.iterdir()) for files in rig.files.values()] == [[], []]


def test_equal_keys_share_a_partition(rig: FlightRig) -> None:
    rows = pa.table({"k": [i % 50 for i in range(1000)], "v": ["x"] * 1000}, SCHEMA)
    with rig.client() as client:
        transaction = begin(client, keys=["k"], partitions=5)
        client.put(["dataset", "d", transaction, "w", "0"], SCHEMA, rows.to_batches(99))
        part = {"writer": "w", "attempt": 0, "rows": 1000}
        client.action("dataset.commit", transaction=transaction, parts=[part])
        seen: dict[int, int] = {}
        for n, endpoint in enumerate(client.info(["dataset", "d"]).endpoints):
            for batch in client.read_endpoint(endpoint.ticket.ticket):
                for key in batch["k"].to_pylist():
                    assert seen.setdefault(key, n) == n
        assert len(seen) == 50
        assert len(set(seen.values())) > 1


def test_a_plain_put_appends_and_spreads_evenly(rig: FlightRig) -> None:
    with rig.client() as client:
        first = client.put(["dataset", "d"], SCHEMA, table(0, 100).to_batches())
        second = client.put(["dataset", "d"], SCHEMA, table(100, 51).to_batches(10))
        assert (first["version"], second["version"]) == (1, 2)
        assert read(client) == pa.concat_tables([table(0, 100), table(100, 51)])
        sizes = [
            sum(b.num_rows for b in client.read_endpoint(e.ticket.ticket))
            for e in client.info(["dataset", "d"]).endpoints
        ]
        assert sum(sizes) == 151
        assert max(sizes) - min(sizes) <= 10


def test_a_retry_of_an_attempt_replaces_it(rig: FlightRig) -> None:
    with rig.client() as client:
        transaction = begin(client)
        path = ["dataset", "d", transaction, "w", "0"]
        client.put(path, SCHEMA, table(0, 10).to_batches())
        client.put(path, SCHEMA, table(100, 7).to_batches())
        client.put([*path[:-1], "1"], SCHEMA, table(200, 3).to_batches())
        parts = [{"writer": "w", "attempt": 0, "rows": 7}]
        client.action("dataset.commit", transaction=transaction, parts=parts)
        assert read(client) == table(100, 7)
        with pytest.raises(NotFoundError, match=r"no open transaction .* it was committed"):
            client.put(path, SCHEMA, table(0, 1).to_batches())
        assert read(client) == table(100, 7)


def test_concurrent_writers_and_versions_of_readers(rig: FlightRig) -> None:
    def write(agent: str, writer: str, transaction: str, begin_row: int) -> None:
        with rig.client(agent=agent) as client:
            path = ["dataset", "d", transaction, writer, "0"]
            client.put(path, SCHEMA, table(begin_row, 1000).to_batches(100))

    with rig.client() as client:
        transaction = begin(client, keys=["k"])
        threads = [
            threading.Thread(target=write, args=(f"a{n % 2}", f"w{n}", transaction, n * 1000))
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        parts = [{"writer": f"w{n}", "attempt": 0, "rows": 1000} for n in range(4)]
        client.action("dataset.commit", transaction=transaction, parts=parts)
        before = client.info(["dataset", "d"])
        transaction = begin(client, mode="overwrite")
        client.put(["dataset", "d", transaction, "w", "0"], SCHEMA, table(0, 1).to_batches())
        parts = [{"writer": "w", "attempt": 0, "rows": 1}]
        client.action("dataset.commit", transaction=transaction, parts=parts)
        assert read(client) == table(0, 1)
        old = pa.Table.from_batches(client.read(before), SCHEMA)
        assert sorted(old["k"].to_pylist()) == list(range(4000))


def test_abort_leaves_nothing(rig: FlightRig) -> None:
    with rig.client() as client:
        transaction = begin(client)
        client.put(["dataset", "d", transaction, "w", "0"], SCHEMA, table(0, 10).to_batches())
        client.action("dataset.abort", transaction=transaction, name="d")
        with pytest.raises(NotFoundError, match=transaction):
            client.put(["dataset", "d", transaction, "w", "0"], SCHEMA, [])
        with pytest.raises(NotFoundError, match=transaction):
            client.action("dataset.commit", transaction=transaction, parts=[])
    assert_no_files(rig)


def test_two_subjects_with_one_key_keep_their_rows(rig: FlightRig) -> None:
    begun = {}
    for subject in ("ann", "bob"):
        with Client(rig.address(), rig.token("write", subject)) as client:
            begun[subject] = begin(client, mode="append", idempotency_key="load-7")
    assert len(set(begun.values())) == 2
    for n, (subject, transaction) in enumerate(begun.items(), 1):
        with Client(rig.address(), rig.token("write", subject)) as client:
            rows = table(10 * n, n).to_batches()
            client.put(["dataset", "d", transaction, "w", "0"], SCHEMA, rows)
            part = {"writer": "w", "rows": n}
            client.action("dataset.commit", transaction=transaction, parts=[part])
            with pytest.raises(ConfigError, match="committed already, with other parts"):
                client.action("dataset.commit", transaction=transaction, parts=[{"writer": "x"}])
    with rig.client("read") as client:
        assert read(client)["k"].to_pylist() == [10, 20, 21]


def test_begin_repeats_by_idempotency_key(rig: FlightRig) -> None:
    with rig.client() as client:
        one = begin(client, idempotency_key="x")
        assert begin(client, idempotency_key="x") == one
        assert begin(client, idempotency_key="y") != one


def test_the_wrong_columns_are_refused(rig: FlightRig) -> None:
    other = pa.schema([("k", pa.int32())])
    with rig.client() as client:
        transaction = begin(client)
        with pytest.raises(
            DataError, match="the stream has columns k: int32, dataset 'd' has k: int64"
        ):
            client.put(["dataset", "d", transaction, "w", "0"], other, [])
        client.put(["dataset", "e"], SCHEMA, [])
        with pytest.raises(DataError, match="k: int32"):
            client.put(["dataset", "e"], other, [])
        assert read(client, "e").num_rows == 0
    assert not list(rig.files["a0"].root.glob("d/*/*"))


def test_a_client_that_dies_commits_nothing(rig: FlightRig) -> None:
    code = f"""
import os, pyarrow as pa, pyarrow.flight as fl
client = fl.FlightClient({rig.address()!r})
header = (b"authorization", b"Bearer {rig.token("write")}")
batch = pa.record_batch({{"k": [1, 2]}})
writer, _ = client.do_put(fl.FlightDescriptor.for_path("dataset", "d"), batch.schema,
                          fl.FlightCallOptions(headers=[header]))
for _ in range(10):
    writer.write_batch(batch)
print("sent", flush=True)
input()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin
    assert child.stdout
    assert child.stdout.readline() == b"sent\n"
    wait_until(lambda: bool(rig.control.catalogue._transactions))
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    wait_until(lambda: not rig.control.catalogue._transactions)
    assert rig.control.catalogue.all() == []
    assert_no_files(rig)


def test_a_deadline_in_the_middle_commits_nothing(rig: FlightRig) -> None:
    header = (b"authorization", f"Bearer {rig.token('write')}".encode())
    with connect(rig.address()) as client:
        writer, _ = client.do_put(
            fl.FlightDescriptor.for_path("dataset", "d"),
            SCHEMA,
            fl.FlightCallOptions(timeout=3.0, headers=[header]),
        )
        writer.write_batch(table(0, 10).to_batches()[0])
        wait_until(lambda: bool(rig.control.catalogue._transactions))
        wait_until(lambda: not rig.control.catalogue._transactions)
        with pytest.raises(fl.FlightTimedOutError):
            writer.close()
    assert rig.control.catalogue.all() == []
    assert_no_files(rig)


def test_a_lost_owner_is_named_and_nothing_is_committed(rig: FlightRig) -> None:
    with rig.client() as client:
        client.put(["dataset", "d"], SCHEMA, table(0, 10).to_batches())
        rig.stop("a1")
        with pytest.raises(PeerLostError) as caught:
            client.put(["dataset", "d"], SCHEMA, table(10, 10).to_batches())
        assert "agent a1" in str(caught.value)
        assert client.info(["dataset", "d"]).total_records == 10
        with pytest.raises(PeerLostError):
            read(client)
    assert rig.control.catalogue.get("d").version == 1


def test_an_owner_that_is_not_connected_is_named(rig: FlightRig) -> None:
    with rig.client() as client:
        client.put(["dataset", "d"], SCHEMA, table(0, 10).to_batches())
        rig.control.addresses = {"a0": rig.address()}
        rig.control.push(full=True, datasets=rig.control.catalogue.all())
        info = client.info(["dataset", "d"])
        assert len(info.endpoints[1].locations) == 1
        with pytest.raises(PeerLostError, match="agent a1, which is not connected"):
            read(client)
        with pytest.raises(PeerLostError, match="agent a1 owns partitions of dataset 'd'"):
            client.put(["dataset", "d"], SCHEMA, table(0, 10).to_batches())


def test_a_full_disk_at_an_owner_is_named(rig: FlightRig) -> None:
    for files in rig.files.values():
        files.native.fail_at("sync", errno.ENOSPC)
    with rig.client() as client:
        with pytest.raises(StorageError, match="No space left on device") as caught:
            client.put(["dataset", "d"], SCHEMA, table(0, 10).to_batches())
        assert str(rig.files["a0"].root.parent) not in str(caught.value)
    assert rig.control.catalogue.all() == []
    assert_no_files(rig)


def files_of(rig: FlightRig) -> list[Path]:
    walks = (walk for files in rig.files.values() for walk in os.walk(files.root))
    return [Path(folder, name) for folder, _, names in walks for name in names]


def assert_no_files(rig: FlightRig) -> None:
    wait_until(lambda: not files_of(rig))


def test_damaged_and_cut_files_are_named(rig: FlightRig) -> None:
    with rig.client() as client:
        client.put(["dataset", "d"], SCHEMA, table(0, 1000).to_batches())
        path = next(p for p in files_of(rig) if p.suffix == ".arrows")
        whole = path.read_bytes()
        for n in range(0, len(whole), 997):
            path.write_bytes(whole[:n])
            with pytest.raises(DataError, match=r"'d' from writer put#0 .* is cut short"):
                read(client)
            path.write_bytes(whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :])
            with pytest.raises(DataError, match="is damaged"):
                read(client)
        path.unlink()
        with pytest.raises(PartitionLostError, match="is gone"):
            read(client)
        path.write_bytes(whole)
        assert read(client) == table(0, 1000)
        manifest = next(p for p in files_of(rig) if p.suffix == ".manifest")
        text = manifest.read_bytes()
        manifest.write_bytes(text.replace(b'"rows"', b'"rowz"'))
        with pytest.raises(DataError, match="manifest is damaged"):
            read(client)
        manifest.unlink()
        with pytest.raises(PartitionLostError, match="is not on this agent"):
            read(client)


def test_puts_to_owners_are_checked(rig: FlightRig) -> None:
    path = PutPath("d", "tx-1", "w", 0, to_owner=True).path
    with rig.client("write") as client, pytest.raises(NotFoundError, match="no open transaction"):
        client.put(path, SCHEMA, table(0, 1).to_batches())
    with rig.client("read") as client, pytest.raises(FabricError, match="scope 'write'"):
        client.put(path, SCHEMA, table(0, 1).to_batches())
    with rig.client("agent") as client:
        with pytest.raises(PartitionLostError, match=r"damaged header|version"):
            client.put(path, SCHEMA, table(0, 1).to_batches())
        with pytest.raises(PartitionLostError, match="ended before its rows did"):
            client.put(path, SCHEMA, [])
    assert_no_files(rig)


def test_a_stream_without_its_end_is_not_sealed(rig: FlightRig) -> None:
    put = PutPath("d", "tx-1", "w", 0)
    writer = rig.transports["a0"].open_put(rig.address("a1"), put, SCHEMA)
    writer.write(0, table(0, 10).to_batches()[0])
    writer.abandon()
    writer.abandon()
    assert_no_files(rig)


def test_wide_and_skewed_rows_all_arrive(rig: FlightRig) -> None:
    with rig.client() as client:
        transaction = begin(client, keys=["k"], partitions=64)
        batches = [
            pa.record_batch({"k": [7] * 999 + [n], "v": ["x" * 100] * 1000}, SCHEMA)
            for n in range(100)
        ]
        ack = client.put(["dataset", "d", transaction, "w", "0"], SCHEMA, batches)
        parts = [{"writer": "w", "attempt": 0, "rows": ack["rows"]}]
        client.action("dataset.commit", transaction=transaction, parts=parts)
        got = read(client)
        assert got.num_rows == 100_000
        assert got["k"].value_counts().field(1).to_pylist().count(1) == 99


def test_every_type_comes_back(rig: FlightRig) -> None:
    rows = pa.table(
        {
            "k": pa.array([1, None, 3]),
            "d": pa.array(["a", None, "b"]).dictionary_encode(),
            "l": pa.array([[1], None, []], pa.list_(pa.int32())),
            "s": pa.array([{"a": 1.5}, None, {"a": None}]),
            "v": pa.array(["short", None, "a long string view value"], pa.string_view()),
            "m": pa.array([None, 1, 2], pa.decimal128(20, 3)),
            "t": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
        }
    )
    with rig.client() as client:
        client.put(["dataset", "d"], rows.schema, rows.to_batches())
        info = client.info(["dataset", "d"])
        got = pa.Table.from_batches(client.read(info), info.schema)
    assert sorted(map(repr, got.to_pylist())) == sorted(map(repr, rows.to_pylist()))


def test_dictionaries_may_change_between_batches(rig: FlightRig) -> None:
    kind = pa.dictionary(pa.int32(), pa.string())
    batches = [
        pa.record_batch({"k": [n, n], "d": pa.array([f"a{n}", f"b{n}"]).cast(kind)})
        for n in range(20)
    ]
    with rig.client() as client:
        client.put(["dataset", "d"], batches[0].schema, batches)
        got = read(client)
    assert sorted(got["d"].to_pylist()) == sorted(v for b in batches for v in b["d"].to_pylist())
