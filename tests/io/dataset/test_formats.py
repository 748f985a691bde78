"""Dataset files against an oracle in Python: what is written, what is read, what is noticed."""

from __future__ import annotations

import base64
import json
import tempfile
import threading
import zlib
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric.errors import DataError, NotFoundError, PartitionLostError, StorageError
from fabric.flight.descriptor import PutPath
from fabric.flight.ticket import DatasetRequest, Part
from fabric.io.dataset.access import DatasetFiles
from tests.support.arrays import batches, examples, rendered

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
PUT = PutPath("d", "tx-1", "w", 0)


def request(partition: int, *parts: tuple[str, int]) -> DatasetRequest:
    named = tuple(Part("tx-1", writer, attempt) for writer, attempt in parts or (("w", 0),))
    return DatasetRequest(name="d", version=1, partition=partition, parts=named)


def rows(begin: int, n: int) -> pa.RecordBatch:
    values = range(begin, begin + n)
    return pa.record_batch({"k": values, "v": [f"row {v}" for v in values]}, SCHEMA)


def columns(given: list[pa.RecordBatch], schema: pa.Schema) -> list[list[str]]:
    return [list(chain(*(rendered(b.column(i)) for b in given))) for i in range(len(schema))]


def manifest(path: Path) -> dict[str, Any]:
    """The fields of a manifest, read as any JSON is."""
    text, check, nothing = path.read_bytes().split(b"\n")
    assert (check, nothing) == (b"%08x" % zlib.crc32(text), b"")
    fields: dict[str, Any] = json.loads(text)
    assert json.dumps(fields, sort_keys=True).encode() == text
    return fields


def write_by_hand(root: Path, parts: dict[int, list[pa.RecordBatch]], schema: pa.Schema) -> None:
    """One sealed attempt as earlier versions wrote it, from Python."""
    folder = root / "d" / "tx-1" / "w-0-0123456789ab"
    folder.mkdir(parents=True)
    files = {}
    for partition, held in parts.items():
        n_rows, path = sum(b.num_rows for b in held), folder / f"p{partition:05d}.arrows"
        files[str(partition)] = [0, 0, 0]
        if n_rows:
            with pa.ipc.new_stream(path, schema) as stream:
                for batch in held:
                    stream.write_batch(batch)
            data = path.read_bytes()
            files[str(partition)] = [n_rows, len(data), zlib.crc32(data)]
    fields = {
        "version": 1,
        "folder": folder.name,
        "schema": base64.b64encode(schema.serialize()).decode(),
        "rows": sum(b.num_rows for held in parts.values() for b in held),
        "crc32c_sum": 0,
        "files": files,
    }
    text = json.dumps(fields, sort_keys=True).encode()
    (folder.parent / "w-0.manifest").write_bytes(b"%s\n%08x\n" % (text, zlib.crc32(text)))


@st.composite
def puts(draw: st.DrawFn) -> tuple[pa.Schema, list[tuple[int, pa.RecordBatch]]]:
    """Slices of one batch of any types, for a few partitions, in any order."""
    batch = draw(batches())
    n = batch.num_rows
    writes = []
    for partition in draw(st.lists(st.integers(0, 40), max_size=12)):
        begin = draw(st.integers(0, n))
        writes.append((partition, batch.slice(begin, draw(st.integers(0, n - begin)))))
    return batch.schema, writes


@examples()
@given(puts(), st.booleans())
def test_what_is_written_is_read(
    given_put: tuple[pa.Schema, list[tuple[int, pa.RecordBatch]]], by_hand: bool
) -> None:
    schema, writes = given_put
    parts: dict[int, list[pa.RecordBatch]] = {}
    for partition, batch in writes:
        parts.setdefault(partition, []).append(batch)
    with tempfile.TemporaryDirectory() as folder:
        if by_hand:
            write_by_hand(Path(folder), parts, schema)
        files = DatasetFiles(folder)
        if not by_hand:
            writer = files.open_write(PUT, schema)
            for partition, batch in writes:
                writer.write(partition, batch)
            receipt = writer.seal()
            assert receipt.rows == sum(b.num_rows for _, b in writes)
            assert receipt.crc32c_sum == sum(batch_crc32c(b) for _, b in writes) & 0xFFFFFFFF
            check_on_disk(Path(folder), parts, schema)
        for partition, expected in parts.items():
            assert files.has(request(partition))
            got = list(files.read(request(partition)))
            assert all(batch.schema == schema for batch in got)
            assert columns(got, schema) == columns(expected, schema)
        with pytest.raises(PartitionLostError, match="does not belong to this agent"):
            files.read(request(41))


def check_on_disk(root: Path, parts: dict[int, list[pa.RecordBatch]], schema: pa.Schema) -> None:
    """What pyarrow and the manifest say about the files."""
    fields = manifest(root / "d" / "tx-1" / "w-0.manifest")
    assert pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields["schema"]))) == schema
    assert set(fields["files"]) == {str(partition) for partition in parts}
    for partition, held in parts.items():
        n_rows, n_bytes, crc32 = fields["files"][str(partition)]
        path = root / "d" / "tx-1" / fields["folder"] / f"p{partition:05d}.arrows"
        assert n_rows == sum(b.num_rows for b in held)
        assert path.exists() == (n_rows > 0)
        if n_rows:
            data = path.read_bytes()
            assert (n_bytes, crc32) == (len(data), zlib.crc32(data))
            with pa.ipc.open_stream(path) as stream:
                assert columns(list(stream), schema) == columns(held, schema)


