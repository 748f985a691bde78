"""Manifests read back as they were written, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.checksum import crc32c
from fabric.checkpoint.codec import (
    check_seal,
    decode,
    decode_savepoint,
    decode_snapshot_ack,
    encode,
    encode_savepoint,
    encode_snapshot_ack,
    seal_of,
)
from fabric.checkpoint.manifest import (
    FileRecord,
    Manifest,
    Seal,
    SinkHandle,
    SnapshotAck,
    TaskSnapshot,
)
from fabric.checkpoint.savepoint import PLAN_CHARS_MAX, Savepoint, check_savepoint_name
from fabric.errors import ConfigError, DataError

from .conftest import ACKS, MANIFESTS, SAVEPOINTS

FILE = FileRecord("state", 10, 99, "db-7")
TASK = TaskSnapshot("window_2", 0, 3, range(10), (FILE,), (("s", b"\0"),), (SinkHandle(4, b"h"),))
ONE = Manifest(job="j", checkpoint=5, epoch=2, run=1, wall_us=7, tasks=(TASK,))

KEPT = Savepoint(
    name="a", stream="clicks", job_name="j", plan="scan", key_groups=64, release="0.1.0",
    created_us=7, manifest=ONE,
).without_handles()  # fmt: skip


@given(MANIFESTS)
def test_a_manifest_reads_as_written(manifest: Manifest) -> None:
    data = encode(manifest)
    assert decode(data, "x") == manifest
    assert data.isascii()
    check_seal(data, seal_of(data), "x")


@given(ACKS)
def test_an_ack_reads_as_written(ack: SnapshotAck) -> None:
    assert decode_snapshot_ack(encode_snapshot_ack(ack)) == ack


@given(SAVEPOINTS)
def test_a_savepoint_reads_as_written(savepoint: Savepoint) -> None:
    assert decode_savepoint(encode_savepoint(savepoint), "x") == savepoint


READERS = pytest.mark.parametrize(
    ("data", "read"),
    [(encode(ONE), decode), (encode_savepoint(KEPT), decode_savepoint)],
    ids=["manifest", "savepoint"],
)


@READERS
def test_a_record_cut_off_at_any_byte_is_refused(data: bytes, read: Callable[..., object]) -> None:
    for size in range(len(data)):
        with pytest.raises(DataError, match="j/5 is cut off"):
            read(data[:size], "j/5")


@READERS
def test_a_record_with_any_bit_flipped_is_refused(data: bytes, read: Callable[..., object]) -> None:
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            with pytest.raises(DataError, match=r"j/5 (is|has|holds)"):
                read(bytes(changed), "j/5")


@given(MANIFESTS, st.data())
def test_any_other_bytes_are_refused(manifest: Manifest, data: st.DataObject) -> None:
    written = encode(manifest)
    place = data.draw(st.integers(0, len(written) - 1))
    changed = bytearray(written)
    changed[place] = data.draw(st.integers(0, 255).filter(lambda b: b != written[place]))
    with pytest.raises(DataError):
        decode(bytes(changed), "x")
    with pytest.raises(DataError):
        decode(written + data.draw(st.binary(min_size=1, max_size=3)), "x")


def sealed(body: bytes, kind: bytes = b"fabric-checkpoint", version: int = 3) -> bytes:
    """What has a right checksum, whatever it says."""
    head = b"%s %d %d " % (kind, version, len(body))
    return head + b"%08x\n" % crc32c(head + body) + body


def test_what_another_release_wrote_is_named() -> None:
    for version in (1, 4):
        says = f"j/5 has format {version}, this Fabric reads formats 2 and 3; use the release that"
        with pytest.raises(DataError, match=says):
            decode(sealed(b"{}", version=version), "j/5")
    with pytest.raises(DataError, match="begins with 'fabric-ack'"):
        decode(encode_snapshot_ack(SnapshotAck(1, 0, 0, 0, 0)), "j/5")
    with pytest.raises(DataError, match="x has format 3, this Fabric reads formats 1 and 2; use"):
        decode_savepoint(sealed(b"{}", b"fabric-savepoint", version=3), "x")
    with pytest.raises(DataError, match="begins with 'fabric-checkpoint'"):
        decode_savepoint(encode(ONE), "x")


@pytest.mark.parametrize("change", [
    {"run": True}, {"run": 1.0}, {"run": "1"}, {"run": None}, {"run": -1}, {"checkpoint": 0},
    {"job": 1}, {"tasks": {}}, {"tasks": [1]}, {"tasks": [{}]}, {"more": 1}, {"run": 2**63},
])  # fmt: skip
def test_what_says_something_else_is_refused(change: dict[str, object]) -> None:
    fields = json.loads(encode(ONE).partition(b"\n")[2]) | change
    body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(DataError, match=r"x (is damaged|does not say|holds more)"):
        decode(sealed(body), "x")


@pytest.mark.parametrize("change", [
    {"name": ""}, {"name": "a/b"}, {"name": "a\n"}, {"name": "a" * 129}, {"name": 1},
    {"plan": "a" * (PLAN_CHARS_MAX + 1)}, {"plan": None}, {"stream": "a" * 129}, {"job_name": 2},
    {"key_groups": 0}, {"key_groups": 9}, {"key_groups": 2**32}, {"key_groups": 64.0},
    {"created_us": -1}, {"release": []}, {"manifest": {}}, {"more": 1}, {"folder": "/etc"},
])  # fmt: skip
def test_a_savepoint_that_says_something_else_is_refused(change: dict[str, object]) -> None:
    fields = json.loads(encode_savepoint(KEPT).partition(b"\n")[2]) | change
    body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(DataError, match=r"x (is damaged|does not say|holds more)"):
        decode_savepoint(sealed(body, b"fabric-savepoint", version=2), "x")


def older(data: bytes, kind: bytes, version: int) -> bytes:
    """What the release before wrote of the same: it did not count rows."""
    body = data.partition(b"\n")[2]
    assert body.count(b'"rows":') == 1
    return sealed(body.replace(b'"rows":null,', b""), kind, version)


def test_the_format_before_is_read_and_has_no_counts_of_rows() -> None:
    ack = SnapshotAck(5, 0, 0, 0, 0, ONE.tasks)
    old = older(encode(ONE), b"fabric-checkpoint", 2)
    assert decode(old, "x") == ONE
    assert ONE.n_rows is None
    assert decode_snapshot_ack(older(encode_snapshot_ack(ack), b"fabric-ack", 1)) == ack
    assert decode_savepoint(older(encode_savepoint(KEPT), b"fabric-savepoint", 1), "x") == KEPT
    with pytest.raises(DataError, match="x holds more than this Fabric would write"):
        decode(sealed(encode(ONE).partition(b"\n")[2], version=2), "x")


@pytest.mark.parametrize("n_rows", [-1, 2**63, 1.0, True, "1"])
def test_what_is_no_count_of_rows_is_refused(n_rows: object) -> None:
    fields = json.loads(encode(ONE).partition(b"\n")[2])
    fields["tasks"][0]["rows"] = n_rows
    body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(DataError, match=r"x (is damaged|does not say)"):
        decode(sealed(body), "x")


def test_a_savepoint_has_nothing_that_a_sink_prepared() -> None:
    data = encode_savepoint(replace(KEPT, manifest=ONE))
    with pytest.raises(DataError, match="x names rows that a sink prepared"):
        decode_savepoint(data, "x")


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "\0", "x" * 129, "a/b", "/", "\ud800"])
def test_what_a_savepoint_cannot_be_called(name: str) -> None:
    with pytest.raises(ConfigError, match="can't be the name of a savepoint"):
        check_savepoint_name(name)


@pytest.mark.parametrize("body", [
    b"", b"[]", b"null", b"{", b"NaN", b"[" * 9000, b'{"run":1,"run":1}', b"\xff",
])  # fmt: skip
def test_what_is_no_manifest_is_refused(body: bytes) -> None:
    with pytest.raises(DataError, match=r"^x "):
        decode(sealed(body), "x")


def test_a_whole_manifest_that_is_another_one_is_refused() -> None:
    data = encode(ONE)
    with pytest.raises(DataError, match="x is not the manifest that was committed"):
        check_seal(data, Seal(len(data), crc32c(data) ^ 1), "x")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "A", "a\0", "ä", "a" * 129, "../state"])
def test_names_that_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(DataError, match="can't be a file of a snapshot"):
        FileRecord(name, 0, 0)


def test_parts_in_disorder_are_refused() -> None:
    with pytest.raises(DataError, match="each once"):
        TaskSnapshot("n", 0, 0, range(1), (FILE, FILE))
    with pytest.raises(DataError, match="each once"):
        SnapshotAck(1, 0, 0, 0, 0, (TASK, TASK))


def test_what_a_manifest_adds_up() -> None:
    later = TaskSnapshot(
        "window_2", 1, 0, range(10, 20), (), (("t", b"2"),), (SinkHandle(5, b"i"),)
    )
    both = Manifest(job="j", checkpoint=5, epoch=2, run=1, wall_us=7, tasks=(TASK, later))
    assert (both.n_bytes, both.n_files) == (10, 1)
    assert replace(both, tasks=(replace(TASK, n_rows=3), replace(later, n_rows=4))).n_rows == 7
    assert replace(both, tasks=(replace(TASK, n_rows=3), later)).n_rows is None
    assert both.of_node("window_2") == (TASK, later)
    assert both.positions("window_2") == {"s": b"\0", "t": b"2"}
    assert both.handles() == {"window_2": (b"h", b"i")}
    ack = SnapshotAck(5, 0, 0, 0, 0, (TASK,)).without_handles_up_to(4)
    assert ack.snapshots[0].handles == ()
