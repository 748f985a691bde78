"""Puts to the owners of a dataset's partitions, from whoever splits the rows by owner.

`Spread` is the typed face of `fabric/_cython/shuffle/datasets/spread.hpp`: rows are split by the
dataset's keys (none: evenly in turn), gathered to messages of about 1 MiB per partition, and each
is sent to all owners of the partition. Memory is bounded by `HELD_BYTES_MAX`, whatever the number
of partitions.

`OwnerPut` is the `PutWriter` of one owner, over a native put
(`fabric/_cython/shuffle/pump/put.hpp`). Messages carry headers with checksums, the stream ends with
an END event with the total of rows, and the owner acknowledges once all of it lies durably there. A
stream without its END is never sealed.

`patiently` is for clients that put rows into an open transaction while an owner starts again: an
attempt that is put again under the same writer and number takes the place of the one before, so
nothing doubles; a plain put (begin, put and commit in one) is never made twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from fabric._cython.shuffle.datasets.spread import NativeSpread
from fabric._cython.shuffle.pump.pump import Connections
from fabric.control.control_pb2 import DatasetLocation
from fabric.control.datasets import all_owners
from fabric.errors import FabricError, PartitionLostError, PeerLostError
from fabric.flight.descriptor import PutPath
from fabric.flight.transport import PartReceipt, PutOpener, PutWriter
from fabric.security.tls import TlsError, explain

HELD_BYTES_MAX = 32 << 20
R = TypeVar("R")
OWNER_WAIT_S = 45.0
"""How long an owner that is away is waited for."""
KEPT_BYTES_MAX = 64 << 20
"""Rows of an iterator are kept up to so many bytes, to be put again."""
_PAUSE_S, _PAUSE_S_MAX = 0.1, 2.0


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


@contextmanager
def from_agent(
    address: str, tls_roots: bytes | None = None, *, new: bool = False
) -> Iterator[None]:
    """Errors in here came from, or on the way to, the server at `address`.

    When a handshake failed, or nobody answered who is `new`, it is seen whether that is TLS's.
    """
    try:
        yield
    except FabricError as error:
        is_unclear = isinstance(error, PeerLostError) and (new or "handshake" in error.message)
        if is_unclear and (why := explain(address, tls_roots)):
            raise TlsError(why).at(agent=address) from error
        raise error.at(agent=address) from error.__cause__


class OwnerPut:
    """One put to the owner at `address`; `native` is what the data plane writes to itself."""

    def __init__(
        self,
        connections: Connections,
        address: str,
        put: PutPath,
        schema: pa.Schema,
        *,
        token: str,
        idle_s: float,
    ) -> None:
        self.address, self._rows = address, 0
        self.native = connections.put(
            address, replace(put, to_owner=True).path, schema,
            token=token, idle_s=idle_s, job=put.transaction, attempt=put.attempt,
        )  # fmt: skip

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """See `PutWriter.write`."""
        with self._sending():
            self.native.write(batch, partition)
        self._rows += batch.num_rows

    def seal(self) -> PartReceipt:
        """See `PutWriter.seal`."""
        with self._sending():
            receipt = PartReceipt.from_json(self.native.seal())
            if receipt.rows != self._rows:
                raise PartitionLostError(
                    f"the owner sealed {receipt.rows} of {self._rows} rows", agent=self.address
                )
        return receipt

    def abandon(self) -> None:
        """See `PutWriter.abandon`."""
        self.native.abandon()

    @contextmanager
    def _sending(self) -> Iterator[None]:
        try:
            with from_agent(self.address):
                yield
        except BaseException:
            self.native.abandon()
            raise


def patiently(
    call: Callable[[], R],
    wait_s: float = OWNER_WAIT_S,
    *,
    may_repeat: Callable[[], bool] = lambda: True,
) -> R:
    """Call until no agent was away, for `wait_s` at most; then what failed last says it waited."""
    end_s, pause_s = time.monotonic() + wait_s, _PAUSE_S
    while True:
        try:
            return call()
        except PeerLostError as error:
            left_s = end_s - time.monotonic()
            if not may_repeat():
                raise
            if left_s <= 0:
                raise (_waited(error, wait_s) if wait_s else error) from error.__cause__
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)


def _waited(error: PeerLostError, wait_s: float) -> PeerLostError:
    where = error.where
    return PeerLostError(
        f"{error.message} (waited {wait_s:.0f} s for it)",
        job=where.job, node=where.node, task=where.task, agent=where.agent,
    )  # fmt: skip


class Kept:
    """Batches that may be gone through again: a list, or an iterator's as long as they are few."""

    def __init__(self, batches: Iterable[pa.RecordBatch], bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._again = isinstance(batches, Sequence)
        self._rest = batches if self._again else iter(batches)
        self._bytes_left = bytes_max
        self._kept: list[pa.RecordBatch] = []

    @property
    def is_whole(self) -> bool:
        """Whether the first batch is still there."""
        return self._again or self._bytes_left >= 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All batches, from the first one on."""
        if self._again:
            yield from self._rest
            return
        yield from list(self._kept)
        for batch in self._rest:
            self._bytes_left -= batch.nbytes
            if self.is_whole:
                self._kept.append(batch)
            else:
                self._kept.clear()
            yield batch
