"""Manifests and acknowledgements as bytes that prove themselves.

    fabric-checkpoint 1 <bytes of the body> <CRC32C, 8 hex digits>⏎
    <canonical JSON: keys in order, no spaces, ASCII>

One job: `encode` and `decode`. The checksum covers the rest of the first line, too. Reading is
strict: what was cut off, changed in any byte, is of a newer format, or is not exactly what
`encode` writes of its meaning is refused with a `DataError` that names the file.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, TypeVar

from fabric._cython.shuffle.checksum import crc32c
from fabric.checkpoint.manifest import (
    FileRecord,
    Manifest,
    Seal,
    SinkHandle,
    SnapshotAck,
    TaskSnapshot,
)
from fabric.errors import DataError

VERSION = 1
_MANIFEST, _ACK = "fabric-checkpoint", "fabric-ack"
_LINE_MAX = 80
_T = TypeVar("_T")


def encode(manifest: Manifest) -> bytes:
    """The bytes of a manifest; equal manifests have equal ones.

    >>> manifest = Manifest(job="j", checkpoint=3, epoch=1, run=0, plan="p", wall_us=0, tasks=())
    >>> decode(encode(manifest), "j/3/MANIFEST") == manifest
    True
    """
    return _sealed(_MANIFEST, _manifest_fields(manifest))


def decode(data: bytes, where: str) -> Manifest:
    """What `encode` wrote; `where` names the bytes in errors."""
    return _unsealed(_MANIFEST, data, where, _manifest, _manifest_fields)


def encode_snapshot_ack(ack: SnapshotAck) -> bytes:
    """The bytes of an acknowledgement, as they travel and are written down."""
    return _sealed(_ACK, _ack_fields(ack))


def decode_snapshot_ack(data: bytes, where: str = "an acknowledgement") -> SnapshotAck:
    """What `encode_snapshot_ack` wrote."""
    return _unsealed(_ACK, data, where, _ack, _ack_fields)


def seal_of(data: bytes) -> Seal:
    """Size and checksum of a manifest's bytes."""
    return Seal(len(data), crc32c(data))


def check_seal(data: bytes, seal: Seal, where: str) -> None:
    """Refuse a manifest that is whole, but not the one that was committed."""
    if (found := seal_of(data)) != seal:
        raise DataError(
            f"{where} is not the manifest that was committed: {found.n_bytes} bytes of checksum "
            f"{found.crc32c:08x}, expected {seal.n_bytes} of {seal.crc32c:08x}"
        )


# ---- the frame


def _sealed(kind: str, fields: dict[str, Any]) -> bytes:
    body = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    head = f"{kind} {VERSION} {len(body)} ".encode()
    return head + f"{crc32c(head + body):08x}\n".encode() + body


def _unsealed(
    kind: str,
    data: bytes,
    where: str,
    read: Callable[[_Fields], _T],
    write: Callable[[_T], dict[str, Any]],
) -> _T:
    version, body = _framed(kind, data, where)
    if version != VERSION:
        raise DataError(
            f"{where} has format {version}, this Fabric reads format {VERSION}; use the release "
            "that wrote it, or a newer one"
        )
    try:
        found = read(_Fields(json.loads(body)))
    except DataError as error:
        raise DataError(f"{where} is damaged: {error.message}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{where} does not say what it should: {_said(error)}") from error
    if _sealed(kind, write(found)) != data:
        raise DataError(f"{where} holds more than this Fabric would write; it was changed")
    return found


def _framed(kind: str, data: bytes, where: str) -> tuple[int, bytes]:
    """The version and body; everything that a crash or a disk can do to bytes is found here."""
    line, newline, body = data[:_LINE_MAX].partition(b"\n")
    if not newline:
        whole = len(data) < _LINE_MAX and f"{kind} ".encode().startswith(data[: len(kind) + 1])
        raise DataError(
            f"{where} is cut off: it ends in its first line" if whole
            else f"{where} is damaged, or no {kind} file: it has no first line"
        )  # fmt: skip
    body = data[len(line) + 1 :]
    try:
        name, version, n_bytes, crc = line.decode("ascii").split(" ")
        said = (int(version), int(n_bytes), int(crc, 16))
    except ValueError as error:
        raise DataError(f"{where} is damaged: its first line can't be read") from error
    if line != f"{kind} {said[0]} {said[1]} {said[2]:08x}".encode():
        raise DataError(f"{where} is damaged, or no {kind} file: it begins with {name[:40]!r}")
    if len(body) < said[1]:
        raise DataError(f"{where} is cut off: {len(body)} of {said[1]} bytes are there")
    if crc32c(line[: line.rindex(b" ") + 1] + body) != said[2]:
        raise DataError(f"{where} is damaged: its checksum differs")
    return said[0], body


