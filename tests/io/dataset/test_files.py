"""Dataset files: aside, sealed, read, swept; crashes and hostile names."""

from __future__ import annotations

import errno
import os
import zlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from fabric.errors import (
    ConfigError,
    DataError,
    InternalError,
    NotFoundError,
    PartitionLostError,
    StorageError,
)
from fabric.flight.descriptor import PutPath
from fabric.flight.ticket import DatasetRequest, Part
from fabric.io.dataset.access import DatasetFiles

SCHEMA = pa.schema([("k", pa.int64())])
PUT = PutPath("d", "tx-1", "w", 0)
PART = Part("tx-1", "w", 0)
REQUEST = DatasetRequest(name="d", version=1, partition=0, parts=(PART,))


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"k": list(values)}, SCHEMA)


def seal(files: DatasetFiles, put: PutPath = PUT, *values: int) -> None:
    writer = files.open_write(put, SCHEMA)
    writer.write(0, batch(*values))
    assert writer.seal().rows == len(values)


def values(files: DatasetFiles, request: DatasetRequest = REQUEST) -> list[int]:
    return [v for b in files.read(request) for v in b["k"].to_pylist()]


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.rglob("*") if p.is_file()}


def test_nobody_sees_what_is_not_sealed(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path, "a1")
    writer = files.open_write(PUT, SCHEMA)
    writer.write(0, batch(1, 2))
    writer.write(3, batch())
    with pytest.raises(
        PartitionLostError, match=r"writer w#0 of tx-1 is not on this agent \(agent a1"
    ):
        values(files)
    assert not files.has(REQUEST)
    writer.seal()
    assert values(files) == [1, 2]
    assert values(files, replace(REQUEST, partition=3)) == []
    assert [found.schema for found in files.read(REQUEST)] == [SCHEMA]
    assert list(files.read(replace(REQUEST, parts=()))) == []
    with pytest.raises(InternalError, match="has ended: it is sealed"):
        writer.write(0, batch(1))
    writer.abandon()
    assert values(files) == [1, 2]


