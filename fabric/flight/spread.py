"""Spreading rows of one writer over the owners of a dataset.

One job: `Spread`, the typed face of `fabric/_cython/shuffle/datasets/spread.hpp`: rows are split by
the dataset's keys (none: evenly in turn), gathered to messages of about 1 MiB per partition, and
each is sent to all owners of the partition. Memory is bounded by `HELD_BYTES_MAX`, whatever the
number of partitions.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from fabric._cython.shuffle.datasets.spread import NativeSpread
from fabric.control.control_pb2 import DatasetLocation
from fabric.control.datasets import all_owners
from fabric.errors import PeerLostError
from fabric.flight.descriptor import PutPath
from fabric.flight.transport import PartReceipt, PutOpener, PutWriter

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
        *,
        held_bytes_max: int = HELD_BYTES_MAX,
    ) -> None:
        at = {owner: _address(put, owner, addresses) for owner in all_owners(location)}
        schema = read_schema(location)

        def open_put(owner: str) -> PutWriter:
            return transport.open_put(at[owner], put, schema)

        self._native = NativeSpread(location.SerializeToString(), open_put, held_bytes_max)

    @property
    def schema(self) -> pa.Schema:
        """What every batch must have."""
        return self._native.schema

    @property
    def rows(self) -> int:
        """How many were written so far."""
        return self._native.rows

    def write(self, batch: pa.RecordBatch) -> None:
        """Send the rows of `batch` on their way; it must have the dataset's schema."""
        self._native.write(batch)

    def seal(self) -> PartReceipt:
        """Wait until all rows lie durably with all their owners; each row counts once."""
        return PartReceipt(*self._native.seal())

    def abandon(self) -> None:
        """Give up; nothing stays with any owner. Does nothing after `seal`."""
        self._native.abandon()


def read_schema(location: DatasetLocation) -> pa.Schema:
    """The schema of a dataset."""
    return pa.ipc.read_schema(pa.py_buffer(location.schema))


def _address(put: PutPath, owner: str, addresses: Mapping[str, str]) -> str:
    if owner not in addresses:
        raise PeerLostError(
            f"agent {owner} owns partitions of dataset {put.name!r} and is not "
            "connected; start it again, or overwrite the dataset",
            agent=owner,
        )
    return addresses[owner]
