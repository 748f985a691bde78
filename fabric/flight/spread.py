"""Spreading rows of one writer over the owners of a dataset (design 4.10).

One job: hash-partition batches by the dataset's keys (none: evenly in turn), gather them to
messages of about 1 MiB per partition, and send each to the partition's owner. Memory is bounded by
`HELD_BYTES_MAX`, whatever the number of partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa

from fabric._cython.shuffle.partitioner import Partitioner
from fabric.control.control_pb2 import DatasetLocation
from fabric.errors import DataError, FabricError, PeerLostError
from fabric.flight.batches import empty_batch
from fabric.flight.descriptor import PutPath
from fabric.flight.transport import PartReceipt, PutOpener, PutWriter

MESSAGE_BYTES = 1 << 20
HELD_BYTES_MAX = 32 << 20


class Spread:
    """One attempt of one writer; end it with `seal` or `abandon`.

    `location` says keys, partitions and owners; `addresses` where those are. Every partition is
    written, also those without a row, so that a reader can tell "none" from "lost".
    """

    def __init__(
        self,
        put: PutPath,
        location: DatasetLocation,
        transport: PutOpener,
        addresses: Mapping[str, str],
    ) -> None:
        self._put, self._location, self._transport = put, location, transport
        self._schema = read_schema(location)
        self._split = _splitter(location, self._schema)
        self._addresses = {owner: self._address(owner, addresses) for owner in location.owners}
        self._writers: dict[str, PutWriter] = {}
        self._held: dict[int, list[pa.RecordBatch]] = {}
        self._held_bytes: dict[int, int] = {}
        self._pinned_bytes = 0
        self._written: set[int] = set()
        self.rows = 0

    @property
    def schema(self) -> pa.Schema:
        """What every batch must have."""
        return self._schema

    def write(self, batch: pa.RecordBatch) -> None:
        """Send the rows of `batch` on their way; it must have the dataset's schema."""
        if not batch.schema.equals(self._schema):
            raise DataError(
                f"the rows have columns {_columns(batch.schema)}, dataset "
                f"{self._put.name!r} has {_columns(self._schema)}"
            )
        self.rows += batch.num_rows
        for partition, rows in self._split(batch):
            self._hold(partition, rows)
        self._pinned_bytes += batch.nbytes
        if self._pinned_bytes > HELD_BYTES_MAX:
            self._unpin()

    def seal(self) -> PartReceipt:
        """Wait until all rows lie durably with their owners."""
        for partition in range(self._location.n_partitions):
            if partition in self._held:
                self._flush(partition)
            elif partition not in self._written:
                self._send(partition, empty_batch(self._schema))
        receipts = []
        for owner in sorted(self._addresses):
            with _at(owner):
                receipts.append(self._writer(owner).seal())
        return PartReceipt(
            rows=sum(receipt.rows for receipt in receipts),
            crc32c_sum=sum(receipt.crc32c_sum for receipt in receipts) & 0xFFFFFFFF,
        )

    def abandon(self) -> None:
        """Give up; nothing stays with any owner. Does nothing after `seal`."""
        self._held.clear()
        self._held_bytes.clear()
        for writer in list(self._writers.values()):
            writer.abandon()

    def _hold(self, partition: int, rows: pa.RecordBatch) -> None:
        self._held.setdefault(partition, []).append(rows)
        size = self._held_bytes.get(partition, 0) + rows.nbytes
        self._held_bytes[partition] = size
        if size >= MESSAGE_BYTES:
            self._flush(partition)

    def _flush(self, partition: int) -> None:
        held = self._held.pop(partition)
        del self._held_bytes[partition]
        self._send(partition, held[0] if len(held) == 1 else pa.concat_batches(held))

    def _send(self, partition: int, batch: pa.RecordBatch) -> None:
        self._written.add(partition)
        owner = self._location.owners[partition]
        with _at(owner):
            self._writer(owner).write(partition, batch)

    def _unpin(self) -> None:
        """Copy what is held: a slice of one row keeps its whole batch in memory."""
        while sum(self._held_bytes.values()) > HELD_BYTES_MAX // 2:
            self._flush(max(self._held_bytes, key=self._held_bytes.__getitem__))
        for partition, held in self._held.items():
            self._held[partition] = [pa.concat_batches(held)]
        self._pinned_bytes = sum(self._held_bytes.values())

    def _writer(self, owner: str) -> PutWriter:
        if owner not in self._writers:
            address = self._addresses[owner]
            self._writers[owner] = self._transport.open_put(address, self._put, self._schema)
        return self._writers[owner]

    def _address(self, owner: str, addresses: Mapping[str, str]) -> str:
        if owner not in addresses:
            raise PeerLostError(
                f"agent {owner} owns partitions of dataset {self._put.name!r} and is not "
                "connected; start it again, or overwrite the dataset",
                agent=owner,
            )
        return addresses[owner]


@contextmanager
def _at(owner: str) -> Iterator[None]:
    """Errors in here name the owner by its id, not by its address."""
    try:
        yield
    except FabricError as error:
        error.where = replace(error.where, agent=owner)
        raise


def read_schema(location: DatasetLocation) -> pa.Schema:
    """The schema of a dataset."""
    return pa.ipc.read_schema(pa.py_buffer(location.schema))


class _ByHash:
    """Rows to partitions by the hash of their keys."""

    def __init__(self, schema: pa.Schema, keys: list[str], n_partitions: int) -> None:
        self._partitioner = Partitioner(schema, keys, n_partitions)

    def __call__(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        reordered, offsets = self._partitioner.partition(batch)
        ends = [int(offset) for offset in offsets]
        for partition, (begin, end) in enumerate(pairwise(ends)):
            if end > begin:
                yield partition, reordered.slice(begin, end - begin)


class _InTurn:
    """Each batch cut into equal runs; which partition begins goes on from batch to batch."""

    def __init__(self, n_partitions: int) -> None:
        self._n, self._next = n_partitions, 0

    def __call__(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        n_runs = min(self._n, batch.num_rows)
        for run in range(n_runs):
            begin, end = (batch.num_rows * k // n_runs for k in (run, run + 1))
            yield (self._next + run) % self._n, batch.slice(begin, end - begin)
        self._next = (self._next + n_runs) % self._n


def _splitter(location: DatasetLocation, schema: pa.Schema) -> _ByHash | _InTurn:
    keys = list(location.keys)
    return _ByHash(schema, keys, location.n_partitions) if keys else _InTurn(location.n_partitions)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)[:1000]