# ---- the fields


class _Fields(dict[str, Any]):
    """A JSON object that only gives what has the right type."""

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise TypeError(f"{type(value).__name__} instead of an object")
        super().__init__(value)

    def number(self, name: str) -> int:
        """A whole number."""
        return _number(self[name])

    def text(self, name: str) -> str:
        """A text."""
        return _text(self[name])

    def each(self, name: str) -> list[Any]:
        """A list."""
        return _list(self[name])


def _manifest_fields(manifest: Manifest) -> dict[str, Any]:
    return {
        "job": manifest.job, "checkpoint": manifest.checkpoint, "epoch": manifest.epoch,
        "run": manifest.run, "plan": manifest.plan, "wall_us": manifest.wall_us,
        "tasks": [_snapshot_fields(task) for task in manifest.tasks],
    }  # fmt: skip


def _manifest(fields: _Fields) -> Manifest:
    return Manifest(
        job=fields.text("job"),
        checkpoint=fields.number("checkpoint"),
        epoch=fields.number("epoch"),
        run=fields.number("run"),
        plan=fields.text("plan"),
        wall_us=fields.number("wall_us"),
        tasks=tuple(_snapshot(_Fields(each)) for each in fields.each("tasks")),
    )


def _ack_fields(ack: SnapshotAck) -> dict[str, Any]:
    return {
        "checkpoint": ack.checkpoint, "stage": ack.stage, "task": ack.task,
        "attempt": ack.attempt, "epoch": ack.epoch, "taken": ack.taken,
        "snapshots": [_snapshot_fields(each) for each in ack.snapshots],
    }  # fmt: skip


def _ack(fields: _Fields) -> SnapshotAck:
    return SnapshotAck(
        checkpoint=fields.number("checkpoint"),
        stage=fields.number("stage"),
        task=fields.number("task"),
        attempt=fields.number("attempt"),
        epoch=fields.number("epoch"),
        snapshots=tuple(_snapshot(_Fields(each)) for each in fields.each("snapshots")),
        taken=fields.number("taken"),
    )


def _snapshot_fields(task: TaskSnapshot) -> dict[str, Any]:
    return {
        "node": task.node, "task": task.task, "attempt": task.attempt,
        "groups": [task.key_groups.start, task.key_groups.stop],
        "files": [[file.name, file.n_bytes, file.crc32c, file.content] for file in task.files],
        "positions": [[split, _packed(at)] for split, at in task.positions],
        "handles": [[handle.checkpoint, _packed(handle.data)] for handle in task.handles],
    }  # fmt: skip


def _snapshot(fields: _Fields) -> TaskSnapshot:
    begin, end = map(_number, fields.each("groups"))
    files = [(_text(n), _number(b), _number(c), _text(t)) for n, b, c, t in fields.each("files")]
    return TaskSnapshot(
        node=fields.text("node"),
        task=fields.number("task"),
        attempt=fields.number("attempt"),
        key_groups=range(begin, end),
        files=tuple(FileRecord(*each) for each in files),
        positions=tuple((_text(s), _unpacked(at)) for s, at in fields.each("positions")),
        handles=tuple(SinkHandle(_number(n), _unpacked(d)) for n, d in fields.each("handles")),
    )


def _number(value: object) -> int:
    if type(value) is not int:  # bool is an int, too
        raise TypeError(f"{type(value).__name__} instead of a whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a text")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} instead of a list")
    return value


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unpacked(value: object) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except binascii.Error as error:
        raise ValueError("bytes that are not base64") from error


def _said(error: Exception) -> str:
    return (
        f"{type(error).__name__} {error}"[:200] if isinstance(error, KeyError) else str(error)[:200]
    )