def test_a_put_after_the_abort_is_refused(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    late = files.open_write(PUT, SCHEMA)
    files.discard(PUT.name, PUT.transaction)
    with pytest.raises(NotFoundError, match=r"put d/tx-1/w#0 comes too late: .* was aborted"):
        late.seal()
    with pytest.raises(NotFoundError, match=r"put d/tx-1/w#1 comes too late: .* was aborted"):
        files.open_write(replace(PUT, attempt=1), SCHEMA)
    seal(files, replace(PUT, transaction="tx-2"), 1)
    assert not (tmp_path / "d" / "tx-1").exists()


def test_abandoning_leaves_nothing(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    writer = files.open_write(PUT, SCHEMA)
    writer.write(0, batch(1))
    writer.abandon()
    writer.abandon()
    assert names(tmp_path) == set()
    with pytest.raises(InternalError, match="it is abandoned"):
        writer.seal()


def test_a_retry_replaces_and_readers_keep_what_they_began(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    seal(files, PUT, 1, 2)
    first = files.read(REQUEST)
    assert next(first)["k"].to_pylist() == [1, 2]
    seal(files, PUT, 3)
    assert values(files) == [3]
    assert list(first) == []
    assert len(list(tmp_path.rglob("*.arrows"))) == 1


def test_restart_keeps_sealed_and_removes_the_rest(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    seal(files, PUT, 1, 2)
    left = files.open_write(PutPath("d", "tx-1", "w", 1), SCHEMA)
    left.write(0, batch(9))
    (tmp_path / "d" / "tx-1" / "w-0-aaaaaaaaaaaa.aside").write_bytes(b"half")
    again = DatasetFiles(tmp_path)
    assert values(again) == [1, 2]
    assert len(names(tmp_path)) == 2
    left.abandon()


@pytest.mark.parametrize("step", ["mkdir", "write", "sync", "rename"])
def test_a_full_disk_at_any_step_leaves_nothing_half(tmp_path: Path, step: str) -> None:
    files = DatasetFiles(tmp_path)
    seal(files, PUT, 1)
    before = names(tmp_path)
    files.native.fail_at(step, errno.ENOSPC)
    with pytest.raises(StorageError, match="can't write put d/tx-1/w#0: No space left") as caught:
        seal(files, PUT, 2)
    assert str(tmp_path) not in str(caught.value)
    files.native.fail_at(step, 0)
    assert names(tmp_path) == before
    assert values(files) == [1]
    assert values(DatasetFiles(tmp_path)) == [1]


HOSTILE = ["..", "../x", "/etc", "a/b", "a\0b", "", ".", "%2e%2e", "é", "x" * 200]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_touch_nothing(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    files = DatasetFiles(tmp_path / "files")
    for put in (replace(PUT, name=name), replace(PUT, transaction=name), replace(PUT, writer=name)):
        with pytest.raises((NotFoundError, ConfigError), match="is not allowed"):
            files.open_write(put, SCHEMA)
    for part in (replace(PART, transaction=name), replace(PART, writer=name)):
        with pytest.raises((NotFoundError, ConfigError), match="is not allowed"):
            files.read(replace(REQUEST, parts=(part,)))
    with pytest.raises(NotFoundError, match="is not allowed"):
        files.read(replace(REQUEST, name=name))
    with pytest.raises(NotFoundError, match="is not allowed"):
        files.discard(name, "tx-1")
    assert (outside / "keep").exists()
    assert list((tmp_path / "files").iterdir()) == []


def test_links_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    files = DatasetFiles(tmp_path / "files")
    (tmp_path / "files" / "d").symlink_to(outside)
    for call in (
        lambda: files.open_write(PUT, SCHEMA),
        lambda: files.read(REQUEST),
        lambda: files.discard("d", "tx-1"),
    ):
        with pytest.raises(NotFoundError, match="does not lie in this agent's folder"):
            call()
    assert files.sweep({}, 1e9, 1.0) == []
    assert os.listdir(outside) == ["keep"]


def test_sweep_counts_from_when_it_was_first_unused(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    seal(files, PUT, 1)
    seal(files, PutPath("d", "tx-2", "w", 0), 2)
    live = {"d": {"tx-1"}}
    assert files.sweep(live, 1000.0, 60.0) == []
    assert files.sweep(live, 1059.0, 60.0) == []
    assert files.sweep(live, 1060.0, 60.0) == ["d/tx-2"]
    assert values(files) == [1]
    assert files.sweep({}, 2000.0, 60.0) == []
    assert files.sweep(live, 2030.0, 60.0) == []  # in use again: counted anew
    assert files.sweep({}, 2061.0, 60.0) == []
    writer = files.open_write(PutPath("d", "tx-1", "w", 1), SCHEMA)
    assert files.sweep({}, 9000.0, 60.0) == []  # somebody writes
    writer.abandon()
    assert files.sweep({}, 9001.0, 60.0) == []
    assert files.sweep({}, 9061.0, 60.0) == ["d/tx-1"]
    assert list(tmp_path.iterdir()) == []


def test_discarding_spares_a_later_dataset_of_the_name(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    seal(files, PUT, 1)
    seal(files, PutPath("d", "tx-2", "w", 0), 2)
    files.discard("d", "tx-1")
    files.discard("d", "tx-0")
    with pytest.raises(PartitionLostError):
        values(files)
    assert values(files, replace(REQUEST, parts=(Part("tx-2", "w", 0),))) == [2]


def test_another_schema_is_refused(tmp_path: Path) -> None:
    writer = DatasetFiles(tmp_path).open_write(PUT, SCHEMA)
    with pytest.raises(DataError, match="another schema than the put"):
        writer.write(0, pa.record_batch({"x": [1]}))
    writer.abandon()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="can't make the dataset folder"):
        DatasetFiles(tmp_path / "file")


def test_manifests_notice_every_changed_byte(tmp_path: Path) -> None:
    files = DatasetFiles(tmp_path)
    seal(files, PUT, 1, 2)
    path = tmp_path / "d" / "tx-1" / "w-0.manifest"
    data = path.read_bytes()
    for index in range(len(data)):
        for wrong in (data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :], data[:index]):
            path.write_bytes(wrong)
            with pytest.raises(DataError, match=r"w#0 of tx-1: the manifest is damaged: its check"):
                files.has(REQUEST)
    path.write_bytes(data)
    assert values(files) == [1, 2]


def test_a_manifest_of_another_version_is_named(tmp_path: Path) -> None:
    text = b'{"version": 2}'
    path = tmp_path / "d" / "tx-1" / "w-0.manifest"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"%s\n%08x\n" % (text, zlib.crc32(text)))
    with pytest.raises(DataError, match="the manifest has version 2, expected 1"):
        DatasetFiles(tmp_path).has(REQUEST)
