"""The metadata store of a simulated coordinator: a log on a simulated disk.

One job: `LogStore`, a `MetadataStore`. Each `apply` is one record with its length and checksum,
synced before it returns; opening reads up to the last whole record. While the disk is away nobody
knows which records were written.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from fabric.coordinator.metadata.store import TABLES, Table, Write
from fabric.errors import StorageAwayError, StorageError
from tests.support.sim.disk import File

_HEADER = struct.Struct("<II")
_FIELD = struct.Struct("<i")
_EPOCH = "epoch"


class LogStore:
    """See `MetadataStore`. Opens what an earlier process left on `file`."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._tables: dict[Table, dict[str, bytes]] = {table: {} for table in TABLES}
        self._epoch = self._n_records = 0
        self._closed = False
        self._replay()

    def apply(self, writes: Sequence[Write]) -> None:
        """See `MetadataStore.apply`."""
        self._check_open()
        self._record([(w.table, w.key, w.value) for w in writes])
        for write in writes:
            self._put(write.table, write.key, write.value)

    def scan(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """See `MetadataStore.scan`."""
        self._check_open()
        return iter(sorted(self._tables[table].items()))

    def next_epoch(self) -> int:
        """See `MetadataStore.next_epoch`."""
        self._check_open()
        self._epoch += 1
        self._record([(_EPOCH, "", str(self._epoch).encode())])
        return self._epoch

    def close(self) -> None:
        """See `MetadataStore.close`."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the metadata store is closed")

    def _record(self, fields: Sequence[tuple[str, str, bytes | None]]) -> None:
        if self._file.full:
            raise StorageError("the disk is full")
        self._n_records += 1
        if self._file.away and self._n_records % 2:
            raise StorageAwayError("the store does not answer; nothing was written")
        body = b"".join(_field(part) for each in fields for part in _parts(*each))
        self._file.append(_HEADER.pack(len(body), zlib.crc32(body)) + body)
        self._sync()
        if self._file.away:
            raise StorageAwayError("the store does not answer; the record was written")

    def _sync(self) -> None:
        self._file.sync()

    def _put(self, table: str, key: str, value: bytes | None) -> None:
        if table == _EPOCH:
            self._epoch = int(value or b"0")
        elif value is None:
            self._tables[table].pop(key, None)  # type: ignore[index]
        else:
            self._tables[table][key] = value  # type: ignore[index]

    def _replay(self) -> None:
        data, at = self._file.read(), 0
        while at + _HEADER.size <= len(data):
            size, checksum = _HEADER.unpack_from(data, at)
            body = data[at + _HEADER.size : at + _HEADER.size + size]
            if len(body) < size or zlib.crc32(body) != checksum:
                break
            fields = list(_fields(body))
            for table, key, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
                self._put((table or b"").decode(), (key or b"").decode(), value)
            at += _HEADER.size + size
        self._file.truncate(at)


def _parts(table: str, key: str, value: bytes | None) -> tuple[bytes, bytes, bytes | None]:
    return table.encode(), key.encode(), value


def _field(value: bytes | None) -> bytes:
    return _FIELD.pack(-1) if value is None else _FIELD.pack(len(value)) + value


def _fields(body: bytes) -> Iterator[bytes | None]:
    at = 0
    while at < len(body):
        (size,) = _FIELD.unpack_from(body, at)
        at += _FIELD.size
        yield None if size < 0 else body[at : at + size]
        at += max(0, size)
