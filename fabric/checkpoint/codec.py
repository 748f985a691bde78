"""Manifests, acknowledgements and savepoints as bytes that prove themselves.

    fabric-checkpoint 3 <bytes of the body> <CRC32C, 8 hex digits>⏎
    <canonical JSON: keys in order, no spaces, ASCII>

One job: `encode` and `decode`. The checksum covers the rest of the first line, too. Reading is
strict: what was cut off, changed in any byte, is of a newer format, or is not exactly what
`encode` writes of its meaning is refused with a `DataError` that names the file. The format before
is read, too: it has no counts of rows.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from fabric._cython.shuffle.checksum import crc32c
from fabric.checkpoint.manifest import (
    FileRecord,
    Manifest,
    NodeRecord,
    Seal,
    SinkHandle,
    SnapshotAck,
    TaskSnapshot,
)
from fabric.checkpoint.savepoint import Savepoint
from fabric.errors import DataError

_OF_MANIFEST, _OF_ACK, _OF_SAVEPOINT = "fabric-checkpoint", "fabric-ack", "fabric-savepoint"
_LINE_MAX = 80


def encode(manifest: Manifest) -> bytes:
    """The bytes of a manifest; equal manifests have equal ones.

    >>> manifest = Manifest(job="j", checkpoint=3, epoch=1, run=0, wall_us=0, tasks=())
    >>> decode(encode(manifest), "j/3/MANIFEST") == manifest
    True
    """
    return _newest(_OF_MANIFEST, manifest)


def decode(data: bytes, where: str) -> Manifest:
    """What `encode` wrote; `where` names the bytes in errors."""
    found: Manifest = _unsealed(_OF_MANIFEST, data, where)
    return found


def encode_snapshot_ack(ack: SnapshotAck) -> bytes:
    """The bytes of an acknowledgement, as they travel and are written down."""
    return _newest(_OF_ACK, ack)


def decode_snapshot_ack(data: bytes, where: str = "an acknowledgement") -> SnapshotAck:
    """What `encode_snapshot_ack` wrote."""
    found: SnapshotAck = _unsealed(_OF_ACK, data, where)
    return found


def encode_savepoint(savepoint: Savepoint) -> bytes:
    """The bytes of a savepoint's record, whatever folder it lies in."""
    return _newest(_OF_SAVEPOINT, savepoint)


def decode_savepoint(data: bytes, where: str) -> Savepoint:
    """What `encode_savepoint` wrote; `where` names the bytes in errors."""
    found: Savepoint = _unsealed(_OF_SAVEPOINT, data, where)
    if found != found.without_handles():
        raise DataError(f"{where} names rows that a sink prepared; a savepoint has none")
    return found


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


def _newest(kind: str, value: Any) -> bytes:
    """A value in the newest format of its kind."""
    version = max(_FORMATS[kind])
    return _sealed(kind, version, _FORMATS[kind][version].write(value))


def _sealed(kind: str, version: int, fields: dict[str, Any]) -> bytes:
    body = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    head = f"{kind} {version} {len(body)} ".encode()
    return head + f"{crc32c(head + body):08x}\n".encode() + body


def _unsealed(kind: str, data: bytes, where: str) -> Any:
    version, body = _framed(kind, data, where)
    if (form := (known := _FORMATS[kind]).get(version)) is None:
        raise DataError(
            f"{where} has format {version}, this Fabric reads formats "
            f"{' and '.join(map(str, known))}; use the release that wrote it"
            f"{', or a newer one' if version > max(known) else ''}"
        )
    try:
        found = form.read(json.loads(body))
    except DataError as error:
        raise DataError(f"{where} is damaged: {error.message}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{where} does not say what it should: {_said(error)}") from error
    if _sealed(kind, version, form.write(found)) != data:
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


