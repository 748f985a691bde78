"""The manifest of one sealed attempt: which files it has, and their checksums.

One job: to and from bytes. It is written last, by rename: an attempt is there when its manifest is.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass

import pyarrow as pa

from fabric.errors import DataError

_VERSION = 1


@dataclass(frozen=True, slots=True)
class PartFile:
    """One partition's file: its size and the CRC-32 of all its bytes."""

    rows: int
    n_bytes: int
    crc32: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one attempt of one writer left with one owner.

    `folder` is the name of the folder beside the manifest. `files` holds every partition that
    belongs to this owner; those without rows have no file.
    """

    folder: str
    schema: pa.Schema
    rows: int
    crc32c_sum: int
    files: dict[int, PartFile]


def encode_manifest(manifest: Manifest) -> bytes:
    """Two lines: JSON, and the CRC-32 of the first."""
    fields = {
        "version": _VERSION,
        "folder": manifest.folder,
        "schema": base64.b64encode(manifest.schema.serialize()).decode(),
        "rows": manifest.rows,
        "crc32c_sum": manifest.crc32c_sum,
        "files": {str(p): [f.rows, f.n_bytes, f.crc32] for p, f in manifest.files.items()},
    }
    text = json.dumps(fields, sort_keys=True).encode()
    return b"%s\n%08x\n" % (text, zlib.crc32(text))


def decode_manifest(data: bytes) -> Manifest:
    """Read a manifest; `DataError` when a single byte of it is not as it was written."""
    text, _, check = data.partition(b"\n")
    if check != b"%08x\n" % zlib.crc32(text):
        raise DataError("the manifest is damaged: its checksum differs")
    fields = json.loads(text)
    if fields["version"] != _VERSION:
        raise DataError(f"the manifest has version {fields['version']}, expected {_VERSION}")
    return Manifest(
        folder=fields["folder"],
        schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields["schema"]))),
        rows=fields["rows"],
        crc32c_sum=fields["crc32c_sum"],
        files={int(p): PartFile(*entry) for p, entry in fields["files"].items()},
    )