def test_many_partitions_need_few_open_files(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    writer = files.open_write(PUT, SCHEMA)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    for turn in range(3):
        for partition in range(200):
            writer.write(partition, rows(1000 * turn + partition, 1))
    assert len(list(Path("/proc/self/fd").iterdir())) <= open_before + 40
    assert writer.seal().rows == 600
    assert len(list(Path("/proc/self/fd").iterdir())) <= open_before
    for partition in range(200):
        got = [key for b in files.read(request(partition)) for key in b["k"].to_pylist()]
        assert got == [partition, 1000 + partition, 2000 + partition]


def test_flipped_bits_and_cut_files_are_found(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    writer = files.open_write(PUT, SCHEMA)
    writer.write(0, rows(0, 300))
    writer.seal()
    (path,) = tmp_path.rglob("*.arrows")
    whole = path.read_bytes()
    for at in range(0, len(whole), 61):
        path.write_bytes(whole[:at])
        with pytest.raises(DataError, match=rf"cut short: it has {at} bytes of {len(whole)}"):
            files.read(request(0))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(DataError, match="is damaged"):
            files.read(request(0))
    path.write_bytes(whole + b"\0")
    with pytest.raises(DataError, match="is damaged"):
        files.read(request(0))
    path.write_bytes(whole)
    assert pa.Table.from_batches(files.read(request(0))).num_rows == 300


def test_parts_come_in_their_order_and_survive_their_files(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    for n in range(20):
        writer = files.open_write(PutPath("d", "tx-1", f"w{n}", n), SCHEMA)
        writer.write(0, rows(10 * n, 10))
        writer.seal()
    asked = request(0, *((f"w{n}", n) for n in range(20)))
    early, late = files.read(asked), files.read(asked)
    assert [key for b in early for key in b["k"].to_pylist()] == list(range(200))
    files.discard("d", "tx-1")
    got = [next(late)["k"][0].as_py() for _ in range(16)]  # opened before they were removed
    assert got == list(range(0, 160, 10))
    with pytest.raises(PartitionLostError, match=r"a file of partition 0 .* w16#16 .* is gone"):
        next(late)


def test_two_tries_of_one_attempt_leave_one(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    for turn in range(10):
        writers = [files.open_write(PUT, SCHEMA) for _ in range(4)]
        for n, writer in enumerate(writers):
            writer.write(0, rows(100 * turn + n, 5))
        threads = [threading.Thread(target=writer.seal) for writer in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(list(tmp_path.rglob("*.arrows"))) == 1
        ((first, *_),) = [b["k"].to_pylist() for b in files.read(request(0))]
        assert first in range(100 * turn, 100 * turn + 4)


def test_speculative_attempts_stand_side_by_side(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    for attempt in (1, 0, 2):
        writer = files.open_write(PutPath("d", "tx-1", "w", attempt), SCHEMA)
        writer.write(0, rows(attempt, 1))
        if attempt == 2:
            writer.abandon()
        else:
            writer.seal()
    for attempt in (0, 1):
        got = [b["k"].to_pylist() for b in files.read(request(0, ("w", attempt)))]
        assert got == [[attempt]]
    assert not files.has(request(0, ("w", 2)))
    with pytest.raises(PartitionLostError, match="writer w#2 of tx-1 is not on this agent"):
        files.read(request(0, ("w", 2)))


def test_a_discard_beside_writers_leaves_nothing(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    ends: list[str] = []

    def write(transaction: str, writer: str) -> None:
        try:
            put = files.open_write(PutPath("d", transaction, writer, 0), SCHEMA)
            for n in range(20):
                put.write(n % 3, rows(n, 10))
            put.seal()
            ends.append("sealed")
        except NotFoundError as error:
            ends.append(error.message.rsplit(" ", 3)[-1])

    for turn in range(10):
        transaction = f"tx-{turn}"
        threads = [threading.Thread(target=write, args=(transaction, f"w{n}")) for n in range(4)]
        for thread in threads:
            thread.start()
        files.discard("d", transaction)
        for thread in threads:
            thread.join(30)
        assert list(tmp_path.iterdir()) == []
    assert len(ends) == 40
    assert set(ends) <= {"sealed", "aborted"}


def test_a_writer_that_is_forgotten_leaves_nothing(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    writer = files.open_write(PUT, SCHEMA)
    writer.write(0, rows(0, 10))
    del writer
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_cannot_be_renamed_leaves_nothing(tmp_path: Path) -> None:
    writer = DatasetFiles(tmp_path).open_write(PUT, SCHEMA)
    writer.write(0, rows(10, 10))
    (tmp_path / "d" / "tx-1" / "w-0.manifest").mkdir()  # nothing can be renamed over it
    with pytest.raises(StorageError, match="can't write put d/tx-1/w#0: Is a directory"):
        writer.seal()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