@dataclass(frozen=True, slots=True)
class _Form:
    """How a value is written as JSON, and how it is read: what has another type is refused."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _each(form: _Form) -> _Form:
    """Several values, as a list."""
    return _Form(
        lambda values: [form.write(value) for value in values],
        lambda found: tuple(form.read(value) for value in _list(found)),
    )


def _row(make: Callable[..., Any], parts: Callable[[Any], Iterable[Any]], *forms: _Form) -> _Form:
    """A list of the parts of a value, of which `make` makes it."""
    return _Form(
        lambda value: [form.write(part) for form, part in zip(forms, parts(value), strict=True)],
        lambda found: make(
            *(form.read(part) for form, part in zip(forms, _list(found), strict=True))
        ),
    )


def _object(make: Callable[..., Any], names: Mapping[str, str], **forms: _Form) -> _Form:
    """An object of the attributes of a value; `names` has those that are called otherwise there."""
    fields = [(name, names.get(name, name), form) for name, form in forms.items()]

    def read(found: Any) -> Any:
        if not isinstance(found, dict):
            raise TypeError(f"{type(found).__name__} instead of an object")
        return make(**{name: form.read(found[key]) for name, key, form in fields})

    return _Form(
        lambda value: {key: form.write(getattr(value, name)) for name, key, form in fields}, read
    )


def _number(value: object) -> int:
    if type(value) is not int:  # bool is an int, too
        raise TypeError(f"{type(value).__name__} instead of a whole number")
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{type(value).__name__} instead of true or false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a text")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} instead of a list")
    return value


def _unpacked(value: object) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except binascii.Error as error:
        raise ValueError("bytes that are not base64") from error


def _count(value: object) -> int | None:
    return None if value is None else _number(value)


_N, _TEXT, _FLAG = _Form(_number, _number), _Form(_text, _text), _Form(_flag, _flag)
_BYTES = _Form(lambda data: base64.b64encode(data).decode(), _unpacked)


def _forms(**more: _Form) -> tuple[_Form, _Form, _Form]:
    """Of manifests, acknowledgements and savepoints; with what `more` a task's snapshot has."""
    snapshot = _object(
        TaskSnapshot, {"key_groups": "groups", "n_rows": "rows"}, node=_TEXT, task=_N, attempt=_N,
        key_groups=_row(range, attrgetter("start", "stop"), _N, _N),
        files=_each(_row(
            FileRecord, attrgetter("name", "n_bytes", "crc32c", "content"), _TEXT, _N, _N, _TEXT
        )),
        positions=_each(_row(lambda *pair: pair, tuple, _TEXT, _BYTES)),
        handles=_each(_row(SinkHandle, attrgetter("checkpoint", "data"), _N, _BYTES)), **more,
    )  # fmt: skip
    manifest = _object(
        Manifest, {}, job=_TEXT, checkpoint=_N, epoch=_N, run=_N, wall_us=_N,
        tasks=_each(snapshot), nodes=_each(_object(
            NodeRecord, {}, path=_TEXT, kind=_TEXT, text=_TEXT, named=_FLAG, keys=_each(_TEXT),
            schema=_TEXT, parts=_each(_row(lambda *pair: pair, tuple, _TEXT, _TEXT)),
        )),
    )  # fmt: skip
    ack = _object(
        SnapshotAck, {}, checkpoint=_N, stage=_N, task=_N, attempt=_N, epoch=_N, taken=_N,
        snapshots=_each(snapshot),
    )  # fmt: skip
    savepoint = _object(
        Savepoint, {}, name=_TEXT, stream=_TEXT, job_name=_TEXT, plan=_TEXT, key_groups=_N,
        release=_TEXT, created_us=_N, manifest=manifest,
    )  # fmt: skip
    return manifest, ack, savepoint


_OLDER, _NEWER = _forms(), _forms(n_rows=_Form(_count, _count))
_FORMATS: Mapping[str, Mapping[int, _Form]] = {
    _OF_MANIFEST: {2: _OLDER[0], 3: _NEWER[0]},
    _OF_ACK: {1: _OLDER[1], 2: _NEWER[1]},
    _OF_SAVEPOINT: {1: _OLDER[2], 2: _NEWER[2]},
}
"""What is read; the newest is written."""


def _said(error: Exception) -> str:
    return (
        f"{type(error).__name__} {error}"[:200] if isinstance(error, KeyError) else str(error)[:200]
    )
