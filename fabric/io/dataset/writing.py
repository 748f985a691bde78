"""Writing one attempt of one writer aside, and sealing it.

One job: `FileWriter`, the `PutWriter` of an owner. Files of all partitions go to a folder that no
reader looks at; `seal` makes them durable (fsync of files, folder, manifest) and renames the
manifest into place, over that of an earlier try of the same attempt.
"""

from __future__ import annotations

import os
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric.errors import DataError, FabricError, InternalError, NotFoundError, StorageError
from fabric.flight.transport import PartReceipt
from fabric.io.dataset.manifest import Manifest, PartFile, decode_manifest, encode_manifest

_OPTIONS = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=False)


def part_name(partition: int) -> str:
    """The file of a partition within an attempt's folder."""
    return f"p{partition:05d}.arrows"


class FileWriter:
    """Writes below `transaction` (a folder); `stem` names writer and attempt, `shown` the put."""

    def __init__(self, transaction: Path, stem: str, schema: pa.Schema, shown: str) -> None:
        self._transaction, self._stem, self._schema = transaction, stem, schema
        self._shown = shown
        self._folder = transaction / f"{stem}-{secrets.token_hex(6)}"
        self._open: dict[int, tuple[pa.OSFile, pa.ipc.RecordBatchStreamWriter]] = {}
        self._rows: dict[int, int] = {}
        self._crc32c_sum = 0
        self._state = "open"
        with self._guard():
            self._folder.mkdir(parents=True, mode=0o700)

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append rows to a partition's file; no rows only say that the partition belongs here."""
        self._check_open()
        if not batch.schema.equals(self._schema):
            raise DataError(f"a batch of put {self._shown} has another schema than the put")
        self._rows[partition] = self._rows.get(partition, 0) + batch.num_rows
        if not batch.num_rows:
            return
        with self._guard():
            self._stream(partition).write_batch(batch)
            self._crc32c_sum = (self._crc32c_sum + batch_crc32c(batch)) & 0xFFFFFFFF

    def seal(self) -> PartReceipt:
        """Make the attempt durable and visible to readers of its transaction."""
        self._check_open()
        with self._guard():
            files = {partition: self._end(partition) for partition in sorted(self._rows)}
            _sync_folder(self._folder)
            manifest = Manifest(
                folder=self._folder.name,
                schema=self._schema,
                rows=sum(self._rows.values()),
                crc32c_sum=self._crc32c_sum,
                files=files,
            )
            self._publish(encode_manifest(manifest))
        self._state = "sealed"
        return PartReceipt(manifest.rows, manifest.crc32c_sum)

    def abandon(self) -> None:
        """Remove what was written; nothing after `seal`."""
        if self._state in ("open", "refused"):
            self._state = "abandoned"
            for file, stream in self._open.values():
                with suppress(pa.ArrowException, OSError):  # a full disk fails again here
                    stream.close()
                with suppress(pa.ArrowException, OSError):
                    file.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def refuse(self) -> None:
        """Its transaction is gone: from another thread, tell the writing one to give up."""
        if self._state == "open":
            self._state = "refused"

    def is_open_in(self, transaction: Path) -> bool:
        """Whether this is still being written, below that folder."""
        return self._state == "open" and self._transaction == transaction

    def _check_open(self) -> None:
        if self._state == "refused":
            self.abandon()
            raise NotFoundError(f"put {self._shown} comes too late: the transaction was aborted")
        if self._state != "open":
            raise InternalError(f"put {self._shown} has ended: it is {self._state}")

    def _stream(self, partition: int) -> pa.ipc.RecordBatchStreamWriter:
        if partition not in self._open:
            file = pa.OSFile(str(self._folder / part_name(partition)), "wb")
            self._open[partition] = (file, pa.ipc.new_stream(file, self._schema, options=_OPTIONS))
        return self._open[partition][1]

    def _end(self, partition: int) -> PartFile:
        if partition not in self._open:
            return PartFile(0, 0, 0)
        file, stream = self._open[partition]
        stream.close()
        file.close()
        path = self._folder / part_name(partition)
        n_bytes, crc32 = checksum_file(path)
        _sync_file(path)
        return PartFile(self._rows[partition], n_bytes, crc32)

    def _publish(self, manifest: bytes) -> None:
        """Rename into place; the files of the try it replaces go."""
        place = self._transaction / f"{self._stem}.manifest"
        aside = self._transaction / f"{self._folder.name}.aside"
        with open(aside, "xb") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        before = place.read_bytes() if place.exists() else b""
        os.replace(aside, place)
        for folder in (
            self._transaction,
            self._transaction.parent,
            self._transaction.parent.parent,
        ):
            _sync_folder(folder)
        with suppress(DataError):  # a damaged one names no folder; sweeping finds it
            if before:
                shutil.rmtree(self._transaction / decode_manifest(before).folder, True)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """A failure leaves nothing behind, and says which put and why, but no path."""
        try:
            yield
        except FabricError:
            self.abandon()
            raise
        except OSError as error:
            self.abandon()
            raise storage_error(error, f"can't write put {self._shown}") from error


def checksum_file(path: Path) -> tuple[int, int]:
    """Size and CRC-32 of a file, read in pieces."""
    size = crc = 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            size += len(piece)
            crc = zlib.crc32(piece, crc)
    return size, crc


def storage_error(error: OSError, what: str) -> StorageError:
    """`StorageError` with the system's reason, without its path."""
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return StorageError(f"{what}: {reason}")


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
